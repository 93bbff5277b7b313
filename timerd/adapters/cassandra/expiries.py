"""Registers that may be forgotten, by the day after which they may.

A time to live would count from the moment of writing, and nothing may go while a bucket of its time is open, which an
outage may keep open for any time. So a register only notes its day, and goes when every bucket of that day is finished:
by a transaction that looks at the register's own time once more, since it may have been extended.
"""

from __future__ import annotations

from collections.abc import Callable

from timerd.adapters.cassandra.days import DAY_MS, Days, day_of
from timerd.adapters.cassandra.driver import READS, REGISTERS, ROWS, Driver
from timerd.model.registers import RegisterKey, Table

KIND = "expiries"
SLOTS = 16
_MARGIN_US = 60_000_000


class Expiries:
    def __init__(self, driver: Driver, days: Days, now_ms: Callable[[], int]) -> None:
        self._driver = driver
        self._days = days
        self._now_ms = now_ms
        # Days that are listed and that nobody takes off the list, as they are to come.
        self._listed: set[int] = set()
        self._note = driver.prepare("INSERT INTO expiries (day, slot, kind, name) VALUES (?, ?, ?, ?)", ROWS)
        self._of_slot = driver.prepare("SELECT kind, name FROM expiries WHERE day = ? AND slot = ?", READS)
        self._clear = driver.prepare("DELETE FROM expiries USING TIMESTAMP ? WHERE day = ? AND slot = ?", ROWS)
        remove = 'DELETE FROM "{}" WHERE name = ? IF expires_ms < ?'
        self._remove = {table: driver.prepare(remove.format(table.value), REGISTERS) for table in Table}

    async def note(self, key: RegisterKey, expires_at_ms: int) -> None:
        """Before the register is written: a note too much costs a look, one too few a register for ever."""
        day = day_of(expires_at_ms)
        await self._driver.write(self._note, (day, _slot(key.name), key.table.value, key.name))
        if day not in self._listed or day <= day_of(self._now_ms()):
            await self._days.add(KIND, [(day, "")])
            self._listed.add(day)

    async def remove(self, before_ms: int, now_us: int) -> int:
        """Those of whole days before `before_ms`; returns how many notes were worked off."""
        days = await self._days.between(KIND, -(1 << 62), before_ms - before_ms % DAY_MS)
        worked = 0
        for day in days:
            for slot in range(SLOTS):
                worked += await self._remove_slot(day, slot, before_ms, now_us)
            await self._days.forget(KIND, day, now_us - _MARGIN_US)
        return worked

    async def _remove_slot(self, day: int, slot: int, before_ms: int, now_us: int) -> int:
        noted = await self._driver.rows(self._of_slot, (day, slot))
        for kind, name in noted:
            await self._driver.write(self._remove[Table(kind)], (name, before_ms))
        if noted:
            # What is noted while this runs stays.
            await self._driver.write(self._clear, (now_us - _MARGIN_US, day, slot))
        return len(noted)


def _slot(name: bytes) -> int:
    return sum(name) % SLOTS
