"""Dead letters: by task, and listed by the time of death of each queue and day.

The list is written first and may name what is gone or has died again since: who reads it looks each letter up and
leaves out those that are not as the list says.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Sequence

from timerd.adapters.cassandra.days import Days, day_of
from timerd.adapters.cassandra.driver import READS, ROWS, Driver, ResultRow
from timerd.adapters.cassandra.waiting import every
from timerd.ports import DeadLetter

# Dead letters are looked up so many at a time: each may have a body of 1 MiB.
_LOOK_UPS = 20
_PAGE = 500


class DeadLetters:
    def __init__(self, driver: Driver, days: Days) -> None:
        self._driver = driver
        self._days = days
        self._list = driver.prepare(
            "INSERT INTO dead_letter_times (namespace, queue, day, died_at_ms, task_id) VALUES (?, ?, ?, ?, ?)", ROWS
        )
        self._add = driver.prepare(
            "INSERT INTO dead_letters (task_id, died_at_ms, facts, payload) VALUES (?, ?, ?, ?)", ROWS
        )
        self._find = driver.prepare(
            "SELECT task_id, died_at_ms, facts, payload FROM dead_letters WHERE task_id = ?", READS
        )
        self._remove = driver.prepare("DELETE FROM dead_letters WHERE task_id = ?", ROWS)
        place = "namespace = ? AND queue = ? AND day = ?"
        self._unlist = driver.prepare(
            f"DELETE FROM dead_letter_times WHERE {place} AND died_at_ms = ? AND task_id = ?", ROWS
        )
        self._behind = driver.prepare(
            f"SELECT died_at_ms, task_id FROM dead_letter_times WHERE {place} "
            "AND (died_at_ms, task_id) > (?, ?) AND (died_at_ms) < (?) LIMIT ?",
            READS,
        )

    async def put(self, dead_letters: Sequence[DeadLetter]) -> None:
        older = {letter.task_id: letter for letter in await self.find([letter.task_id for letter in dead_letters])}
        for kind, places in _days_of(dead_letters).items():
            await self._days.add(kind, places)
        await every(self._driver.write(self._list, _listing(letter)) for letter in dead_letters)
        await every(
            self._driver.write(self._add, (x.task_id, x.died_at_ms, x.facts(), x.payload)) for x in dead_letters
        )
        replaced = [o for x in dead_letters if (o := older.get(x.task_id)) and _listing(o) != _listing(x)]
        await every(self._driver.write(self._unlist, _listing(letter)) for letter in replaced)

    async def find(self, task_ids: Sequence[bytes]) -> list[DeadLetter]:
        found: list[ResultRow] = []
        for at in range(0, len(task_ids), _LOOK_UPS):
            part = task_ids[at : at + _LOOK_UPS]
            found += [row for rows in await every(self._driver.rows(self._find, (x,)) for x in part) for row in rows]
        return [_letter(row) for row in found]

    async def take(self, task_ids: Sequence[bytes]) -> list[DeadLetter]:
        """The letter goes first: what is left on the list names nothing."""
        found = await self.find(task_ids)
        await every(self._driver.write(self._remove, (letter.task_id,)) for letter in found)
        await every(self._driver.write(self._unlist, _listing(letter)) for letter in found)
        return found

    async def page(
        self, namespace: str, queue: str, lo_ms: int, hi_ms: int, after: bytes, limit: int
    ) -> list[DeadLetter]:
        """By (died_at_ms, task_id), those behind `after`."""
        first = (int.from_bytes(after[:8], "big"), after[8:]) if after else (lo_ms, b"")
        found: list[DeadLetter] = []
        listed: list[tuple[int, bytes]] = []
        async for place in self._listed(namespace, queue, max(first, (lo_ms, b"")), hi_ms):
            listed.append(place)
            if len(listed) >= min(_LOOK_UPS, limit - len(found)):
                found += await self._as_listed(listed)
                listed.clear()
                if len(found) >= limit:
                    return found
        return found + await self._as_listed(listed)

    async def _as_listed(self, listed: Sequence[tuple[int, bytes]]) -> list[DeadLetter]:
        times = {task_id: died_at_ms for died_at_ms, task_id in listed}
        return [x for x in await self.find([task_id for _, task_id in listed]) if times[x.task_id] == x.died_at_ms]

    async def _listed(
        self, namespace: str, queue: str, first: tuple[int, bytes], hi_ms: int
    ) -> AsyncIterator[tuple[int, bytes]]:
        """Places behind `first`, of all queues in one order."""
        for day, queues in (await self._days.between(_kind(namespace), first[0], hi_ms)).items():
            wanted = [(namespace, name, day) for name in queues if queue in ("", name)]
            place = first
            while wanted:
                read = await every(self._driver.rows(self._behind, (*of, *place, hi_ms, _PAGE)) for of in wanted)
                # Each brought its first ones, so of all together as many are surely in order.
                merged = list(heapq.merge(*map(list, read)))[:_PAGE]
                for found in merged:
                    place = found[0], found[1]
                    yield place
                if len(merged) < _PAGE:
                    break


def _kind(namespace: str) -> str:
    return f"letters/{namespace}"


def _days_of(dead_letters: Sequence[DeadLetter]) -> dict[str, set[tuple[int, str]]]:
    out: dict[str, set[tuple[int, str]]] = {}
    for letter in dead_letters:
        place = day_of(letter.died_at_ms), letter.template.queue
        out.setdefault(_kind(letter.template.namespace), set()).add(place)
    return out


def _listing(letter: DeadLetter) -> tuple[str, str, int, int, bytes]:
    template = letter.template
    return template.namespace, template.queue, day_of(letter.died_at_ms), letter.died_at_ms, letter.task_id


def _letter(row: ResultRow) -> DeadLetter:
    task_id, died_at_ms, facts, payload = row
    return DeadLetter.from_facts(task_id, died_at_ms, facts, payload or b"")
