"""The oracle's verdict as people read it: what happened, how late, and every kind of violation with its first cases."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from examples.departures.oracle import KINDS, Verdict

_CASES_SHOWN = 3


def show(verdict: Verdict, title: str, console: Console) -> None:
    console.print(_happened(verdict, title))
    console.print(_violations(verdict))
    console.print(_sentence(verdict))


def _happened(verdict: Verdict, title: str) -> Table:
    table = Table("", "", title=title, show_header=False)
    table.columns[1].justify = "right"
    for name, count in verdict.counts.items():
        table.add_row(name, f"{count:,}")
    if verdict.lateness_ms:
        figures = (percentile(verdict.lateness_ms, share) for share in (0.5, 0.99, 1.0))
        table.add_row("lateness p50 / p99 / max, ms", " / ".join(f"{figure:.2f}" for figure in figures))
    return table


def _violations(verdict: Verdict) -> Table:
    table = Table("violation", "cases", "such as", title="Checked for every flight")
    table.columns[1].justify = "right"
    cases = defaultdict(list)
    for violation in verdict.violations:
        cases[violation.kind].append(f"{violation.flight_id}: {violation.sentence}")
    for kind in KINDS:
        table.add_row(kind, str(len(cases[kind])), "\n".join(cases[kind][:_CASES_SHOWN]))
    return table


def _sentence(verdict: Verdict) -> str:
    if verdict.holds:
        return "Every flight was called exactly as the data and the answers say."
    return f"{len(verdict.violations):,} violations were found."


def percentile(ascending: Sequence[float], share: float) -> float:
    """The smallest value that covers the share."""
    return ascending[max(0, math.ceil(len(ascending) * share) - 1)]
