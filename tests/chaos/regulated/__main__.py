"""`python -m tests.chaos.regulated --rounds N [--faults kill,pause,...] [--tasks M] [--seed S]`: faults on three
instances, on one Cassandra node and one Redis, with ordering keys, limits, a rate and types of workers.

`--judge FOLDER` judges the logs of a run that was kept once more.

Exit code 0 only if every promise held.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.chaos.__main__ import Results, faults_of, set_up
from tests.chaos.all_faults import possible
from tests.chaos.regulated.judging import Verdict, judged
from tests.chaos.regulated.records import logs_of
from tests.chaos.regulated.run import Report, Run
from tests.chaos.regulated.stage import RegulatedStage

_EXAMPLES = 10
_TASKS = 90


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.regulated", description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--tasks", type=int, default=_TASKS, help="tasks to schedule in a round, about")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=faults_of, default="all", help="in turn, as those of tests.chaos")
    parser.add_argument("--ttl-ms", type=int, default=3_000, help="how long an instance is believed to live")
    parser.add_argument("--keep", type=Path, help="folder for logs, kept afterwards; must not exist")
    parser.add_argument("--judge", type=Path, help="folder of a run that was kept: nothing is started")
    parser.add_argument("--results", type=Path, default=Path("build/chaos-regulated.jsonl"), help="appended to")
    parser.add_argument("--commit", default="", help="of the code, where this is not a work tree of git")
    parser.add_argument("--address", default="127.0.0.9", help="loopback address of the node that is started")
    given = parser.parse_args()
    if given.rounds < 1 or given.tasks < 1:
        parser.error(f"--rounds is {given.rounds} and --tasks {given.tasks}; both must be 1 or more.")
    return given


def said_of(verdict: Verdict) -> dict[str, Any]:
    """Of each promise how often it was broken, and some examples."""
    said = asdict(verdict)
    wrong: dict[str, list[str]] = said.pop("wrong")
    return {
        **said,
        "wrong": {promise: len(cases) for promise, cases in wrong.items() if cases},
        "violations": [case for cases in wrong.values() for case in cases[:_EXAMPLES]],
    }


def record_of(report: Report) -> dict[str, Any]:
    return {
        "holds": report.holds,
        "stuck": report.stuck,
        "seconds": round(report.seconds, 1),
        "rounds": len(report.rounds),
        "counted": report.counted,
        **said_of(report.verdict),
    }


def played(given: argparse.Namespace, folder: Path, results: Results) -> Report:
    with ExitStack() as started:
        setting = set_up(started, given, folder)
        stage = RegulatedStage(setting)
        started.enter_context(stage.running())
        return Run(stage, possible(given.faults, setting), given.tasks, results.round).play(given.rounds)


def judged_again(folder: Path) -> int:
    others = [*folder.glob("worker-*.log"), folder / "notes.log", folder / "operator.log"]
    verdict = judged(logs_of(sorted(folder.glob("caller-*.log")), others))
    print(json.dumps(said_of(verdict), indent=2))
    return 0 if verdict.holds else 1


def main() -> int:
    given = parsed()
    if given.judge:
        return judged_again(given.judge)
    # Also `kill` ends all that was started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results = Results(given, tasks=given.tasks)
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
