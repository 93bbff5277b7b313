"""What a measure finds, and what it has to reach."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


class BenchmarkFailed(Exception):
    """A measure could not be carried out: a sentence."""


class TooBusy(BenchmarkFailed):
    """The machine was not ready in time. Another try, with more time, is no other measure."""


class TasksLost(BenchmarkFailed):
    """The one thing that no figure makes up for."""


@dataclass(frozen=True, slots=True)
class Floor:
    """What is not good enough beyond it."""

    limit: float
    at_least: bool

    def holds(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {shown(self.limit)}"


def at_least(limit: float) -> Floor:
    return Floor(limit, True)


def at_most(limit: float) -> Floor:
    return Floor(limit, False)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of one run. `headline`: it belongs into the README."""

    name: str
    value: float
    unit: str
    floor: Floor | None = None
    headline: bool = False
    # For the plots: a curve, a time line, the number of pending tasks.
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """The same figure over all runs."""

    measure: str
    name: str
    unit: str
    values: tuple[float, ...]
    floor: Floor | None
    headline: bool

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def holds(self) -> bool:
        return self.floor is None or self.floor.holds(self.median)

    @property
    def range(self) -> str:
        return f"{shown(min(self.values))} - {shown(max(self.values))}" if len(self.values) > 1 else ""


def forbidden(rows: Iterable[Row]) -> list[str]:
    """A sentence for each row of tasks of which there may be none (early, twice), and some run had one. That is no
    question of how fast anything was, so it fails a run at any scale."""
    broken = [row for row in rows if row.unit == "tasks" and row.floor == at_most(0) and max(row.values) > 0]
    return [f"{row.measure}, {row.name}: {max(row.values):,.0f} tasks, and there may be none." for row in broken]


def record_of(measure: str, run: int, figure: Figure) -> dict[str, Any]:
    """A JSON line."""
    floor = figure.floor and {"limit": figure.floor.limit, "at_least": figure.floor.at_least}
    return {
        "measure": measure,
        "run": run,
        "name": figure.name,
        "value": figure.value,
        "unit": figure.unit,
        "floor": floor,
        "headline": figure.headline,
        **figure.more,
    }


def rows_of(records: Iterable[dict[str, Any]]) -> list[Row]:
    """In the order in which the figures first came."""
    together: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in records:
        together.setdefault((record["measure"], record["name"]), []).append(record)
    return [_row(measure, name, same) for (measure, name), same in together.items()]


def _row(measure: str, name: str, same: list[dict[str, Any]]) -> Row:
    first = same[0]
    floor = Floor(**first["floor"]) if first["floor"] else None
    values = tuple(float(record["value"]) for record in same)
    return Row(measure, name, first["unit"], values, floor, first["headline"])


def lasted(seconds: float) -> str:
    minutes, rest_s = divmod(round(seconds), 60)
    return f"{minutes} min {rest_s} s" if minutes else f"{rest_s} s"


def shown(value: float) -> str:
    """Three digits that matter; no more are there."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
