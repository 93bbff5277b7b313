"""Days: how long the tables that are cut by day are, and which days of them hold anything."""

from __future__ import annotations

from collections.abc import Collection

from timerd.adapters.cassandra.driver import BATCH_ROWS, READS, ROWS, Driver
from timerd.adapters.cassandra.waiting import every

DAY_MS = 86_400_000
# Of columns of type int.
_MOST_DAY = (1 << 31) - 1


def day_of(position_ms: int) -> int:
    """Ordinal of the day since the epoch (UTC)."""
    return position_ms // DAY_MS


def clamp(day: int) -> int:
    return max(-_MOST_DAY, min(day, _MOST_DAY))


class Days:
    """`kind` names a table, or a part of it; `name` what the day holds."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._add = driver.prepare("INSERT INTO days (kind, day, name) VALUES (?, ?, ?)", ROWS)
        self._between = driver.prepare("SELECT day, name FROM days WHERE kind = ? AND day >= ? AND day <= ?", READS)
        self._forget = driver.prepare("DELETE FROM days USING TIMESTAMP ? WHERE kind = ? AND day = ?", ROWS)

    async def add(self, kind: str, places: Collection[tuple[int, str]]) -> None:
        rows = [(self._add, (kind, day, name)) for day, name in places]
        parts = (rows[at : at + BATCH_ROWS] for at in range(0, len(rows), BATCH_ROWS))
        await every(self._driver.write_all(part) for part in parts)

    async def between(self, kind: str, lo_ms: int, hi_ms: int) -> dict[int, list[str]]:
        """Day -> names, oldest first, for lo_ms <= time < hi_ms."""
        limits = clamp(day_of(lo_ms)), clamp(day_of(hi_ms - 1))
        found: dict[int, list[str]] = {}
        for day, name in await self._driver.rows(self._between, (kind, *limits)):
            found.setdefault(day, []).append(name)
        return found

    async def forget(self, kind: str, day: int, before_us: int) -> None:
        """What was added after `before_us` stays."""
        await self._driver.write(self._forget, (before_us, kind, day))
