"""The figures as people read them: a table on the terminal, markdown for the documents and the README."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Row, shown
from benchmarks.measures import MEASURES
from benchmarks.reasons import OF_MEASURES, told

COLUMNS = ("", "median", "range", "floor")


def cells(row: Row, judged: bool = True) -> tuple[str, str, str, str]:
    """Floors are for the full scale: on less, what is spent once weighs too much."""
    verdict = ("reached" if row.holds else "MISSED") if judged else "at scale 1"
    floor = f"{row.floor} {verdict}" if row.floor else ""
    return row.name, f"{shown(row.median)} {row.unit}", row.range, floor


def _by_measure(rows: Iterable[Row]) -> dict[str, list[Row]]:
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row.measure, []).append(row)
    # In the order in which they are told, whatever the order of the run.
    return {name: parts[name] for name in MEASURES if name in parts}


def print_rows(console: Console, rows: Sequence[Row], *, judged: bool) -> None:
    for name, part in _by_measure(rows).items():
        table = Table(title=MEASURES[name].title, title_justify="left", title_style="bold")
        for column in COLUMNS:
            table.add_column(column, justify="left" if column in ("", "floor") else "right")
        for row in part:
            table.add_row(*cells(row, judged), style="red" if judged and not row.holds else None)
        console.print(table)


def markdown(rows: Iterable[tuple[str, ...]], head: tuple[str, ...]) -> str:
    lines = [head, ("---", *["---:"] * (len(head) - 1)), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _facts(facts: Mapping[str, Any]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in facts.items())


def readme(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """What decides whether it is fast enough, one line each."""
    lines = [
        (f"{MEASURES[name].title}: {row.name}", f"{shown(row.median)} {row.unit}", str(row.floor or ""))
        for name, part in _by_measure(rows).items()
        for row in part
        if row.headline
    ]
    return f"{markdown(lines, ('what', 'median', 'floor'))}\n\n{_facts(facts)}\n"


def parts(rows: Sequence[Row], facts: Mapping[str, Any]) -> dict[str, str]:
    """The parts of docs/understand/benchmarks.md, by measure. Each says where it was measured: the runs differ."""
    return {
        name: f"## {MEASURES[name].title}\n\n{MEASURES[name].text}\n\n"
        f"{markdown(map(cells, part), COLUMNS)}\n\n{_missed(name, part)}`python -m benchmarks {name}`; {_facts(facts)}."
        for name, part in _by_measure(rows).items()
    }


def _missed(name: str, part: Iterable[Row]) -> str:
    return "" if all(row.holds for row in part) else f"{told(OF_MEASURES.get(name))}\n\n"
