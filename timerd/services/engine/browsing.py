"""List and Count: a bounded look at the tasks of a due-time range, each where it now lives, by (position, digest).

A bucket is read as keys, and payloads only for what is shown: it may hold more than memory does. Of a bucket only so
many rows are looked at one by one as the page may scan, in slices, so that firing goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.core.holding import Asked
from timerd.core.settled_index import Entries, SettledIndex
from timerd.model.identity import RowKey, TaskId, attempt_of, generation_of, mac_of
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of, scope_of
from timerd.model.registers import Move, move_key
from timerd.model.rows import FLAG_CARRIED, FLAG_MOVED_IN, PREFIX, RowGroup, concat
from timerd.model.settle import Outcome
from timerd.model.storage import BucketEntry, Mark, MarkKind
from timerd.model.task import Template
from timerd.ports import Store
from timerd.services.engine.verbs import Cursor, Query, State, TaskView, Views
from timerd.services.holding.scheduler import Scheduler
from timerd.services.transport.slices import SLICE_ITEMS, in_slices

WAITING = frozenset({State.PENDING, State.RETRYING})
ALIVE = WAITING | {State.IN_FLIGHT}
ENDED = {
    Outcome.ACKED: State.ACKED,
    Outcome.DEAD: State.DEAD,
    Outcome.EXPIRED: State.EXPIRED,
    Outcome.CANCELLED: State.CANCELLED,
    Outcome.PURGED: State.PURGED,
}
MARKED = {MarkKind.CANCELLED: State.CANCELLED, MarkKind.PURGED: State.PURGED, MarkKind.ACKED: State.ACKED}
# In these states the attempt that the row stands for was not begun (or its end is not known: then one less is shown).
NOT_BEGUN = frozenset({State.PENDING, State.RETRYING, State.CANCELLED, State.PURGED, State.EXPIRED})
PAGE_BYTES = 16 << 20
# Tasks spread thinly over many buckets: a page ends before a caller loses patience.
PAGE_S = 1.0
# Sorting so many rows takes a millisecond or two; beyond it a thread does it.
INLINE_ROWS = 10_000


@dataclass(slots=True)
class Shelf:
    """The rows of one partition that a page may look at, in order, and what is known of their ends."""

    partition: Partition
    rows: RowGroup
    over: npt.NDArray[np.bool_]
    marks: dict[RowKey, Mark]
    settled: SettledIndex
    # Of tasks that moved: the generation that lives.
    alive: dict[bytes, int]

    def is_untouched(self) -> bool:
        """No row has ended, is marked, has moved or was carried on."""
        is_known = self.marks or self.alive or self.over.any()
        return not is_known and not (self.rows.columns["flags"] & FLAG_CARRIED).any()


class Looked(NamedTuple):
    """One row in the order of the bucket."""

    key: RowKey
    number: int
    shelf: Shelf

    @property
    def place(self) -> Cursor:
        return Cursor(self.key.position_ms, self.key.digest)


@dataclass(frozen=True, slots=True)
class Shown:
    """A view, and the row whose payload it may get."""

    view: TaskView
    partition: Partition
    key: RowKey


@dataclass(slots=True)
class Tally:
    """What Count makes of rows: a number. To make a view of each took about half of the whole time."""

    number: int = 0

    def add(self, _looked: Looked, _state: State) -> bool:
        self.number += 1
        return True


# Whether more is wanted.
Show = Callable[[Looked, State], bool]


class Browsing:
    """Reads only; what changes while a page is made may or may not show."""

    def __init__(self, store: Store, scheduler: Scheduler, secret: bytes) -> None:
        self._store = store
        self._scheduler = scheduler
        self._secret = secret

    async def page(self, query: Query, after: Cursor | None, limit: int, max_scanned: int, *, payload: bool) -> Views:
        """A page: at most `limit` tasks of at most about `max_scanned` rows looked at."""
        shown: list[Shown] = []

        def show(looked: Looked, state: State) -> bool:
            shown.append(Shown(self._view(looked, state), looked.shelf.partition, looked.key))
            return len(shown) < limit

        cursor, through_ms = await self._look(query, after, show, max_scanned)
        views = await self._with_payloads(shown) if payload else [each.view for each in shown]
        return Views(views, cursor, through_ms)

    async def _look(
        self, query: Query, after: Cursor | None, show: Show, max_scanned: int, tally: Tally | None = None
    ) -> tuple[Cursor | None, int]:
        """Shows rows until `show` has enough; returns where to go on, and what has been looked at."""
        scanned, wanted = 0, query.states or ALIVE
        loop = asyncio.get_running_loop()
        end_s = loop.time() + PAGE_S
        for bucket_ms, entries in await self._buckets(query, after):
            shelves = [await self._shelf(p, query, after, max_scanned - scanned) for p in _partitions(entries)]
            rows = sum(len(shelf.rows) for shelf in shelves)
            if tally is not None and scanned + rows < max_scanned and self._all_wait(shelves, wanted):
                tally.number, scanned, shelves = tally.number + rows, scanned + rows, []
            async for _, looked in in_slices(in_order(shelves)):
                scanned += 1
                state = self._state(looked, wanted)
                is_enough = state is not None and state in wanted and not show(looked, state)
                if is_enough or scanned >= max_scanned:
                    return looked.place, looked.place.position_ms
            if loop.time() >= end_s:
                return Cursor(bucket_ms + BUCKET_MS - 1, b"\xff" * 16), bucket_ms + BUCKET_MS
        return None, query.hi_ms

    async def _with_payloads(self, shown: Sequence[Shown]) -> list[TaskView]:
        """What is gone meanwhile is shown without."""
        wanted: dict[Partition, list[tuple[int, bytes]]] = {}
        for each in shown:
            wanted.setdefault(each.partition, []).append((each.key.position_ms, each.key.digest))
        payloads: dict[tuple[Partition, RowKey], bytes] = {}
        for partition, keys in wanted.items():
            for found in await self._store.find(partition, keys):
                payloads.update(((partition, key), found.rows.payload(n)) for n, key in enumerate(found.rows.keys()))
        return [replace(each.view, payload=payloads.get((each.partition, each.key), b"")) for each in shown]

    async def count(self, query: Query, after: Cursor | None, max_scanned: int) -> tuple[int, Cursor | None, int]:
        tally = Tally()
        cursor, through_ms = await self._look(query, after, tally.add, max_scanned, tally)
        return tally.number, cursor, through_ms

    def _all_wait(self, shelves: Sequence[Shelf], wanted: frozenset[State]) -> bool:
        """Without a look at each row: nothing is known of any but that it is stored."""
        return wanted >= WAITING and all(
            shelf.is_untouched() and shelf.partition not in self._scheduler.machines for shelf in shelves
        )

    async def _buckets(self, query: Query, after: Cursor | None) -> list[tuple[int, list[BucketEntry]]]:
        """Time and backlog partitions of each bucket in the range, oldest bucket first."""
        lo_ms = max(query.lo_ms, after.position_ms if after is not None else query.lo_ms)
        found = await self._store.catalogue(None, bucket_of(lo_ms), query.hi_ms)
        # Of thousands of queues each may have a backlog in a bucket.
        scopes = {TIME_SCOPE, scope_of(query.namespace, query.queue)} if query.queue else None
        by_bucket: dict[int, list[BucketEntry]] = {}
        for entry in found:
            if scopes is None or entry.scope in scopes:
                by_bucket.setdefault(entry.bucket_ms, []).append(entry)
        return sorted(by_bucket.items())

    async def _shelf(self, partition: Partition, query: Query, after: Cursor | None, most: int) -> Shelf:
        groups: list[RowGroup] = []
        marks: dict[RowKey, Mark] = {}
        moved: set[bytes] = set()
        lo_ms, hi_ms = max(partition.bucket_ms, query.lo_ms), min(partition.end_ms, query.hi_ms)
        lo_ms = max(lo_ms, after.position_ms) if after is not None else lo_ms
        cursor, done = 0, False
        while not done:
            page = await self._store.scan(partition, lo_ms, hi_ms, cursor, PAGE_BYTES, keys_only=True)
            groups += page.groups
            marks.update((m.key, m) for m in page.marks if m.kind in MARKED or m.kind == MarkKind.FORWARD)
            moved.update(m.key.digest for m in page.marks if m.kind == MarkKind.MOVED)
            cursor, done = page.cursor, page.done
        entries = [record.entries for record in await self._store.settled(partition)]
        if sum(map(len, groups)) + sum(map(len, entries)) <= INLINE_ROWS:
            rows, settled = first_rows(groups, query, after, most), index_of(entries)
        else:
            rows = await asyncio.to_thread(first_rows, groups, query, after, most)
            settled = await asyncio.to_thread(index_of, entries)
        return Shelf(partition, rows, settled.known(rows), marks, settled, await self._alive(rows, moved))

    async def _alive(self, rows: RowGroup, moved: set[bytes]) -> dict[bytes, int]:
        """`moves` of every task that left the partition or came into it by a move."""
        flagged = np.flatnonzero(rows.columns["flags"] & FLAG_MOVED_IN)
        digests = list(moved | set(rows.select(flagged).digests()))
        stored = await self._store.read([move_key(d) for d in digests]) if digests else []
        moves = [Move.from_bytes(s) if s is not None else None for s in stored]
        return {d: generation_of(m.place.key.version) if m else 0 for d, m in zip(digests, moves, strict=True)}

    def _state(self, looked: Looked, wanted: frozenset[State]) -> State | None:
        """None: the task lives elsewhere, or its end was not asked for."""
        key, shelf = looked.key, looked.shelf
        if shelf.alive.get(key.digest, generation_of(key.version)) != generation_of(key.version):
            return None
        if shelf.over[looked.number]:
            outcome = None if wanted <= ALIVE else shelf.settled.get(key)
            return ENDED.get(outcome) if outcome is not None else None
        if self._is_in_hand(looked):
            return State.IN_FLIGHT
        machine = self._scheduler.machines.get(shelf.partition)
        if machine is not None:
            asked, known = machine.ask(key)
            if asked is Asked.OPEN:
                return State.IN_FLIGHT
            if asked is Asked.ENDED and known is not None:
                return ENDED.get(known)
        mark = shelf.marks.get(key)
        if mark is not None:
            return MARKED.get(mark.kind)
        return State.RETRYING if attempt_of(key.version) > 1 else State.PENDING

    def _is_in_hand(self, looked: Looked) -> bool:
        """It was carried on while a worker had it, who has it still."""
        shelf, n = looked.shelf, looked.number
        mark = shelf.marks.get(looked.key)
        if not shelf.rows.columns["flags"][n] & FLAG_CARRIED or (mark is not None and mark.kind == MarkKind.FORWARD):
            return False
        return self._scheduler.held.has_in_hand(shelf.partition, looked.key, shelf.rows.extra_of(n).lease_until_ms)

    def _view(self, looked: Looked, state: State) -> TaskView:
        partition, rows, n, key = looked.shelf.partition, looked.shelf.rows, looked.number, looked.key
        template, extra = rows.template_of(n), rows.extra_of(n)
        at_home = extra.home_position_ms < 0
        home_ms = key.position_ms if at_home else extra.home_position_ms
        home = Partition(TIME_SCOPE, bucket_of(home_ms), partition.shard if at_home else extra.home_shard)
        prefix, item = key.digest[:12], int.from_bytes(key.digest[12:], "big")
        mac = mac_of(self._secret, template.namespace, prefix, home, template.scope, template.priority)
        task = TaskId(home_ms, home.shard, template.scope, template.priority, prefix, item, mac)
        attempt = attempt_of(key.version) - (state in NOT_BEGUN)
        fire_at_ms = int(rows.columns["fire_at_ms"][n])
        return TaskView(task, state, fire_at_ms, key.position_ms, template, b"", extra.key, attempt, extra.last_error)


def _partitions(entries: Iterable[BucketEntry]) -> list[Partition]:
    return [Partition(entry.scope, entry.bucket_ms, shard) for entry in entries for shard in range(entry.shard_count)]


def in_order(shelves: Sequence[Shelf]) -> Iterator[Looked]:
    """The rows of one bucket by (position, digest), made as they are asked for."""
    return heapq.merge(*map(_looked, shelves), key=lambda looked: looked.place)


def _looked(shelf: Shelf) -> Iterator[Looked]:
    for begin in range(0, len(shelf.rows), SLICE_ITEMS):
        keys = shelf.rows.select(slice(begin, begin + SLICE_ITEMS)).keys()
        yield from (Looked(key, number, shelf) for number, key in enumerate(keys, begin))


def index_of(records: Sequence[Entries]) -> SettledIndex:
    """In one piece: a bucket may have a record for each of its seconds, and each load sorts."""
    settled = SettledIndex()
    if records:
        settled.load(np.concatenate(records))
    return settled


def first_rows(groups: Sequence[RowGroup], query: Query, after: Cursor | None, most: int) -> RowGroup:
    """Of the rows that the query is about and that come after the cursor, the first ones in order."""
    rows = concat(groups)
    if not len(rows):
        return rows
    wanted = np.array([_matches(t, query) for t in rows.templates], dtype=bool)
    rows = rows.select(np.flatnonzero(wanted[rows.columns["template"]]))
    rows = rows.select(_order(rows))
    if after is None:
        return rows.select(slice(most))
    columns = rows.columns
    begin = int(np.searchsorted(columns["position_ms"], after.position_ms))
    end = int(np.searchsorted(columns["position_ms"], after.position_ms, side="right"))
    begin += bisect_right(range(begin, end), after.digest, key=lambda n: rows.select(slice(n, n + 1)).digests()[0])
    return rows.select(slice(begin, begin + most))


def _order(rows: RowGroup) -> npt.NDArray[np.intp]:
    """By (position, digest); versions of one task in the order of their commits."""
    texts = np.ascontiguousarray(rows.prefixes).view(f"S{PREFIX.itemsize}")
    ranks = np.unique(texts, return_inverse=True)[1]
    columns = rows.columns
    return np.lexsort((columns["index"], ranks[columns["prefix"]], columns["position_ms"]))


def _matches(template: Template, query: Query) -> bool:
    if template.namespace != query.namespace or query.queue not in ("", template.queue):
        return False
    return set(query.labels) <= set(template.labels)
