"""The table of tasks: what is written into it, and how it is read by stretches of time and by keys.

A page is cut by bytes: rows come a thousand at a time with bodies of up to 2 KiB, and larger bodies are fetched row by
row for what fits. Between pages the cursor is the place of the last row; a scan that is done has none, so the next one
begins at the front (protocol section 4: the sweep).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from timerd.adapters.cassandra.codec import (
    ROW_BYTES,
    TASK_KIND,
    Shape,
    TaskRow,
    Written,
    cursor_after,
    place_of,
    to_group,
    to_mark,
)
from timerd.adapters.cassandra.driver import BATCH_BYTES, BATCH_ROWS, PAGE_ROWS, READS, ROWS, Driver, ResultRow
from timerd.adapters.cassandra.waiting import every, some_at_a_time
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.ports import Found, Mark, Page, Stretch

_PLACE = "scope = ? AND bucket_ms = ? AND shard = ?"
_KEY = "scope, bucket_ms, shard, position_ms, digest, version, kind, written"
_FACTS = "fire_at_ms, flags, template, extra, length"
# Behind all versions and kinds of a key.
_LAST = (2**63 - 1, 127)
_READ_KEYS = f"SELECT position_ms, digest, version, kind, written, {_FACTS}, value"
_COLUMNS = {
    Shape.PLAIN: f"{_KEY}, template, length, body",
    Shape.WHOLE: f"{_KEY}, fire_at_ms, flags, extra, template, length, body",
    Shape.LARGE: f"{_KEY}, fire_at_ms, flags, extra, template, length, large",
}
# Of rows that are looked up by key, in one request.
_FIND_KEYS = 50
_FIND_PARTS = 8


def insert_of(shape: Shape) -> str:
    """In the order of `Written.values`."""
    columns = _COLUMNS[shape]
    return f"INSERT INTO tasks ({columns}) VALUES ({', '.join('?' * len(columns.split(',')))})"


class TaskTable:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._inserts = {shape: driver.prepare(insert_of(shape), ROWS) for shape in Shape}
        self._mark = driver.prepare(f"INSERT INTO tasks ({_KEY}, value) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", ROWS)
        self._drop = driver.prepare(f"DELETE FROM tasks WHERE {_PLACE}", ROWS)
        first = "position_ms >= ? AND position_ms < ?"
        # A tuple on both sides: one range may not mix tuples with single columns.
        later = "(position_ms, digest, version, kind) > (?, ?, ?, ?) AND (position_ms) < (?)"
        self._pages = {
            (keys_only, is_later): driver.prepare(
                f"{columns} FROM tasks WHERE {_PLACE} AND {stretch}", READS, PAGE_ROWS
            )
            for keys_only, columns in ((True, _READ_KEYS), (False, f"{_READ_KEYS}, body"))
            for is_later, stretch in ((False, first), (True, later))
        }
        self._find = driver.prepare(
            f"{_READ_KEYS}, body FROM tasks WHERE {_PLACE} AND (position_ms, digest) IN ?", READS, PAGE_ROWS
        )
        self._large = driver.prepare(
            f"SELECT large FROM tasks WHERE {_PLACE} AND position_ms = ? AND digest = ? AND version = ? AND kind = ? "
            "AND written = ?",
            READS,
        )

    async def write(self, rows: Sequence[Written]) -> None:
        """One mutation: rows of one partition, as many as `batches` puts together."""
        await self._driver.write_wire([(self._inserts[row.shape], row.values) for row in rows])

    async def mark(self, marks: Iterable[tuple[Mark, int]]) -> None:
        """Of one partition, each with the number of its writing."""
        await self._driver.write_all(
            [(self._mark, (*mark.partition, *mark.key, int(mark.kind), written, mark.value)) for mark, written in marks]
        )

    async def drop(self, partition: Partition) -> None:
        await self._driver.write(self._drop, partition)

    async def page(
        self, partition: Partition, lo_ms: int, hi_ms: int, cursor: int, limit_bytes: int, *, keys_only: bool
    ) -> Page:
        """`limit_bytes` may be exceeded by one row."""
        groups: list[RowGroup] = []
        marks: list[Mark] = []
        left_bytes, is_last, state = limit_bytes, False, None
        place = place_of(cursor)
        statement = self._pages[keys_only, bool(place)]
        start = (*partition, *place, hi_ms) if place else (*partition, lo_ms, hi_ms)
        while left_bytes > 0 and not is_last:
            found, state = await self._driver.part(statement, start, state)
            is_last = state is None
            taken: list[TaskRow] = []
            for row in _first_writings(found, place, keys_only=keys_only):
                if left_bytes <= 0:
                    is_last = False
                    break
                place = row.position_ms, row.digest, row.version, row.kind
                if row.kind == TASK_KIND:
                    taken.append(row)
                    left_bytes -= ROW_BYTES + (0 if keys_only else row.length)
                else:
                    marks.append(to_mark(partition, row))
            if taken:
                groups.append(await self._group(partition, taken, keys_only))
        through_ms = place[0] if place else 0
        return Page(groups, marks, 0 if is_last else cursor_after(place), is_last, through_ms)

    async def stretch(self, partition: Partition, after: tuple[int, bytes], hi_ms: int, most_rows: int) -> Stretch:
        """The rows of the table stand in this order."""
        position_ms, digest = after
        is_later = bool(digest)
        start = (*partition, *after, *_LAST, hi_ms) if is_later else (*partition, position_ms, hi_ms)
        tasks: list[TaskRow] = []
        marks: list[Mark] = []
        through: tuple[int, bytes] | None = None
        last: ResultRow = ()
        state: bytes | None = None
        while True:
            found, state = await self._driver.part(self._pages[True, is_later], start, state)
            for row in _first_writings(found, last, keys_only=True):
                last, place = row[:4], (row.position_ms, row.digest)
                if len(tasks) + len(marks) >= most_rows and place != through:
                    return Stretch(to_group(tasks, None), marks, through)
                through = place
                if row.kind == TASK_KIND:
                    tasks.append(row)
                else:
                    marks.append(to_mark(partition, row))
            if state is None:
                return Stretch(to_group(tasks, None), marks, None)

    async def find(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> list[Found]:
        """For each key in order."""
        wanted = list(dict.fromkeys(keys))
        parts = [wanted[at : at + _FIND_KEYS] for at in range(0, len(wanted), _FIND_KEYS)]
        found: dict[tuple[int, bytes], Found] = {}
        for part in await some_at_a_time(lambda part: self._find_part(partition, part), parts, _FIND_PARTS):
            found |= part
        return [found[key] for key in keys]

    async def _find_part(
        self, partition: Partition, keys: Sequence[tuple[int, bytes]]
    ) -> dict[tuple[int, bytes], Found]:
        by_key: dict[tuple[int, bytes], list[TaskRow]] = {key: [] for key in keys}
        for row in _first_writings(await self._driver.rows(self._find, (*partition, keys)), (), keys_only=False):
            by_key[row.position_ms, row.digest].append(row)
        return dict(zip(by_key, await every(self._found(partition, rows) for rows in by_key.values()), strict=True))

    async def _found(self, partition: Partition, rows: Sequence[TaskRow]) -> Found:
        marks = [to_mark(partition, row) for row in rows if row.kind != TASK_KIND]
        tasks = [row for row in rows if row.kind == TASK_KIND]
        return Found(await self._group(partition, tasks, False), marks)

    async def _group(self, partition: Partition, rows: Sequence[TaskRow], keys_only: bool) -> RowGroup:
        if keys_only:
            return to_group(rows, None)
        large = {row: self._driver.rows(self._large, (*partition, *row[:5])) for row in rows if row.is_large}
        bodies = dict(zip(large, await every(large.values()), strict=True))
        # Where the body is gone, the partition was dropped meanwhile.
        there = [row for row in rows if bodies.get(row) != []]
        return to_group(there, [(bodies[row][0][0] if row in bodies else row.body) or b"" for row in there])


def batches(rows: Iterable[Written]) -> Iterator[list[Written]]:
    """As many rows together as a mutation should have."""
    together: list[Written] = []
    size_bytes = 0
    for row in rows:
        if together and (size_bytes + row.size_bytes > BATCH_BYTES or len(together) >= BATCH_ROWS):
            yield together
            together, size_bytes = [], 0
        together.append(row)
        size_bytes += row.size_bytes
    if together:
        yield together


def _first_writings(rows: Iterable[ResultRow], last: ResultRow, *, keys_only: bool) -> Iterable[TaskRow]:
    """The writings of a row stand together, the first one in front; `last` is the row before these."""
    for found in rows:
        if found[:4] != last:
            last = found[:4]
            yield TaskRow._make((*found, None)) if keys_only else TaskRow._make(found)
