"""A store with its tables and a Redis, found or started for whoever wants to try instances by hand; said on stderr."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.engines.cassandra_node import NodeFailed
from tests.engines.finding import Found, NotFound, cassandra, redis
from tests.engines.keyspace import settings_for
from tests.engines.redis_server import RedisFailed
from timerd.adapters.cassandra.driver import Driver
from timerd.adapters.cassandra.schema import apply_schema
from timerd.model.errors import StartupError

# Each says in a sentence what would have to be there.
CANNOT_START = (NotFound, NodeFailed, RedisFailed, StartupError)


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


@contextmanager
def store(keyspace: str) -> Iterator[Found]:
    _say("starting Cassandra ...")
    with cassandra(quick_start=False) as found:
        _say(f"Cassandra: {found.how}, {found.address}:{found.port}")
        apply_schema(settings_for(found, keyspace=keyspace))
        yield found


@contextmanager
def fresh_store(name: str) -> Iterator[tuple[Found, str]]:
    """With a keyspace of its own, which is dropped at the end: what it held would be in the next run's ledger."""
    keyspace = f"{name}_{secrets.token_hex(4)}"
    with store(keyspace) as found:
        try:
            yield found, keyspace
        finally:
            driver = Driver.connect(settings_for(found, keyspace=keyspace))
            driver.run(f'DROP KEYSPACE IF EXISTS "{keyspace}"')
            driver.shutdown()


@contextmanager
def redis_options() -> Iterator[list[str]]:
    """Instances work without it, so where there is none they are started without."""
    with ExitStack() as started:
        try:
            found = started.enter_context(redis())
        except NotFound as reason:
            _say(f"{reason} The instances do without.")
            yield []
        else:
            _say(f"Redis: {found.how}, {found.url}")
            yield ["--redis", found.url]
