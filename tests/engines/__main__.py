"""`python -m tests.engines fetch` brings what the tests need into the cache folder, `... find` says what they use."""

from __future__ import annotations

import sys

from tests.engines.cassandra_node import NodeFailed, fetch_jars
from tests.engines.finding import NotFound, cassandra, redis
from tests.engines.redis_server import RedisFailed


def main() -> int:
    try:
        if sys.argv[1:] == ["fetch"]:
            print(f"the jars of Cassandra are in {fetch_jars()}")
        elif sys.argv[1:] == ["find"]:
            with cassandra() as found:
                print(f"Cassandra: {found.how}, {found.address}:{found.port}")
            with redis() as found_redis:
                print(f"Redis: {found_redis.how}, {found_redis.url}")
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except (NodeFailed, NotFound, RedisFailed) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
