"""Registers: lightweight transactions alone, one at a time for a register within this process.

A transaction whose outcome did not come back is UNKNOWN, never repeated by us or the driver: the caller settles it
by a serial read. Transactions of one register compete by interrupting each other, so those of this process queue.

A time to live would count from the moment of writing, and nothing may go while a bucket of its time is open, which an
outage may keep open for any time. So a register only notes its day, and goes when every bucket of that day is finished:
by a transaction that looks at the register's own time once more, since it may have been extended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from timerd.adapters.cassandra.days import DAY_MS, Days, day_of
from timerd.adapters.cassandra.driver import READS, REGISTERS, ROWS, SERIAL, Driver
from timerd.adapters.cassandra.shared import SharedReads
from timerd.adapters.cassandra.waiting import some_at_a_time
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.partition import Partition
from timerd.model.registers import RegisterKey, Table, control_key
from timerd.ports import Cas, CasResult, CasStatus

# For those that do not expire: later than any time, so that one comparison decides.
NEVER_MS = 1 << 62
# Of one call.
_MOST_AT_ONCE = 100
KIND = "expiries"
SLOTS = 16
_MARGIN_US = 60_000_000
_log = logging.getLogger(__name__)


class Expiries:
    """Registers that may be forgotten, by the day after which they may."""

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


class CassandraRegisters:
    def __init__(self, driver: Driver, expiries: Expiries) -> None:
        self._driver = driver
        self._expiries = expiries
        names = {table: f'"{table.value}"' for table in Table}
        insert = "INSERT INTO {} (name, value, expires_ms) VALUES (?, ?, ?) IF NOT EXISTS"
        update = "UPDATE {} SET value = ?, expires_ms = ? WHERE name = ? IF value = ?"
        self._insert = {table: driver.prepare(insert.format(name), REGISTERS) for table, name in names.items()}
        self._update = {table: driver.prepare(update.format(name), REGISTERS) for table, name in names.items()}
        select = "SELECT value FROM {} WHERE name = ?"
        self._select = {table: driver.prepare(select.format(name), SERIAL) for table, name in names.items()}
        self._controls = driver.prepare(f"SELECT name, value FROM {names[Table.CONTROL]} WHERE name IN ?", READS)
        self._queues: dict[RegisterKey, asyncio.Future[None]] = {}
        self._shared: SharedReads[bytes, bytes] = SharedReads(self._read_controls)

    async def cas(self, changes: Sequence[Cas]) -> list[CasResult]:
        """Those of one register in their order."""
        return await some_at_a_time(self._in_turn, changes, _MOST_AT_ONCE)

    async def read(self, keys: Sequence[RegisterKey]) -> list[bytes | None]:
        return await some_at_a_time(self._read, keys, _MOST_AT_ONCE)

    async def _read(self, key: RegisterKey) -> bytes | None:
        rows = await self._driver.rows(self._select[key.table], (key.name,))
        return rows[0][0] if rows else None

    async def control(self, partition: Partition) -> bytes | None:
        """By a plain quorum read that begins now: it sees every change that was reported as applied."""
        return await self._shared.get(control_key(partition).name)

    async def _read_controls(self, names: Sequence[bytes]) -> Mapping[bytes, bytes]:
        return dict(await self._driver.rows(self._controls, (list(names),)))

    async def _in_turn(self, change: Cas) -> CasResult:
        before = self._queues.get(change.key)
        mine = self._queues[change.key] = asyncio.get_running_loop().create_future()
        try:
            if before is not None:
                await asyncio.shield(before)
            return await self._cas(change)
        except (StoreUnavailable, StoreUnknown) as error:
            _log.warning("A change of %s has an unknown outcome: %s", change.key.table.value, error)
            return CasResult(CasStatus.UNKNOWN)
        finally:
            mine.set_result(None)
            if self._queues[change.key] is mine:
                del self._queues[change.key]

    async def _cas(self, change: Cas) -> CasResult:
        table, name = change.key
        if change.expires_at_ms:
            await self._expiries.note(change.key, change.expires_at_ms)
        expires_ms = change.expires_at_ms or NEVER_MS
        if change.expected is None:
            answer = await self._driver.write(self._insert[table], (name, change.value, expires_ms))
        else:
            values = (change.value, expires_ms, name, change.expected)
            answer = await self._driver.write(self._update[table], values)
        if answer[0][0]:
            return CasResult(CasStatus.APPLIED)
        return CasResult(CasStatus.REFUSED, self._current(change, answer[0]))

    @staticmethod
    def _current(change: Cas, answer: Sequence[object]) -> bytes | None:
        """A refused INSERT answers with the row (applied, name, expires_ms, value), a refused UPDATE with (applied,
        value), or with (applied,) where there is no row."""
        value = answer[-1] if len(answer) > 1 else None
        return value if isinstance(value, bytes) else None


def _slot(name: bytes) -> int:
    return sum(name) % SLOTS
