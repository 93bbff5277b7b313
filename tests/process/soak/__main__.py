"""`python -m tests.process.soak --minutes 30 --rate 2000 --kill-every 60`: exit code 0 only if every promise held and
memory, open files and disk are flat after the warm-up; 1 if not; 2 if the promises held as far as could be seen, but
the machine did not keep the pace, so that flatness and lateness say nothing."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.process.soak.books import shown
from tests.process.soak.plot import draw
from tests.process.soak.run import Report, Settings, run
from tests.process.soak.samples import FLAT_SHARE, GROWING, Trend, lateness_of, write_csv

_MIB = 1 << 20


def say(line: str) -> None:
    print(line, flush=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.process.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=int, default=2000, help="Tasks a second.")
    parser.add_argument("--kill-every", type=float, default=60.0, metavar="SECONDS", help="On the average.")
    parser.add_argument("--sample-every", type=float, default=2.0, metavar="SECONDS")
    parser.add_argument("--warm-up", type=float, metavar="MINUTES", help="10, or a third of a shorter run.")
    parser.add_argument("--keep-history", default="1m", metavar="SPAN", help="Of the server; 24h is its default.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="For data and logs, kept afterwards; must not exist.")
    parser.add_argument("--plot", type=Path, default=Path("build/soak.png"))
    parser.add_argument("--csv", type=Path, default=Path("build/soak.csv"))
    given = parser.parse_args()
    if given.minutes <= 0 or given.rate < 1 or given.kill_every <= 0:
        parser.error("--minutes, --rate and --kill-every must be above 0.")
    return given


def main() -> int:
    given = parsed()
    warm_up_min = min(10.0, given.minutes / 3) if given.warm_up is None else given.warm_up
    with tempfile.TemporaryDirectory(prefix="timerd-soak-", ignore_cleanup_errors=True) as temporary:
        folder = given.folder or Path(temporary)
        if given.folder:
            folder.mkdir(parents=True)
        settings = Settings(
            seconds=given.minutes * 60,
            rate=given.rate,
            kill_every_s=given.kill_every,
            sample_every_s=given.sample_every,
            warm_up_s=warm_up_min * 60,
            history=given.keep_history,
            seed=given.seed,
            folder=folder,
        )
        report = run(settings, say)
    given.csv.parent.mkdir(parents=True, exist_ok=True)
    write_csv(report.samples, given.csv)
    title = f"{given.minutes:g} minutes at {given.rate:,} tasks a second, {len(report.kills)} kills"
    draw(report.samples, report.killed_s, settings.warm_up_s, title, given.plot)
    for line in table(report):
        say(line)
    say(f"drawn into {given.plot}, samples in {given.csv}")
    return exit_code(report)


def exit_code(report: Report) -> int:
    if not report.holds:
        return 1
    if report.behind or report.outstanding:
        return 2
    return 0 if all(each.is_flat for each in report.trends) else 1


def table(report: Report) -> list[str]:
    counts, settings = report.counts, report.settings
    last = max(report.samples, key=lambda each: each.at_s)
    p99s = [each.late_p99_ms for each in report.samples]
    lines = [
        f"history_retention {settings.history} (so that disk can become flat), seed {settings.seed}",
        f"kills: {report.server_kills} of the server, {len(report.kills) - report.server_kills} of a worker",
        "scheduled {scheduled:,}, arrived {arrived:,}, acks confirmed {confirmed:,}".format(**counts),
        f"pace {last.scheduled / last.at_s:,.0f} tasks a second",
        f"median over the samples of the p99 lateness: {lateness_of(p99s)[0]:.1f} ms",
    ]
    for name in ("cancelled", "moved", "unanswered", "cancels_unknown", "moves_unknown", "forgotten_by_a_crash"):
        lines.append(f"{name.replace('_', ' ')}: {counts.get(name, 0):,}")
    repeats, explained = counts.get("duplicates", 0), counts.get("duplicates_explained", 0)
    lines.append(f"duplicates {repeats:,}, of deliveries without a confirmed ack {explained:,}")
    lines.append(f"memory of the judge {last.judge_rss_bytes // _MIB} MiB")
    lines += [_row(each, settings.warm_up_s) for each in report.trends]
    lines += _behind(report)
    lines += shown(report.broken)
    lines.append("every promise held" if report.holds else "NOT every promise held")
    return lines


def _behind(report: Report) -> list[str]:
    """No promise is broken by being late; but it must be told from what breaks one."""
    lines, late = [], report.behind
    if late:
        worst_s = max(each.late_p50_ms for each in late) / 1000
        lines.append(
            f"FELL BEHIND in {len(late)} of {len(report.samples)} samples, from minute {late[0].at_s / 60:.1f} to "
            f"{late[-1].at_s / 60:.1f}; half of what came was up to {worst_s:,.0f} s late. This machine did not keep "
            "the pace (look at its load, or give a lower --rate): flatness and lateness say nothing, the promises do."
        )
    if report.outstanding:
        lines.append(f"{report.outstanding:,} tasks were still coming when the run ended: whether lost, is not known")
    return lines


def _row(trend: Trend, warm_up_s: float) -> str:
    unit = GROWING[trend.name]
    mean, largest, rise = ((each / _MIB if unit else each) for each in (trend.mean, trend.largest, trend.rise))
    verdict = "flat" if trend.is_flat else f"NOT flat (more than {FLAT_SHARE:.0%} of the mean)"
    return (
        f"{trend.name.replace('_bytes', '')}: mean {mean:,.1f} {unit}, largest {largest:,.1f} {unit}, "
        f"rise after minute {warm_up_s / 60:.1f}: {rise:+,.1f} {unit}: {verdict}"
    )


if __name__ == "__main__":
    sys.exit(main())
