"""`python -m tests.process.overlapping [--schedules N] [--occurrences M] [--seed S]`: schedules of every second
of which no two tasks may be open, over kill -9 of their server. Exit code 0 only if none were."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.progress import Progress

from tests.process.overlapping.run import Settings, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.process.overlapping", description=__doc__)
    parser.add_argument("--schedules", type=int, default=200, help="of each policy of overlap")
    parser.add_argument("--occurrences", type=int, default=100_000, help="that a worker has handled at the end")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    settings = Settings(given.schedules, given.occurrences, given.seed)
    with tempfile.TemporaryDirectory() as folder, Progress() as progress:
        bar = progress.add_task("occurrences", total=given.occurrences)
        verdict = asyncio.run(run(settings, Path(folder), lambda count: progress.update(bar, completed=count)))
    print(json.dumps(asdict(verdict), indent=2))
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
