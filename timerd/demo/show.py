"""The table at the end of the demo, and the same as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from timerd.demo.run import Report

# Of each kind of violation; the logs have all.
_EXAMPLES = 3


def record_of(report: Report) -> dict[str, Any]:
    verdict = report.verdict
    wrong = *verdict.violations.values(), report.every_second.wrong
    return {
        "holds": report.holds,
        "tasks": report.settings.tasks,
        "seconds": report.settings.seconds,
        "seed": report.settings.seed,
        "scheduled": verdict.scheduled,
        "unanswered": verdict.unanswered,
        "cancelled": verdict.cancelled,
        "moved": verdict.moved,
        "fired": verdict.fired,
        "acked": verdict.acked,
        **{name.replace(" ", "_"): len(cases) for name, cases in verdict.violations.items()},
        "duplicates": verdict.duplicates,
        "duplicates_explained": verdict.duplicates_explained,
        "every_second": {"instants": report.every_second.instants, "came": report.every_second.came},
        "down_ms": round(report.down_ms, 1),
        "lateness": {name: asdict(lateness) for name, lateness in verdict.lateness.items()},
        "ledger": [asdict(figure) | {"agrees": figure.agrees} for figure in report.figures],
        "violations": [case for cases in wrong for case in cases[:_EXAMPLES]],
    }


def show(report: Report) -> None:
    console = Console(highlight=False)
    table = Table(title="What the callers were told against what the worker received", title_justify="left")
    table.add_column("")
    table.add_column("", justify="right")
    table.add_column("")
    for name, value, note in (*_counts(report), *_violations(report)):
        table.add_row(name, f"{value:,}", note)
    console.print(table, _lateness(report), _ledger(report))
    for cases in report.verdict.violations.values():
        for case in cases[:_EXAMPLES]:
            console.print(f"[red]{case}[/red]")
    console.print(_every_second(report))
    agrees = all(figure.agrees for figure in report.figures)
    logs = "[green]all as promised[/green]" if report.verdict.holds else "[red]promises were broken[/red]"
    console.print(f"By the logs: {logs}. The server's ledger {'agrees' if agrees else '[red]does not agree[/red]'}.")


def _every_second(report: Report) -> str:
    seen = report.every_second
    each = f"A schedule of every second: {seen.came} of {seen.instants} instants came, "
    if not seen.wrong:
        return f"{each}each once and at its own time, also those of the kill. [green]ok[/green]"
    cases = "; ".join(seen.wrong[:_EXAMPLES])
    return f"{each}and {cases}. [red]WRONG[/red]"


def _counts(report: Report) -> list[tuple[str, int, str]]:
    verdict = report.verdict
    unknown = f"{verdict.unanswered} more without an answer" if verdict.unanswered else ""
    return [
        ("scheduled", verdict.scheduled, unknown),
        ("cancelled", verdict.cancelled, _of(report.cancels_asked, verdict.cancelled)),
        ("moved", verdict.moved, _of(report.moves_asked, verdict.moved)),
        ("fired", verdict.fired, _also_cancelled(verdict.delivered_then_cancelled)),
    ]


def _of(asked: int, done: int) -> str:
    return f"of {asked:,} asked; the others came too late" if asked != done else ""


def _also_cancelled(count: int) -> str:
    return f"{count:,} of them answered CANCELLED too" if count else ""


def _violations(report: Report) -> list[tuple[str, int, str]]:
    verdict = report.verdict
    rows = [(name, len(cases), _mark(not cases)) for name, cases in verdict.violations.items()]
    explained = f"{verdict.duplicates_explained:,} of them without a confirmed ack before, as promised"
    return [*rows, ("duplicates", verdict.duplicates, explained if verdict.duplicates else "")]


def _mark(good: bool) -> str:
    return "[green]ok[/green]" if good else "[red]WRONG[/red]"


def _lateness(report: Report) -> Table:
    table = Table(title=f"Lateness in ms ({report.victim} was down for {report.down_ms:,.0f} ms)", title_justify="left")
    for name in ("", "tasks", "p50", "p99", "max"):
        table.add_column(name, justify="right" if name else "left")
    for name, each in report.verdict.lateness.items():
        table.add_row(name, f"{each.count:,}", f"{each.p50_ms:,.1f}", f"{each.p99_ms:,.1f}", f"{each.max_ms:,.1f}")
    return table


def _ledger(report: Report) -> Table:
    table = Table(title="The server's own ledger", title_justify="left")
    for name in ("", "ledger", "by the logs", ""):
        table.add_column(name, justify="right" if name else "left")
    for figure in report.figures:
        allowed = f"{figure.least:,} or more" if figure.name == "inserted" else figure.allowed
        table.add_row(figure.name, f"{figure.ledger:,}", allowed, _mark(figure.agrees))
    return table
