"""`python -m tests.outbox [--kills 100] [--seed 1] [--database mysql]`: kill -9 of two relays, the server and the
database under load.

Exit code 0 only if nothing was lost, invented, doubled or refused.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.outbox.kills import Play
from tests.outbox.mysql_server import MysqlServer, program
from tests.outbox.postgres_server import PostgresServer, programs


def _database(name: str) -> PostgresServer | MysqlServer | None:
    """None: its program is not there."""
    if name == "mysql":
        return MysqlServer(server) if (server := program()) is not None else None
    return PostgresServer(folder) if (folder := programs()) is not None else None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.outbox", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=("postgres", "mysql"), default="postgres")
    parser.add_argument("--pause-ms", type=float, default=10.0, help="of each of the four writers between transactions")
    given = parser.parse_args()
    database = _database(given.database)
    if database is None:
        print("There is no such database: install Debian's postgresql, or mariadb-server.", file=sys.stderr)
        return 2
    database.make()
    database.start()
    try:
        with tempfile.TemporaryDirectory(prefix="timerd-outbox-", ignore_cleanup_errors=True) as temporary:
            play = Play(database, Path(temporary), given.pause_ms / 1000)
            report = asyncio.run(play.run(given.kills, given.seed, lambda words: print(words, file=sys.stderr)))
    finally:
        database.stop()
    print(report)
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
