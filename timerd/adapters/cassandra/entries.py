"""Notes that never change, by place and name: a partition for each place."""

from __future__ import annotations

from collections.abc import Sequence

from timerd.adapters.cassandra.driver import READS, ROWS, Driver
from timerd.adapters.cassandra.waiting import some_at_a_time
from timerd.ports import Entry, EntryKey

# Of one call.
_MOST_AT_ONCE = 100


class EntryTable:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._add = driver.prepare('INSERT INTO "entries" (place, name, value) VALUES (?, ?, ?)', ROWS)
        self._one = driver.prepare('SELECT value FROM "entries" WHERE place = ? AND name = ?', READS)
        self._behind = driver.prepare('SELECT name, value FROM "entries" WHERE place = ? AND name > ? LIMIT ?', READS)
        self._remove = driver.prepare('DELETE FROM "entries" WHERE place = ? AND name = ?', ROWS)

    async def write(self, entries: Sequence[Entry]) -> None:
        await some_at_a_time(self._write, entries, _MOST_AT_ONCE)

    async def find(self, keys: Sequence[EntryKey]) -> list[bytes | None]:
        return await some_at_a_time(self._find, keys, _MOST_AT_ONCE)

    async def list(self, place: bytes, after: bytes, limit: int) -> list[Entry]:
        rows = await self._driver.rows(self._behind, (place, after, limit))
        return [Entry(EntryKey(place, name), value or b"") for name, value in rows]

    async def remove(self, keys: Sequence[EntryKey]) -> None:
        await some_at_a_time(self._forget, keys, _MOST_AT_ONCE)

    async def _write(self, entry: Entry) -> None:
        await self._driver.write(self._add, (*entry.key, entry.value))

    async def _find(self, key: EntryKey) -> bytes | None:
        rows = await self._driver.rows(self._one, key)
        return (rows[0][0] or b"") if rows else None

    async def _forget(self, key: EntryKey) -> None:
        await self._driver.write(self._remove, key)
