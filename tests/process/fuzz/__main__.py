"""`python -m tests.process.fuzz --minutes 10 --seed S`: exit code 0 only if nothing was found."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.process.fuzz.run import Report, message_of, run, send


def say(line: str) -> None:
    print(line, flush=True)


def show(report: Report) -> None:
    findings = report.findings
    for verb, counts in findings.by_verb().items():
        say(f"  {verb:20s} {sum(counts.values()):9,}  " + ", ".join(f"{s} {n:,}" for s, n in counts.most_common()))
    say(f"messages {findings.messages:,}, tasks acknowledged {len(findings.stored):,}, looked up {report.looked_up:,}")
    say(f"ordinary tasks beside them {report.control_tasks:,}")
    for fault in report.faults:
        say(f"FAULT: {fault}")
    say(f"{len(report.faults)} faults")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.process.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--send", nargs="+", metavar="VERB:BASE64", help="Only these messages, to a fresh server.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="timerd-fuzz-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        if given.send:
            report = send(folder, [message_of(text) for text in given.send])
        else:
            say(f"seed {given.seed}, {given.minutes:g} minutes")
            report = run(folder, given.minutes * 60, given.seed, say)
        show(report)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
