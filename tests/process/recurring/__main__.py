"""`python -m tests.process.recurring --kills N [--seed S] [--instants M]`: kill -9 of a server with a backfill, a fixed
delay and a cycle. Exit code 0 only if every promise held."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.progress import Progress

from tests.process.recurring.run import Settings, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.process.recurring", description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--instants", type=int, help="that are backfilled (default: 250 for each kill)")
    given = parser.parse_args()
    if given.kills < 1:
        parser.error(f"--kills is {given.kills}: give 1 or more.")
    settings = Settings(given.kills, given.instants or 250 * given.kills, given.seed)
    with tempfile.TemporaryDirectory() as folder, Progress() as progress:
        bar = progress.add_task("kills", total=given.kills)
        verdict = asyncio.run(run(settings, Path(folder), lambda count: progress.update(bar, completed=count)))
    print(json.dumps(asdict(verdict), indent=2))
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
