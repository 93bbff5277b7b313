"""`python -m tests.outbox [--kills 100] [--seed 1]`: kill -9 of two relays, the server and PostgreSQL under load.

Exit code 0 only if nothing was lost, invented, doubled or refused.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.outbox.kills import Play
from tests.outbox.postgres_server import PostgresServer, programs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.outbox", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause-ms", type=float, default=10.0, help="of each of the four writers between transactions")
    given = parser.parse_args()
    folder = programs()
    if folder is None:
        print("No PostgreSQL: install Debian's postgresql.", file=sys.stderr)
        return 2
    postgres = PostgresServer(folder)
    postgres.make()
    postgres.start()
    try:
        with tempfile.TemporaryDirectory(prefix="timerd-outbox-", ignore_cleanup_errors=True) as temporary:
            play = Play(postgres, Path(temporary), given.pause_ms / 1000)
            report = asyncio.run(play.run(given.kills, given.seed, lambda words: print(words, file=sys.stderr)))
    finally:
        postgres.stop()
    print(report)
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
