"""`python -m tests.process.kill9 --kills N --tasks M --seed S`: exit code 0 only if every promise held."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.process.kill9.run import LEAST_UNACKNOWLEDGED, LEAST_UNANSWERED, Report, Settings, run

_SHOWN = 10


def say(line: str) -> None:
    print(line, flush=True)


def show(report: Report) -> None:
    verdict = report.verdict
    say(f"kills: {len(report.strikes)}, counted {report.counted} of {report.kills_wanted} wanted")
    say(f"  (>= {LEAST_UNACKNOWLEDGED} deliveries unacknowledged and >= {LEAST_UNANSWERED} calls unanswered)")
    say(f"scheduled {verdict.scheduled:,}, cancelled {verdict.cancelled:,}, moved {verdict.moved:,}")
    unknown = (verdict.unanswered, verdict.cancels_unknown, verdict.moves_unknown)
    say("left open by the answer: {:,} schedules, {:,} cancels (in flight), {:,} moves".format(*unknown))
    say(f"arrived {verdict.fired:,}, acks confirmed {verdict.acked:,}")
    say(f"duplicates {verdict.duplicates:,}, of deliveries without a confirmed ack {verdict.duplicates_explained:,}")
    say(f"delivered without a confirmed ack, then a crash, then moved: {report.forgotten:,}")
    for kind, sentences in verdict.violations.items():
        say(f"{kind}: {len(sentences)}")
        for sentence in sentences[:_SHOWN]:
            say(f"  {sentence}")
    say("every promise held" if report.holds else "NOT every promise held")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.process.kill9", description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=3500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="Folder for data and logs, kept afterwards; must not exist.")
    given = parser.parse_args()
    if given.kills < 1:
        parser.error(f"--kills is {given.kills}; it must be 1 or more.")
    with tempfile.TemporaryDirectory(prefix="timerd-kill9-", ignore_cleanup_errors=True) as temporary:
        folder = given.keep or Path(temporary)
        if given.keep:
            folder.mkdir(parents=True)
        report = run(Settings(given.kills, given.tasks, given.seed, folder), say)
        show(report)
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
