"""The verdict as a table, and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.process.kill9.run import LEAST_UNACKNOWLEDGED, LEAST_UNANSWERED, Report

_EXAMPLES = 10


def record_of(report: Report) -> dict[str, Any]:
    verdict, strikes = report.judgement.verdict, report.strikes
    return {
        "holds": report.holds,
        "faults": list(report.settings.faults),
        "seed": report.settings.seed,
        "seconds": round(report.seconds, 1),
        "strikes": len(strikes),
        "counted": report.counted,
        "least_unacknowledged": min((each.unacknowledged for each in strikes if each.counts), default=0),
        "least_unanswered": min((each.unanswered for each in strikes if each.counts), default=0),
        "acknowledged": report.acknowledged,
        "slowest_answer_ms": round(report.slowest_answer_ms),
        "arrived": verdict.fired,
        "acks_confirmed": verdict.acked,
        "cancelled": verdict.cancelled,
        "moved": verdict.moved,
        "duplicates": verdict.duplicates,
        "duplicates_explained": verdict.duplicates_explained,
        "delivered_then_moved": report.judgement.then_moved,
        "read_late": report.judgement.read_late,
        **{name.replace(" ", "_"): len(cases) for name, cases in verdict.violations.items()},
        "violations": [case for cases in verdict.violations.values() for case in cases[:_EXAMPLES]],
        "evidence": list(report.evidence),
    }


def show(report: Report) -> None:
    console = Console(highlight=False)
    table = Table(title=f"{', '.join(report.settings.faults)}: seed {report.settings.seed}", title_justify="left")
    table.add_column("")
    table.add_column("", justify="right")
    table.add_column("")
    for name, value, note in (*_counts(report), *_violations(report)):
        table.add_row(name, f"{value:,}", note)
    console.print(table)
    console.print(f"a fault counts with >= {LEAST_UNACKNOWLEDGED} deliveries and >= {LEAST_UNANSWERED} calls open")
    for cases in report.judgement.verdict.violations.values():
        for case in cases[:_EXAMPLES]:
            console.print(f"[red]{case}[/red]")
    console.print("every promise held" if report.holds else "[red]NOT every promise held[/red]")


def _counts(report: Report) -> Iterator[tuple[str, int, str]]:
    figures, verdict = record_of(report), report.judgement.verdict
    least = f"{figures['least_unacknowledged']} deliveries, {figures['least_unanswered']} calls"
    yield "faults", len(report.strikes), f"in {report.seconds:.0f} s"
    wanted = f"of {report.settings.strikes} wanted"
    yield "that count", report.counted, f"{wanted}; at the least {least} were open"
    yield "tasks acknowledged", report.acknowledged, f"{verdict.unanswered} more without an answer"
    yield "slowest answer, ms", round(report.slowest_answer_ms), "repeats of the SDK included"
    yield "cancelled", verdict.cancelled, f"{verdict.cancels_unknown} more in flight, or without an answer"
    yield "moved", verdict.moved, f"{verdict.moves_unknown} more without an answer"
    yield "arrived", verdict.fired, f"{verdict.acked:,} acks were seen to be confirmed"
    again = f"{verdict.duplicates_explained:,} of deliveries without a confirmed ack"
    yield "delivered again", verdict.duplicates, again
    yield "delivered, then moved", report.judgement.then_moved, "no confirmed ack, a fault between the two"
    yield "read late", report.judgement.read_late, "by a worker that stood still"


def _violations(report: Report) -> Iterator[tuple[str, int, str]]:
    for name, cases in report.judgement.verdict.violations.items():
        yield name, len(cases), "must be 0"
