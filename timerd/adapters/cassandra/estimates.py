"""About how many tasks are due in each minute: every process writes what it counted in all, readers add up.

Overwriting one's own total needs no counter column and may be repeated. Who keeps too many totals in mind goes on as
somebody else, whose totals begin at nothing: readers add them up. A total expires a day after its minute: it is an
estimate, and nothing rests on it.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping

from timerd.adapters.cassandra.days import DAY_MS, Days, day_of
from timerd.adapters.cassandra.driver import BATCH_ROWS, READS, ROWS, Driver, Statement, Values
from timerd.adapters.cassandra.waiting import every

# What Cassandra takes: just under 20 years.
_MOST_TTL_S = 19 * 366 * 86_400
# Of some 250 bytes each: a month of tasks has 43,000 minutes of each queue.
MOST_TOTALS = 100_000
Minute = tuple[str, str, int]


class Estimates:
    def __init__(self, driver: Driver, days: Days, now_ms: Callable[[], int]) -> None:
        self._driver = driver
        self._days = days
        self._now_ms = now_ms
        self._begin()
        self._add = driver.prepare(
            "INSERT INTO estimates (namespace, day, queue, minute_ms, incarnation, count) VALUES (?, ?, ?, ?, ?, ?) "
            "USING TTL ?",
            ROWS,
        )
        self._of_day = driver.prepare(
            "SELECT queue, minute_ms, count FROM estimates WHERE namespace = ? AND day = ?", READS
        )

    def _begin(self) -> None:
        self._incarnation = secrets.randbits(62)
        self._totals: defaultdict[Minute, int] = defaultdict(int)

    async def add(self, counts: Mapping[Minute, int]) -> None:
        now_ms = self._now_ms()
        for minute, count in counts.items():
            self._totals[minute] += count
        days: defaultdict[tuple[str, int], list[Minute]] = defaultdict(list)
        for namespace, queue, minute_ms in counts:
            days[namespace, day_of(minute_ms)].append((namespace, queue, minute_ms))
        await every(
            self._driver.write_all(self._rows(day, minutes[at : at + BATCH_ROWS], now_ms))
            for day, minutes in days.items()
            for at in range(0, len(minutes), BATCH_ROWS)
        )
        for namespace in {namespace for namespace, _ in days}:
            await self._days.add(_kind(namespace), {(day, "") for space, day in days if space == namespace})
        if len(self._totals) > MOST_TOTALS:
            self._begin()

    async def between(self, namespace: str, queue: str, lo_ms: int, hi_ms: int) -> dict[int, int]:
        days = await self._days.between(_kind(namespace), lo_ms, hi_ms)
        read = await every(self._driver.rows(self._of_day, (namespace, day)) for day in days)
        out: defaultdict[int, int] = defaultdict(int)
        for name, minute_ms, count in (row for rows in read for row in rows):
            if queue in ("", name) and lo_ms <= minute_ms < hi_ms:
                out[minute_ms] += count
        return dict(out)

    def _rows(self, day: tuple[str, int], minutes: list[Minute], now_ms: int) -> list[tuple[Statement, Values]]:
        namespace, number = day
        rows: list[tuple[Statement, Values]] = []
        for minute in minutes:
            _, queue, minute_ms = minute
            ttl_s = max(1, min(_MOST_TTL_S, (minute_ms + DAY_MS - now_ms) // 1_000))
            values = (namespace, number, queue, minute_ms, self._incarnation, self._totals[minute], ttl_s)
            rows.append((self._add, values))
        return rows


def _kind(namespace: str) -> str:
    return f"estimates/{namespace}"
