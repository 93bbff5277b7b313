"""`python -m tests.chaos.recurring --rounds N [--faults kill,pause,...] [--of-each M] [--seed S]`: faults on three
instances, on one Cassandra node and one Redis, while schedules are created, updated, paused, resumed, triggered and
deleted.

Exit code 0 only if every promise held.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.chaos.__main__ import Results, faults_of, set_up
from tests.chaos.all_faults import possible
from tests.chaos.recurring.run import Report, Run
from tests.chaos.recurring.stage import RecurringStage

_EXAMPLES = 10
_OF_EACH = 2


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.recurring", description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--of-each", type=int, default=_OF_EACH, help="schedules of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=faults_of, default="all", help="in turn, as those of tests.chaos")
    parser.add_argument("--ttl-ms", type=int, default=3_000, help="how long an instance is believed to live")
    parser.add_argument("--keep", type=Path, help="folder for logs, kept afterwards; must not exist")
    parser.add_argument("--results", type=Path, default=Path("build/chaos-recurring.jsonl"), help="appended to")
    parser.add_argument("--commit", default="", help="of the code, where this is not a work tree of git")
    parser.add_argument("--address", default="127.0.0.8", help="loopback address of the node that is started")
    given = parser.parse_args()
    if given.rounds < 1 or given.of_each < 1:
        parser.error(f"--rounds is {given.rounds} and --of-each {given.of_each}; both must be 1 or more.")
    return given


def record_of(report: Report) -> dict[str, Any]:
    """Of each promise how often it was broken, and some examples."""
    said = asdict(report.verdict)
    wrong: Mapping[str, Sequence[str]] = said.pop("wrong")
    return {
        "holds": report.holds,
        "stuck": report.stuck,
        "seconds": round(report.seconds, 1),
        "rounds": len(report.rounds),
        "counted": report.counted,
        **said,
        "wrong": {promise: len(cases) for promise, cases in wrong.items() if cases},
        "violations": [case for cases in wrong.values() for case in cases[:_EXAMPLES]],
    }


def played(given: argparse.Namespace, folder: Path, results: Results) -> Report:
    with ExitStack() as started:
        setting = set_up(started, given, folder)
        stage = RecurringStage(setting, given.of_each)
        started.enter_context(stage.running())
        return Run(stage, possible(given.faults, setting), results.round).play(given.rounds)


def main() -> int:
    given = parsed()
    # Also `kill` ends all that was started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results = Results(given, of_each=given.of_each)
    with tempfile.TemporaryDirectory(prefix="timerd-chaos-", ignore_cleanup_errors=True) as temporary:
        folder = given.keep or Path(temporary)
        if given.keep:
            folder.mkdir(parents=True)
        report = played(given, folder, results)
    record = record_of(report)
    results.add(record)
    print(json.dumps(record, indent=2))
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
