"""`python -m tests.process.hot_second --tasks 2000000`: exit code 0 only if nothing was lost, early or given
twice, and the other queue stayed on time. It needs a machine that does nothing else."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.process.hot_second.run import SLOW_WORKERS, Report, Settings, run
from tests.process.soak.books import shown
from tests.process.soak.samples import lateness_of

_MIB = 1 << 20


def say(line: str) -> None:
    print(line, flush=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.process.hot_second", description=__doc__)
    parser.add_argument("--tasks", type=int, default=2_000_000)
    parser.add_argument("--pace", type=int, default=5_000, help="Tasks a second of each of the two slow workers.")
    parser.add_argument("--other-rate", type=int, default=100, help="Tasks a second of the other queue.")
    parser.add_argument("--window", type=float, default=120.0, metavar="SECONDS", help="Of the other queue, after it.")
    parser.add_argument("--ahead", type=float, metavar="SECONDS", help="Time to store everything in.")
    parser.add_argument("--memory-mb", type=int, default=256, help="The server's budget for loaded tasks.")
    given = parser.parse_args()
    if given.tasks < 1 or given.pace < 1 or given.other_rate < 1:
        parser.error("--tasks, --pace and --other-rate must be 1 or more.")
    return given


def main() -> int:
    given = parsed()
    lead_s = 10.0
    with tempfile.TemporaryDirectory(prefix="timerd-hot-", ignore_cleanup_errors=True) as folder:
        settings = Settings(
            tasks=given.tasks,
            pace=given.pace,
            other_rate=given.other_rate,
            lead_s=lead_s,
            window_s=given.window,
            ahead_s=given.ahead or given.tasks / 12_000 + lead_s + 5,
            memory_mb=given.memory_mb,
            patience_s=60 + 10 * max(given.window, given.tasks / given.pace / SLOW_WORKERS),
            folder=Path(folder),
            judges_lateness=True,
        )
        report = run(settings, say)
    for line in table(report):
        say(line)
    return 0 if report.holds else 1


def table(report: Report) -> list[str]:
    settings, hot_ms = report.settings, report.hot_ms
    before = [at - due for due, at in report.other if due < hot_ms]
    after = [at - due for due, at in report.other if due >= hot_ms]
    drained_s = (report.drained_ms - hot_ms) / 1000
    lines = [
        f"{settings.tasks:,} tasks due within one second, {SLOW_WORKERS} workers of {settings.pace:,} tasks a second",
        f"arrived {len(report.hot):,} within {drained_s:,.0f} s",
        f"other queue, {settings.other_rate} a second: {'count':>8} {'p50 ms':>9} {'p99 ms':>9} {'max ms':>9}",
    ]
    for name, late_ms in (("before the second", before), ("from it on", after)):
        p50, p99, largest = lateness_of(late_ms)
        lines.append(f"  {name:<26} {len(late_ms):>8,} {p50:>9.1f} {p99:>9.1f} {largest:>9.1f}")
    lines += [
        str(report.lateness),
        f"largest step of the loop from the second on: {report.largest_step_ms:.1f} ms of CPU",
    ]
    used, pss = max(report.used_bytes) / _MIB, max(report.pss_bytes) / _MIB
    lines.append(
        f"loaded tasks took at most {used:.0f} MiB (budget {settings.memory_mb} MiB), PSS at most {pss:.0f} MiB"
    )
    if not report.stored_in_time:
        lines.append("not everything was stored before the second came: give more time by --ahead")
    lines.append(f"delivered again: {report.counts.get('duplicates', 0):,}")
    return [*lines, *shown(report.broken), "every promise held" if report.holds else "NOT every promise held"]


if __name__ == "__main__":
    sys.exit(main())
