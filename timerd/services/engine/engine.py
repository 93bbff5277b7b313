"""What the API asks of the engine (the `Verbs` seam): the core's procedures driven against store and holders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from timerd.config import ServerConfig
from timerd.core.cancel import Cancelled
from timerd.core.insert import ClosedForGood, insert, insert_repeated
from timerd.core.keys import Conflict, Reserved, activate, give_back, reserve, resolve, was_lost
from timerd.core.lookup import Located, from_letter, locate
from timerd.model.errors import (
    Aborted,
    CorruptRow,
    NotFound,
    NotStored,
    StoreUnknown,
    Unavailable,
)
from timerd.model.first_reply import first_reply, read_reply
from timerd.model.identity import TaskId, attempt_of
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Move, move_key, name_key
from timerd.model.rows import RowGroup
from timerd.model.settle import Outcome
from timerd.model.spread import Spread
from timerd.model.storage import Append, DeadLetter, MarkKind
from timerd.ports import Store
from timerd.services.engine.browsing import ENDED, NOT_BEGUN, Browsing
from timerd.services.engine.ending import end_all
from timerd.services.engine.engine_facts import Facts
from timerd.services.engine.estimating import Estimating
from timerd.services.engine.moving import Moving
from timerd.services.engine.placed_ids import PlacedIds, homes_after
from timerd.services.engine.placing import by_bucket, came_late, placed_from, positioned
from timerd.services.engine.verbs import (
    CancelAnswer,
    Cursor,
    EngineFacts,
    NewTasks,
    Query,
    State,
    StoredTasks,
    TaskView,
    Views,
)
from timerd.services.holding.driving import after_a_write, drive
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.scheduler import Scheduler
from timerd.services.holding.shards import Shards

ANSWERS = {
    Cancelled.CANCELLED: CancelAnswer.CANCELLED,
    Cancelled.ALREADY_CANCELLED: CancelAnswer.ALREADY_CANCELLED,
    Cancelled.ALREADY_FIRED: CancelAnswer.ALREADY_FIRED,
    Cancelled.IN_FLIGHT: CancelAnswer.IN_FLIGHT,
    Cancelled.NOT_FOUND: CancelAnswer.NOT_FOUND,
    Cancelled.PENDING: CancelAnswer.PENDING,
}
Times = npt.NDArray[np.int64]
Groups = tuple[tuple[Partition, RowGroup], ...]
KEY_LOST = "Another call took the key at the same moment: try again."
# Nobody holds what is due so long after everything that is loaded ahead.
NOT_HELD_AHEAD_MS = 3_600_000
# Fewer are cheaper by bucket.
SPREAD_ROWS = 16
REDRIVE_GENERATION = "redrive"


class Engine:
    """Implements services.verbs.Verbs."""

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        time: EngineTime,
        secret: bytes,
        config: ServerConfig,
        shards: Shards | None = None,
    ) -> None:
        self.secret = secret
        self._store = store
        self._scheduler = scheduler
        self._time = time
        self._config = config
        self._procedures = scheduler.procedures
        self.shards = shards or Shards(store)
        self._browsing = Browsing(store, scheduler, secret)
        self._moving = Moving(store, scheduler.procedures, config.history_retention_ms, self.now_ms)
        self._estimating = Estimating(store)
        self._facts = Facts(store, scheduler, time, config)
        self._draining = False
        self.scheduled = self._estimating.scheduled

    def shows(self, lateness_bounds_ms: Sequence[float], lateness_counts: Callable[[], Sequence[int]]) -> None:
        """The histogram that `facts` shows: delivery's, as it grows."""
        self._facts.lateness_bounds_ms = lateness_bounds_ms
        self._facts.lateness_counts = lateness_counts

    def drain(self) -> None:
        self._draining = True

    def now_ms(self) -> int:
        if self._draining:
            raise Unavailable("The server is going away: connect again in a moment.", "DRAINING", retry_after_ms=1_000)
        return self._time.accepting_ms()

    # -- schedule -------------------------------------------------------------------------------------------------

    async def schedule(self, tasks: NewTasks) -> StoredTasks:
        now_ms = self.now_ms()
        asked_ms = tasks.rows.columns["fire_at_ms"].copy()
        positions_ms = placed_from(asked_ms, now_ms)
        shards = await self.shards.place(tasks.prefix, tasks.rows, positions_ms)
        ids = PlacedIds(self.secret, tasks.prefix, tasks.rows, positions_ms, shards)
        reserved = await self._reserve(tasks, ids) if tasks.keys else {}
        kept = {row: r.taken_by for row, r in reserved.items() if r.taken_by is not None}
        refused = {row: _taken(tasks.keys[row][0]) for row in kept if tasks.keys[row][1] is Conflict.REJECT}
        placed_ms, is_repeat = await self._append(tasks, positions_ms, asked_ms, kept, now_ms, shards)
        if placed_ms is not positions_ms:
            with after_a_write():
                ids = await self._ids_elsewhere(tasks, positions_ms, placed_ms, shards, is_repeat=is_repeat)
        if not reserved:
            return StoredTasks(ids, {}, {})
        with after_a_write():
            lost = await self._lost_before(tasks, ids, reserved) if is_repeat else []
            lost += await self._activate(tasks, ids, {row: r for row, r in reserved.items() if row not in lost})
        if len(lost) == len(tasks.rows):
            raise Aborted(KEY_LOST, "KEY_LOST")
        refused |= dict.fromkeys(lost, KEY_LOST)
        return StoredTasks(ids, {row: task for row, task in kept.items() if row not in refused}, refused)

    async def _append(
        self,
        tasks: NewTasks,
        positions_ms: Times,
        asked_ms: Times,
        kept: Mapping[int, TaskId],
        now_ms: int,
        shards: Mapping[int, int],
    ) -> tuple[Times, bool]:
        """Where the rows live in the end, and whether they did so already."""
        rows = positioned(tasks.rows, positions_ms, asked_ms)
        if kept:
            rows = rows.select(np.array([n for n in range(len(rows)) if n not in kept], dtype=np.intp))
        if not len(rows):
            return positions_ms, False
        groups, spread = self._placed(rows, now_ms, shards)
        message = Append(groups, tasks.prefix, first_reply(positions_ms, asked_ms), spread)
        try:
            anchors = await self._anchors(tasks, positions_ms, asked_ms, now_ms)
            done = await drive(insert(message, now_ms, anchors=anchors), self._procedures)
        except ClosedForGood as error:
            raise StoreUnknown("A task's instant was closed while it was written.") from error
        if done.repeated is not None:
            placed_ms, first_ms = read_reply(done.repeated)
            tasks.rows.columns["fire_at_ms"] = first_ms
            with after_a_write():
                await self._see_to(tasks, placed_ms, now_ms)
            return placed_ms, True
        self._estimating.add(rows)
        self.shards.took_in(rows.columns["position_ms"], len(rows.payloads))
        if done.moved:
            keys = zip(positions_ms.tolist(), tasks.rows.digests(), strict=True)
            return np.array([done.moved.get(key, key[0]) for key in keys], np.int64), False
        return positions_ms, False

    async def _anchors(
        self, tasks: NewTasks, positions_ms: Times, asked_ms: Times, now_ms: int
    ) -> Mapping[int, int] | None:
        """The shards of instants whose buckets are over (core/ties.py), as far as outcomes are kept: marks in a bucket
        that was dropped would stay for ever. None: the store knows a repeat."""
        if not self._scheduler.remembers_endings:
            return None
        rows = came_late(positions_ms, asked_ms, now_ms - self._config.history_retention_ms)
        return await self.shards.place(tasks.prefix, tasks.rows.select(rows), asked_ms[rows]) if len(rows) else {}

    def _placed(self, rows: RowGroup, now_ms: int, shards: Mapping[int, int]) -> tuple[Groups, Spread | None]:
        """By bucket as far as a holder may want to hear of them, in one piece beyond."""
        far_from_ms = bucket_of(now_ms + self._config.look_ahead_ms + NOT_HELD_AHEAD_MS)
        positions_ms = rows.columns["position_ms"]
        far_count = int(np.count_nonzero(positions_ms >= far_from_ms)) if len(rows) >= SPREAD_ROWS else 0
        if far_count < SPREAD_ROWS:
            return tuple(by_bucket(rows, shards)), None
        order = np.argsort(positions_ms, kind="stable")
        near, far = rows.select(order[:-far_count]), rows.select(order[-far_count:])
        others = {bucket_ms: shard for bucket_ms, shard in shards.items() if shard}
        return tuple(by_bucket(near, shards)), Spread(TIME_SCOPE, 0, far, others)

    async def _see_to(self, tasks: NewTasks, placed_ms: Times, now_ms: int) -> None:
        """Rows of a repeat whose instant has come: the first call may have died before they were taken in."""
        rows = positioned(tasks.rows, placed_ms, tasks.rows.columns["fire_at_ms"])
        rows = rows.select(np.flatnonzero(placed_ms <= now_ms))
        if len(rows):
            try:
                shards = await self.shards.place(tasks.prefix, rows, rows.columns["position_ms"])
                await drive(insert_repeated(Append(tuple(by_bucket(rows, shards))), now_ms), self._procedures)
            except ClosedForGood as error:
                raise StoreUnknown("The task's instant was closed while it was looked for.") from error

    async def _ids_elsewhere(
        self, tasks: NewTasks, positions_ms: Times, placed_ms: Times, shards: Mapping[int, int], *, is_repeat: bool
    ) -> PlacedIds:
        """Of rows that do not live where this call put them: it is a repeat, or they were written again."""
        others: Mapping[int, int] = {}
        if is_repeat:
            shards = await self.shards.place(tasks.prefix, tasks.rows, placed_ms)
        else:
            shards, others = homes_after(positions_ms, placed_ms, shards)
        return PlacedIds(self.secret, tasks.prefix, tasks.rows, placed_ms, shards, others)

    async def _reserve(self, tasks: NewTasks, ids: Sequence[TaskId]) -> dict[int, Reserved]:
        work = [
            drive(reserve(name_key(tasks.namespace, key), ids[row], policy), self._procedures)
            for row, (key, policy) in tasks.keys.items()
        ]
        return dict(zip(tasks.keys, await asyncio.gather(*work), strict=True))

    async def _lost_before(self, tasks: NewTasks, ids: Sequence[TaskId], reserved: Mapping[int, Reserved]) -> list[int]:
        """The rows of a repeat that lost their key the first time: whoever has it keeps it."""
        ours = [row for row, held in reserved.items() if held.taken_by is None]
        lost = [row for row in ours if await drive(was_lost(ids[row]), self._procedures)]
        for row in lost:
            await drive(give_back(name_key(tasks.namespace, tasks.keys[row][0]), reserved[row]), self._procedures)
        return lost

    async def _activate(self, tasks: NewTasks, ids: Sequence[TaskId], reserved: Mapping[int, Reserved]) -> list[int]:
        """The rows whose key another call took meanwhile: they are cancelled."""
        ours = {row: held for row, held in reserved.items() if held.taken_by is None}
        work = [
            drive(activate(name_key(tasks.namespace, tasks.keys[row][0]), ids[row], held), self._procedures)
            for row, held in ours.items()
        ]
        return [row for row, task in zip(ours, await asyncio.gather(*work), strict=True) if task is not None]

    async def flush_estimates(self) -> None:
        await self._estimating.flush()

    # -- cancel, move, look ---------------------------------------------------------------------------------------

    async def cancel(self, namespace: str, request_id: str, ids: Sequence[TaskId]) -> Sequence[CancelAnswer]:
        now_ms = self.now_ms()
        request = _hash(namespace, request_id)
        said = await end_all(ids, Outcome.CANCELLED, request, self._procedures, self._procedures.others.side_by_side)
        if said.count(Cancelled.CANCELLED) == len(ids):
            self._estimating.remove(ids)
            return [CancelAnswer.CANCELLED] * len(ids)
        self._estimating.remove(_ended_now(ids, said))
        forgotten = await self._forgotten(
            [t for t, s in zip(ids, said, strict=True) if s is Cancelled.NOT_FOUND], now_ms
        )
        return [CancelAnswer.FINISHED if t in forgotten else ANSWERS[s] for t, s in zip(ids, said, strict=True)]

    async def reschedule(self, namespace: str, request_id: str, task: TaskId, fire_at_ms: int) -> int:
        return await self._moving.move(task, _hash(namespace, request_id).hex(), fire_at_ms)

    async def get(self, namespace: str, task: TaskId) -> TaskView:
        here = await self._look_up(task)
        if here.rows is None:
            if self._is_forgotten(task, here.move, int(self._time.exact_ms())):
                return TaskView(task, State.FINISHED, task.position_ms, task.position_ms)
            if (await self._store.facts()).corrupt:
                raise CorruptRow(f"The row of {task} is not there, and a part of the data is damaged.")
            raise NotFound("There is no task with this id.", "NOT_FOUND")
        return self._view(task, here, here.rows, is_in_hand=await self._is_in_hand(here, here.rows))

    async def resolve_key(self, namespace: str, key: str) -> TaskId:
        task = await drive(resolve(name_key(namespace, key)), self._procedures)
        if task is None:
            raise NotFound(f"No task has the key {key!r}.", "NOT_FOUND")
        return task

    async def redrive(self, namespace: str, request_id: str, ids: Sequence[TaskId]) -> Sequence[bool | NotStored]:
        request = _hash(namespace, f"{REDRIVE_GENERATION} {request_id}").hex()
        return await self._moving.redrive(ids, request)

    async def dead_letters(
        self, namespace: str, queue: str, lo_ms: int, hi_ms: int, after: bytes, limit: int
    ) -> Sequence[DeadLetter]:
        return await self._store.dead(namespace, queue, lo_ms, hi_ms, after, limit)

    async def list(self, query: Query, after: Cursor | None, limit: int, max_scanned: int, *, payload: bool) -> Views:
        return await self._browsing.page(query, after, limit, max_scanned, payload=payload)

    async def count(self, query: Query, after: Cursor | None, max_scanned: int) -> tuple[int, Cursor | None, int]:
        return await self._browsing.count(query, after, max_scanned)

    async def estimate(self, namespace: str, queue: str) -> int:
        return await self._estimating.total(namespace, queue, self.now_ms())

    async def purge(self, query: Query, after: Cursor | None, max_scanned: int) -> tuple[int, Cursor | None, int]:
        self.now_ms()
        page = await self._browsing.page(query, after, max_scanned, max_scanned, payload=False)
        request = _hash(query.namespace, "purge")
        ids = [view.task_id for view in page.views]
        said = await end_all(ids, Outcome.PURGED, request, self._procedures, self._procedures.others.side_by_side)
        self._estimating.remove(_ended_now(ids, said))
        return sum(s is Cancelled.CANCELLED for s in said), page.cursor, page.scanned_through_ms

    async def facts(self) -> EngineFacts:
        return await self._facts.read()

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _look_up(self, task: TaskId) -> Located:
        here = await drive(locate(task), self._procedures)
        letters = await self._store.letters([task.to_bytes()]) if here.rows is None else []
        return from_letter(here, letters[0]) if letters else here

    async def _forgotten(self, tasks: Sequence[TaskId], now_ms: int) -> set[TaskId]:
        """Of tasks whose rows are gone."""
        stored = await self._store.read([move_key(t.digest) for t in tasks]) if tasks else []
        moves = [Move.from_bytes(s) if s is not None else None for s in stored]
        return {t for t, move in zip(tasks, moves, strict=True) if self._is_forgotten(t, move, now_ms)}

    def _is_forgotten(self, task: TaskId, move: Move | None, now_ms: int) -> bool:
        """A genuine id whose row is gone, from a bucket that is older than outcomes are kept: home, or where it was
        moved to, which may be long before."""
        end_ms = min(task.home.end_ms, move.place.partition.end_ms) if move is not None else task.home.end_ms
        return end_ms + self._config.history_retention_ms <= now_ms

    async def _is_in_hand(self, here: Located, rows: RowGroup) -> bool:
        outcome, is_held = here.ending.outcome, here.place.partition in self._scheduler.machines
        # Who holds the row may know that only its retries have ended; in the store that is the end.
        if outcome is not None and not (is_held and outcome in (Outcome.CANCELLED, Outcome.PURGED)):
            return False
        lease_ms, now_ms = rows.extra_of(0).lease_until_ms, int(self._time.exact_ms())
        return await self._procedures.is_in_hand(here.place, lease_ms, now_ms)

    def _view(self, task: TaskId, here: Located, rows: RowGroup, *, is_in_hand: bool) -> TaskView:
        extra, key = rows.extra_of(0), here.place.key
        state = State.IN_FLIGHT if is_in_hand else self._state(here, key.version)
        attempt = attempt_of(key.version) - (state in NOT_BEGUN)
        fire_at_ms = int(rows.columns["fire_at_ms"][0])
        template, payload = rows.template_of(0), rows.payload(0)
        return TaskView(
            task, state, fire_at_ms, key.position_ms, template, payload, extra.key, attempt, extra.last_error
        )

    def _state(self, here: Located, version: int) -> State:
        if here.ending.outcome in ENDED:
            return ENDED[here.ending.outcome]
        for kind, state in ((MarkKind.CANCELLED, State.CANCELLED), (MarkKind.PURGED, State.PURGED)):
            if here.mark(kind) is not None:
                return state
        return State.RETRYING if attempt_of(version) > 1 else State.PENDING


def _ended_now(ids: Sequence[TaskId], said: Sequence[Cancelled]) -> list[TaskId]:
    return [task for task, answer in zip(ids, said, strict=True) if answer is Cancelled.CANCELLED]


def _taken(key: str) -> str:
    return f"The key {key!r} is taken by another task: choose another key, or the policy KEEP or REPLACE."


def _hash(namespace: str, request_id: str) -> bytes:
    return blake2b(f"{namespace}\0{request_id}".encode(), digest_size=12, person=b"timerd.request").digest()
