"""`python -m tests.process.kill9 --kills N --tasks M --seed S [--faults kill,stop-server,...]`.

Exit code 0 only if every promise held.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.process.kill9.faults import FAULTS
from tests.process.kill9.run import Report, Settings, run
from tests.process.kill9.show import record_of, show


def faults_of(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no fault: allowed are {', '.join(FAULTS)}.")
    return names


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.process.kill9", description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="faults that must count")
    parser.add_argument("--tasks", type=int, default=4500, help="tasks to schedule in all, about")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=faults_of, default=("kill",), help=f"in turn, of: {', '.join(FAULTS)}")
    parser.add_argument("--repeat-within-s", type=int, default=5, help="until one call in five is made again")
    parser.add_argument("--keep", type=Path, help="folder for data and logs, kept afterwards; must not exist")
    parser.add_argument("--json", action="store_true", help="the verdict as one line of JSON")
    given = parser.parse_args()
    if given.kills < 1:
        parser.error(f"--kills is {given.kills}; it must be 1 or more.")
    return given


def played(given: argparse.Namespace, folder: Path, console: Console) -> Report:
    columns = (TextColumn("{task.description}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        bar = bars.add_task("faults", total=given.kills)

        def say(event: str, counted: int) -> None:
            bars.update(bar, completed=counted)
            console.print(event, highlight=False, soft_wrap=True)

        settings = Settings(
            given.kills, given.tasks, given.seed, folder, given.faults, repeat_within_s=given.repeat_within_s
        )
        return run(settings, say)


def main() -> int:
    given, console = parsed(), Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="timerd-kill9-", ignore_cleanup_errors=True) as temporary:
        folder = given.keep or Path(temporary)
        if given.keep:
            folder.mkdir(parents=True)
        report = played(given, folder, console)
    if given.json:
        print(json.dumps(record_of(report)))
    else:
        show(report)
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
