"""List and Count: a bounded look at the tasks of a due-time range, each where it now lives, by (position, digest).

A bucket is read in order, as many rows as a page needs, so that a page costs the same whatever else the bucket holds;
as keys, and payloads only for what is shown. Rows are looked at in slices, so that firing goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from timerd.core.instance_machine import shards_of
from timerd.core.partition import Asked
from timerd.model.identity import DIGEST_BYTES, RowKey, TaskId, attempt_of, generation_of, mac_of
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of, scope_of
from timerd.model.registers import Move, move_key
from timerd.model.rows import FLAG_CARRIED, FLAG_MOVED_IN, RowGroup
from timerd.model.storage import BucketEntry, MarkKind
from timerd.model.task import Template
from timerd.ports import Store
from timerd.services.engine.attempts import Attempts, with_last
from timerd.services.engine.expired import Expired
from timerd.services.engine.verbs import ENDED, Cursor, Query, State, TaskView, Views, marked
from timerd.services.engine.walk import Shelf, Walk, WalkedRow
from timerd.services.holding.scheduler import Scheduler
from timerd.services.transport.slices import in_slices

WAITING = frozenset({State.PENDING, State.RETRYING})
ALIVE = WAITING | {State.IN_FLIGHT}
# Tasks spread thinly over many buckets: a page ends before the deadline of a caller.
PAGE_S = 1.0
# Of one partition at a time: what is read of many shards or queues for a page that one of them fills was for nothing.
LEAST_ROWS, MOST_ROWS = 16, 10_000


# Of the catalogue so much is read at first, and so many times more each further time.
FIRST_SPAN_MS, WIDER = 3_600_000, 8


@dataclass(frozen=True, slots=True)
class ShownTask:
    """A view, and the row whose payload it may get."""

    view: TaskView
    partition: Partition
    key: RowKey


@dataclass(slots=True)
class Counted:
    """What Count makes of rows: a number. To make a view of each took about half of the whole time."""

    number: int = 0

    def add(self, _looked: WalkedRow, _state: State) -> bool:
        self.number += 1
        return True


# Whether more is wanted.
Show = Callable[[WalkedRow, State], bool]


class Browsing:
    """Reads only; what changes while a page is made may or may not show."""

    def __init__(self, store: Store, scheduler: Scheduler, secret: bytes, attempts: Attempts, expired: Expired) -> None:
        self._store = store
        self._attempts = attempts
        self._expired = expired
        self._settled = scheduler.procedures.settled
        self._scheduler = scheduler
        self._secret = secret

    async def page(self, query: Query, after: Cursor | None, limit: int, max_scanned: int, *, payload: bool) -> Views:
        """A page: at most `limit` tasks of at most about `max_scanned` rows looked at."""
        shown: list[ShownTask] = []

        def show(looked: WalkedRow, state: State) -> bool:
            shown.append(ShownTask(self._view(looked, state), looked.shelf.partition, looked.key))
            return len(shown) < limit

        cursor, through_ms = await self._look(query, after, show, max_scanned, min(limit, max_scanned))
        views = await self._with_payloads(shown) if payload else [each.view for each in shown]
        return Views(await self.with_dead_letters(views), cursor, through_ms)

    async def with_dead_letters(self, views: Sequence[TaskView]) -> list[TaskView]:
        """How dead letters ended stands in the store of dead letters: the row says only what was before the last
        attempt."""
        dead = [view.task_id.to_bytes() for view in views if view.state is State.DEAD]
        dead_letters = {letter.task_id: letter for letter in await self._store.get_dead_letters(dead)} if dead else {}
        found = ((view, dead_letters.get(view.task_id.to_bytes())) for view in views)
        return [
            view
            if letter is None or view.state is not State.DEAD
            else replace(view, attempt=letter.attempts, last_error=letter.last_error, history=letter.history)
            for view, letter in found
        ]

    async def _look(
        self,
        query: Query,
        after: Cursor | None,
        show: Show,
        max_scanned: int,
        wanted: int,
        counted: Counted | None = None,
    ) -> tuple[Cursor | None, int]:
        """Shows rows until `show` has enough; returns where to go on, and what has been looked at. `wanted`: about so
        many rows are read at a time."""
        loop = asyncio.get_running_loop()
        left, end_s, states = max_scanned, loop.time() + PAGE_S, query.states or ALIVE
        async for bucket_ms, entries in self._buckets(query, after):
            walk = Walk(_partitions(entries), max(after or Cursor(0, b""), Cursor(max(bucket_ms, query.lo_ms), b"")))
            most = min(max(LEAST_ROWS, min(wanted, left) // len(walk.after)), MOST_ROWS)
            while walk.after:
                for partition in walk.to_read:
                    shelf = await self._shelf(partition, query, walk.after[partition], most)
                    walk.add(shelf)
                    left -= shelf.read
                if counted is not None and states >= WAITING:
                    counted.number += walk.take_whole(self._waits)
                cursor = await self._shown(walk.take(), states, show)
                if cursor is None and walk.after and (left <= 0 or loop.time() >= end_s):
                    cursor = walk.through
                if cursor is not None:
                    return cursor, cursor.position_ms
                most = min(2 * most, MOST_ROWS)
            if left <= 0 or loop.time() >= end_s:
                return Cursor(bucket_ms + BUCKET_MS - 1, b"\xff" * DIGEST_BYTES), bucket_ms + BUCKET_MS
        return None, query.hi_ms

    async def _shown(self, rows: Iterable[WalkedRow], wanted: frozenset[State], show: Show) -> Cursor | None:
        """Where `show` had enough. Versions of one row stay together."""
        last: Cursor | None = None
        async for _, looked in in_slices(rows):
            if last is not None and looked.place != last:
                return last
            state = self._state(looked, wanted)
            if state is not None and state in wanted and not show(looked, state):
                last = looked.place
        return last

    async def _with_payloads(self, shown: Sequence[ShownTask]) -> list[TaskView]:
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
        counted = Counted()
        cursor, through_ms = await self._look(query, after, counted.add, max_scanned, max_scanned, counted)
        return counted.number, cursor, through_ms

    def _waits(self, shelf: Shelf) -> bool:
        """Each of its rows, without a look at each: nothing is known of any but that it is stored."""
        return shelf.is_untouched() and shelf.partition not in self._scheduler.machines

    async def _buckets(self, query: Query, after: Cursor | None) -> AsyncIterator[tuple[int, list[BucketEntry]]]:
        """Time and backlog partitions of each bucket in the range, oldest bucket first. A page ends within the first
        ones as a rule, and a month has nine thousand."""
        lo_ms = bucket_of(max(query.lo_ms, after.position_ms if after is not None else query.lo_ms))
        span_ms = FIRST_SPAN_MS
        while lo_ms < query.hi_ms:
            hi_ms = min(lo_ms + span_ms, query.hi_ms)
            for each in await self._buckets_of(query, lo_ms, hi_ms):
                yield each
            lo_ms, span_ms = hi_ms, span_ms * WIDER

    async def _buckets_of(self, query: Query, lo_ms: int, hi_ms: int) -> list[tuple[int, list[BucketEntry]]]:
        found = await self._store.catalogue(None, lo_ms, hi_ms)
        # Of thousands of queues each may have a backlog in a bucket.
        scopes = {TIME_SCOPE, scope_of(query.namespace, query.queue)} if query.queue else None
        by_bucket: dict[int, list[BucketEntry]] = {}
        for entry in found:
            if scopes is None or entry.scope in scopes:
                by_bucket.setdefault(entry.bucket_ms, []).append(entry)
        return sorted(by_bucket.items())

    async def _shelf(self, partition: Partition, query: Query, after: Cursor, most: int) -> Shelf:
        """The rows that the query is about among the next ones."""
        found = await self._store.stretch(partition, after, min(partition.end_ms, query.hi_ms), most)
        matches = np.array([_matches(t, query) for t in found.rows.templates], dtype=bool)
        rows = found.rows
        if not matches.all():
            rows = rows.select(np.flatnonzero(matches[rows.columns["template"]]))
        endings = await self._settled.endings(partition)
        marks = {m.key: m for m in found.marks if m.kind == MarkKind.FORWARD or marked(m) is not None}
        moved = {m.key.digest for m in found.marks if m.kind == MarkKind.MOVED}
        through = Cursor(*found.through) if found.through is not None else None
        alive = await self._alive(rows, moved) if len(rows) else {}
        over = endings.known(rows)
        expired = await self._expired.among(partition, rows, over) if len(rows) else None
        if expired is not None:
            # A worker may have ended one between the read and the question whether it has it.
            endings = await self._settled.endings(partition)
            over = endings.known(rows)
        return Shelf(partition, rows, over, marks, endings, alive, len(found.rows), through, expired)

    async def _alive(self, rows: RowGroup, moved: set[bytes]) -> dict[bytes, int]:
        """`moves` of every task that left the partition or came into it by a move."""
        flagged = np.flatnonzero(rows.columns["flags"] & FLAG_MOVED_IN)
        digests = list(moved | set(rows.select(flagged).digests()))
        stored = await self._store.read([move_key(d) for d in digests]) if digests else []
        moves = [Move.from_bytes(s) if s is not None else None for s in stored]
        return {d: generation_of(m.place.key.version) if m else 0 for d, m in zip(digests, moves, strict=True)}

    def _state(self, looked: WalkedRow, wanted: frozenset[State]) -> State | None:
        """None: the task lives elsewhere, or its end was not asked for."""
        key, shelf = looked.key, looked.shelf
        if shelf.alive.get(key.digest, generation_of(key.version)) != generation_of(key.version):
            return None
        if shelf.over[looked.number]:
            outcome = None if wanted <= ALIVE else shelf.endings.of(key).outcome
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
            return marked(mark)
        if shelf.expired is not None and shelf.expired[looked.number]:
            return State.EXPIRED
        return State.RETRYING if attempt_of(key.version) > 1 else State.PENDING

    def _is_in_hand(self, looked: WalkedRow) -> bool:
        """It was carried on while a worker had it, who has it still."""
        shelf, n = looked.shelf, looked.number
        mark = shelf.marks.get(looked.key)
        if not shelf.rows.columns["flags"][n] & FLAG_CARRIED or (mark is not None and mark.kind == MarkKind.FORWARD):
            return False
        return self._scheduler.held.has_in_hand(shelf.partition, looked.key, shelf.rows.extra_of(n).lease_until_ms)

    def _view(self, looked: WalkedRow, state: State) -> TaskView:
        partition, rows, n, key = looked.shelf.partition, looked.shelf.rows, looked.number, looked.key
        template, extra = rows.template_of(n), rows.extra_of(n)
        at_home = extra.home_position_ms < 0
        home_ms = key.position_ms if at_home else extra.home_position_ms
        home = Partition(TIME_SCOPE, bucket_of(home_ms), partition.shard if at_home else extra.home_shard)
        prefix, item = key.digest[:12], int.from_bytes(key.digest[12:], "big")
        mac = mac_of(self._secret, template.namespace, prefix, home, template.scope, template.priority)
        task = TaskId(home_ms, home.shard, template.scope, template.priority, prefix, item, mac)
        unsent = state is State.ACKED and looked.shelf.was_acked_unsent(key)
        attempt = self._attempts.begun(partition, key, state, extra.lease_until_ms, ended_unsent=unsent)
        fire_at_ms = int(rows.columns["fire_at_ms"][n])
        notes = b"", extra.key, attempt, extra.last_error, "", extra.progress, extra.ordering_key
        view = TaskView(task, state, fire_at_ms, key.position_ms, template, *notes)
        return replace(with_last(view, looked.shelf.endings.last_attempt(key)), history="")


def _partitions(entries: Iterable[BucketEntry]) -> list[Partition]:
    return [partition for entry in entries for partition in shards_of(entry)]


def _matches(template: Template, query: Query) -> bool:
    if template.namespace != query.namespace or query.queue not in ("", template.queue):
        return False
    return set(query.labels) <= set(template.labels)
