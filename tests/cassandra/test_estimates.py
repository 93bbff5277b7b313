"""Totals of minutes: readers add up what each writer has in all, and no writer keeps ever more of them in mind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from timerd.adapters.cassandra import estimates as module
from timerd.adapters.cassandra.estimates import Estimates

NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000


class Table:
    """Stands for the driver: a row for each minute and writer, of which the last one written counts."""

    def __init__(self) -> None:
        self.rows_of: dict[tuple[Any, ...], int] = {}

    def prepare(self, query: str, _: object) -> str:
        return query

    async def write_all(self, rows: Sequence[tuple[object, tuple[Any, ...]]]) -> None:
        for _, (*name, count, _ttl_s) in rows:
            self.rows_of[tuple(name)] = count

    async def rows(self, _: object, where: tuple[str, int]) -> list[tuple[str, int, int]]:
        return [(queue, ms, count) for (*day, queue, ms, _), count in self.rows_of.items() if tuple(day) == where]


class AllDays:
    """As the register of days, which a reader goes by."""

    def __init__(self) -> None:
        self._days: set[int] = set()

    async def add(self, _: str, days: Iterable[tuple[int, str]]) -> None:
        self._days |= {day for day, _ in days}

    async def between(self, *_: object) -> list[int]:
        return sorted(self._days)


async def test_a_writer_with_too_many_minutes_in_mind_goes_on_as_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TOTALS", 10)
    table = Table()
    estimates = Estimates(table, AllDays(), lambda: NOW_MS)  # type: ignore[arg-type]
    expected: dict[int, int] = {}
    for turn in range(40):
        minutes = [NOW_MS + MINUTE_MS * ((turn + n) % 25) for n in range(3)]
        await estimates.add({("n", "q", minute_ms): turn + 1 for minute_ms in minutes})
        for minute_ms in minutes:
            expected[minute_ms] = expected.get(minute_ms, 0) + turn + 1
        assert len(estimates._totals) <= 10
    assert await estimates.between("n", "q", NOW_MS, NOW_MS + 25 * MINUTE_MS) == expected
    assert len({incarnation for *_, incarnation in table.rows_of}) > 1
