"""List and Count: a bounded look at the tasks of a due-time range, each where it now lives, by (position, digest).

A bucket is read as keys first; payloads only for what is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from timerd.core.holding import Asked
from timerd.core.settled_index import SettledIndex
from timerd.model.identity import RowKey, TaskId, attempt_of, generation_of, mac_of
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Move, move_key
from timerd.model.rows import FLAG_MOVED_IN, RowGroup, concat
from timerd.model.settle import Outcome
from timerd.model.storage import BucketEntry, Mark, MarkKind
from timerd.model.task import Template
from timerd.ports import Store
from timerd.services.scheduler import Scheduler
from timerd.services.verbs import Cursor, Query, State, TaskView, Views

ALIVE = frozenset({State.PENDING, State.IN_FLIGHT, State.RETRYING})
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


@dataclass(slots=True)
class Shelf:
    """One partition as it is now: its rows, and what is known of their ends."""

    partition: Partition
    rows: RowGroup
    marks: dict[RowKey, Mark]
    settled: SettledIndex
    # Of tasks that moved: the generation that lives.
    alive: dict[bytes, int]


class Browsing:
    """Reads only; what changes while a page is made may or may not show."""

    def __init__(self, store: Store, scheduler: Scheduler, secret: bytes) -> None:
        self._store = store
        self._scheduler = scheduler
        self._secret = secret

    async def page(self, query: Query, after: Cursor | None, limit: int, max_scanned: int, *, payload: bool) -> Views:
        """A page: at most `limit` tasks of at most about `max_scanned` rows looked at."""
        views: list[TaskView] = []
        scanned = 0
        loop = asyncio.get_running_loop()
        end_s = loop.time() + PAGE_S
        for bucket_ms, entries in await self._buckets(query, after):
            for position_ms, view in await self._bucket(query, entries, after, payload=payload):
                scanned += 1
                if view is not None:
                    views.append(view)
                if len(views) >= limit or scanned >= max_scanned:
                    return Views(views, position_ms, position_ms.position_ms)
            if scanned >= max_scanned or loop.time() >= end_s:
                return Views(views, Cursor(bucket_ms + BUCKET_MS - 1, b"\xff" * 16), bucket_ms + BUCKET_MS)
        return Views(views, None, query.hi_ms)

    async def count(self, query: Query, after: Cursor | None, max_scanned: int) -> tuple[int, Cursor | None, int]:
        page = await self.page(query, after, max_scanned, max_scanned, payload=False)
        return len(page.views), page.cursor, page.scanned_through_ms

    async def _buckets(self, query: Query, after: Cursor | None) -> list[tuple[int, list[BucketEntry]]]:
        """Time and backlog partitions of each bucket in the range, oldest bucket first."""
        lo_ms = max(query.lo_ms, after.position_ms if after is not None else query.lo_ms)
        found = await self._store.catalogue(None, bucket_of(lo_ms), query.hi_ms)
        by_bucket: dict[int, list[BucketEntry]] = {}
        for entry in found:
            by_bucket.setdefault(entry.bucket_ms, []).append(entry)
        return sorted(by_bucket.items())

    async def _bucket(
        self, query: Query, entries: Iterable[BucketEntry], after: Cursor | None, *, payload: bool
    ) -> list[tuple[Cursor, TaskView | None]]:
        """Every row of the bucket after the cursor, in order; None where it is not asked for."""
        found: list[tuple[Cursor, TaskView | None]] = []
        for entry in entries:
            for shard in range(entry.shard_count):
                partition = Partition(entry.scope, entry.bucket_ms, shard)
                shelf = await self._shelf(partition, query, payload=payload)
                found += self._views(shelf, query, after, payload=payload)
        return sorted(found, key=lambda pair: pair[0])

    async def _shelf(self, partition: Partition, query: Query, *, payload: bool) -> Shelf:
        groups: list[RowGroup] = []
        marks: dict[RowKey, Mark] = {}
        moved: set[bytes] = set()
        lo_ms, hi_ms = max(partition.bucket_ms, query.lo_ms), min(partition.end_ms, query.hi_ms)
        cursor, done = 0, False
        while not done:
            page = await self._store.scan(partition, lo_ms, hi_ms, cursor, PAGE_BYTES, keys_only=not payload)
            groups += page.groups
            marks.update((m.key, m) for m in page.marks if m.kind in MARKED or m.kind == MarkKind.FORWARD)
            moved.update(m.key.digest for m in page.marks if m.kind == MarkKind.MOVED)
            cursor, done = page.cursor, page.done
        settled = SettledIndex()
        for record in await self._store.settled(partition):
            settled.load(record.entries)
        rows = concat(groups)
        return Shelf(partition, rows, marks, settled, await self._alive(rows, moved))

    async def _alive(self, rows: RowGroup, moved: set[bytes]) -> dict[bytes, int]:
        """`moves` of every task that left the partition or came into it by a move."""
        flagged = np.flatnonzero(rows.columns["flags"] & FLAG_MOVED_IN)
        digests = list(moved | set(rows.select(flagged).digests()))
        stored = await self._store.read([move_key(d) for d in digests]) if digests else []
        moves = [Move.from_bytes(s) if s is not None else None for s in stored]
        return {d: generation_of(m.place.key.version) if m else 0 for d, m in zip(digests, moves, strict=True)}

    def _views(
        self, shelf: Shelf, query: Query, after: Cursor | None, *, payload: bool
    ) -> list[tuple[Cursor, TaskView | None]]:
        rows = shelf.rows
        wanted = np.array([_matches(t, query) for t in rows.templates], dtype=bool)
        if not len(rows) or not bool(wanted.any()):
            return []
        chosen = np.flatnonzero(wanted[rows.columns["template"]])
        rows = rows.select(chosen)
        over = shelf.settled.known(rows)
        found: list[tuple[Cursor, TaskView | None]] = []
        for n, key in enumerate(rows.keys()):
            place = Cursor(key.position_ms, key.digest)
            if after is not None and place <= after:
                continue
            state = self._state(shelf, key, settled=bool(over[n]))
            shown = state is not None and state in (query.states or ALIVE)
            found.append(
                (place, self._view(shelf.partition, rows, n, key, state, payload) if shown and state else None)
            )
        return found

    def _state(self, shelf: Shelf, key: RowKey, *, settled: bool) -> State | None:
        """None: the task lives elsewhere."""
        if shelf.alive.get(key.digest, generation_of(key.version)) != generation_of(key.version):
            return None
        machine = self._scheduler.machines.get(shelf.partition)
        if settled:
            outcome = shelf.settled.get(key)
            return ENDED.get(outcome) if outcome is not None else None
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

    def _view(self, partition: Partition, rows: RowGroup, n: int, key: RowKey, state: State, payload: bool) -> TaskView:
        template, extra = rows.template_of(n), rows.extra_of(n)
        at_home = extra.home_position_ms < 0
        home_ms = key.position_ms if at_home else extra.home_position_ms
        home = Partition(TIME_SCOPE, bucket_of(home_ms), partition.shard if at_home else extra.home_shard)
        prefix, item = key.digest[:12], int.from_bytes(key.digest[12:], "big")
        mac = mac_of(self._secret, template.namespace, prefix, home, template.scope, template.priority)
        task = TaskId(home_ms, home.shard, template.scope, template.priority, prefix, item, mac)
        attempt = attempt_of(key.version) - (state in NOT_BEGUN)
        body = rows.payload(n) if payload else b""
        fire_at_ms = int(rows.columns["fire_at_ms"][n])
        return TaskView(task, state, fire_at_ms, key.position_ms, template, body, extra.key, attempt, extra.last_error)


def _matches(template: Template, query: Query) -> bool:
    if template.namespace != query.namespace or query.queue not in ("", template.queue):
        return False
    return set(query.labels) <= set(template.labels)
