"""What the API asks of the engine (the `Verbs` seam): the core's procedures driven against store and holders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from timerd.config import ServerConfig
from timerd.core.protocol import (
    Call,
    Cancelled,
    ClosedForGood,
    Inserted,
    Located,
    from_letter,
    insert,
    insert_repeated,
    is_stored,
    keep_result,
    kept_result,
    locate,
    recall,
    remember,
    resolve,
    resolve_once,
    stored_among,
    tell_mark,
)
from timerd.core.taken import QueueKey
from timerd.model.errors import CorruptRow, NotFound, NotStored, StoreUnknown, Unavailable
from timerd.model.first_reply import Times, first_reply, indexes_of, read_reply
from timerd.model.identity import TaskId, attempt_of, delivery_id_of
from timerd.model.ordering import OnFailure
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Move, move_key, name_key
from timerd.model.rows import RowGroup
from timerd.model.settle import Outcome
from timerd.model.spread import Spread
from timerd.model.storage import Append, DeadLetter, MarkKind
from timerd.ports import Store
from timerd.services.engine.attempts import Attempts, with_last
from timerd.services.engine.browsing import Browsing
from timerd.services.engine.elsewhere import marked_as, silent
from timerd.services.engine.ending import end_all
from timerd.services.engine.engine_facts import Facts, ModeOf
from timerd.services.engine.estimating import Estimating
from timerd.services.engine.expired import Expired
from timerd.services.engine.kept_rows import keep, keep_stored
from timerd.services.engine.keying import NO_KEYS, Keying
from timerd.services.engine.many_keys import resolved_each, resolved_once
from timerd.services.engine.moving import Moving
from timerd.services.engine.namespace_use import NamespaceUse
from timerd.services.engine.ordering import Ordering
from timerd.services.engine.placed_ids import PlacedIds, homes_after, places_after
from timerd.services.engine.placing import by_key_shard, marked_late, placed_from, positioned
from timerd.services.engine.stored_once import KEPT_MS, at_their_origin, first_places, stored_once
from timerd.services.engine.turn_singles import TurnSingles
from timerd.services.engine.verbs import (
    ENDED,
    AskedMove,
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
from timerd.services.holding.shared_trips import of_all_calls

ANSWERS = {
    Cancelled.CANCELLED: CancelAnswer.CANCELLED,
    Cancelled.ALREADY_CANCELLED: CancelAnswer.ALREADY_CANCELLED,
    Cancelled.ALREADY_FIRED: CancelAnswer.ALREADY_FIRED,
    Cancelled.IN_FLIGHT: CancelAnswer.IN_FLIGHT,
    Cancelled.NOT_FOUND: CancelAnswer.NOT_FOUND,
    Cancelled.PENDING: CancelAnswer.PENDING,
}
Groups = tuple[tuple[Partition, RowGroup], ...]
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
        self._attempts = Attempts(scheduler, time)
        self._expired = Expired(scheduler.procedures, time)
        self._browsing = Browsing(store, scheduler, secret, self._attempts, self._expired)
        in_cluster = not scheduler.procedures.others.is_single
        self.ordering = Ordering(scheduler.memory.order_keys, scheduler.halting, secret, in_cluster=in_cluster)
        times, kept_ms = (self.now_ms, self._time_ms), config.history_retention_ms
        self._draining, self._knows_repeats = False, store.traits.knows_repeats
        self._turns = of_all_calls(scheduler.procedures, shares_commits=self._knows_repeats)
        self._moving = Moving(store, self._turns, kept_ms, *times, self.ordering, scheduler.halting)
        self._keying = Keying(self._turns, self._time_ms, in_cluster=in_cluster)
        self._estimating = Estimating(store)
        self.use = NamespaceUse(store, self._time_ms)
        self._facts = Facts(store, scheduler, time, config)
        self.scheduled = self._estimating.scheduled
        # About how many tasks are due in each minute of a range, and from a minute on: what pages show.
        self.load, self.estimated = self._estimating.by_minute, self._estimating.total
        ways = scheduler.procedures, self.shards, self._schedule, self._call, self.counted
        self.singles = TurnSingles(secret, *ways, knows_repeats=self._knows_repeats)

    def drain(self) -> None:
        self._draining = True

    def now_ms(self) -> int:
        if self._draining:
            raise Unavailable("The server is going away: connect again in a moment.", "DRAINING", retry_after_ms=1_000)
        return self._time.accepting_ms()

    def _time_ms(self) -> int:
        """Also while the server goes away: for calls that were taken in before."""
        return int(self._time.exact_ms())

    # -- schedule -------------------------------------------------------------------------------------------------

    async def schedule(self, tasks: NewTasks) -> StoredTasks:
        async with self._keying.in_line(tasks):
            now_ms = self.now_ms()
            if not any(extra.ordering_key for extra in tasks.rows.extras):
                return await self._schedule(tasks, now_ms)
            with self.ordering.writing(now_ms):
                self.ordering.number(tasks.rows, now_ms)
                return await self._schedule(tasks, now_ms)

    async def _schedule(self, tasks: NewTasks, now_ms: int) -> StoredTasks:
        if tasks.delayed and not self._knows_repeats:
            await at_their_origin(tasks, self._call(tasks, now_ms), self._procedures)
        asked_ms = tasks.rows.columns["fire_at_ms"].copy()
        positions_ms = placed_from(asked_ms, now_ms) if self._knows_repeats else first_places(tasks, asked_ms, now_ms)
        shards = await self.shards.place(tasks.prefix, tasks.rows, positions_ms)
        ids = PlacedIds(self.secret, tasks.prefix, tasks.rows, positions_ms, shards, self.ordering.shards(tasks.rows))
        keys = await self._keying.reserve(tasks, ids, now_ms) if tasks.keys else NO_KEYS
        first_ms, placed_ms = await self._append(tasks, positions_ms, asked_ms, keys.left_out, now_ms, shards)
        is_repeat = first_ms is not positions_ms
        if is_repeat or placed_ms is not positions_ms:
            with after_a_write():
                ids = await self._ids_elsewhere(tasks, first_ms, placed_ms, shards, is_repeat=is_repeat)
        may_be_repeat = is_repeat or not self._knows_repeats
        if not tasks.keys:
            return StoredTasks(ids, {}, {}, may_be_repeat)
        with after_a_write():
            refused = await self._keying.activate(tasks, ids, keys, may_be_repeat=may_be_repeat)
        return StoredTasks(ids, keys.kept, refused, may_be_repeat)

    async def is_stored(self, tasks: NewTasks, refused_now: Collection[int] = ()) -> bool:
        if not self._knows_repeats:
            return await self._is_there(tasks, refused_now)
        reply = (await self._store.replies([tasks.prefix]))[0]
        if reply is None:
            return False
        keep_stored(tasks, reply)
        return len(tasks.rows) == len(indexes_of(reply))

    async def _is_there(self, tasks: NewTasks, refused_now: Collection[int]) -> bool:
        """Where the store keeps no replies, a message that was begun goes on; but not with what would be refused, and
        was not stored."""
        is_begun = await drive(is_stored(await self._first_groups(tasks), tasks.prefix), self._procedures)
        if is_begun and refused_now:
            counted = replace(tasks, rows=replace(tasks.rows, columns=tasks.rows.columns.copy()))
            await at_their_origin(counted, self._call(tasks, self.now_ms()), self._procedures)
            there = await drive(stored_among(await self._first_groups(counted), tasks.prefix), self._procedures)
            asked = zip(tasks.rows.columns["index"].tolist(), tasks.rows.digests(), strict=True)
            keep(tasks, [row for row, (at, digest) in enumerate(asked) if at not in refused_now or digest in there])
        return is_begun

    async def _first_groups(self, tasks: NewTasks) -> Groups:
        asked_ms = tasks.rows.columns["fire_at_ms"]
        places_ms = first_places(tasks, asked_ms, self.now_ms())
        shards = await self.shards.place(tasks.prefix, tasks.rows, places_ms)
        return self._by_shard(positioned(tasks.rows, places_ms, asked_ms), shards)

    async def _append(
        self,
        tasks: NewTasks,
        positions_ms: Times,
        asked_ms: Times,
        left_out: Collection[int],
        now_ms: int,
        shards: Mapping[int, int],
    ) -> tuple[Times, Times]:
        """Where the rows were written first, by this call or, if that is not `positions_ms` itself, by an earlier try;
        and where they live in the end."""
        rows = positioned(tasks.rows, positions_ms, asked_ms)
        if left_out:
            rows = rows.select(np.array([n for n in range(len(rows)) if n not in left_out], dtype=np.intp))
        if not len(rows):
            return positions_ms, positions_ms
        if not self._knows_repeats:
            rows = marked_late(rows, now_ms)
        groups, spread = self._placed(rows, now_ms, shards)
        try:
            done = await self._insert(tasks, groups, spread, positions_ms, asked_ms, now_ms)
        except ClosedForGood as error:
            raise StoreUnknown("A task's instant was closed while it was written.") from error
        if done.repeated is not None:
            keep_stored(tasks, done.repeated)
            placed_ms, tasks.rows.columns["fire_at_ms"] = read_reply(done.repeated)
            with after_a_write():
                again = await self._see_to(tasks, placed_ms, now_ms)
            return placed_ms, places_after(tasks, placed_ms, again)
        self.counted(rows)
        return positions_ms, places_after(tasks, positions_ms, done)

    def counted(self, rows: RowGroup) -> None:
        """They were stored."""
        self._estimating.add(rows)
        self.use.add(rows)
        self.shards.took_in(rows.columns["position_ms"], len(rows.payloads))

    def _insert(
        self, tasks: NewTasks, groups: Groups, spread: Spread | None, positions_ms: Times, asked_ms: Times, now_ms: int
    ) -> Awaitable[Inserted]:
        if not self._knows_repeats:
            return stored_once(Append(groups, spread=spread), self._call(tasks, now_ms), self._procedures)
        reply = first_reply(positions_ms, asked_ms, tasks.rows.columns["index"])
        runner = self._turns if len(tasks.rows) == 1 else self._procedures
        return drive(insert(Append(groups, tasks.prefix, reply, spread), now_ms), runner)

    def _call(self, tasks: NewTasks, now_ms: int) -> Call:
        return Call(tasks.prefix, now_ms, now_ms + KEPT_MS, self._config.history_retention_ms)

    def _placed(self, rows: RowGroup, now_ms: int, shards: Mapping[int, int]) -> tuple[Groups, Spread | None]:
        """By bucket as far as a holder may want to hear of them, in one piece beyond; those of ordering keys all."""
        far_from_ms = bucket_of(now_ms + self._config.look_ahead_ms + NOT_HELD_AHEAD_MS)
        positions_ms = rows.columns["position_ms"]
        far_count = int(np.count_nonzero(positions_ms >= far_from_ms)) if len(rows) >= SPREAD_ROWS else 0
        if far_count < SPREAD_ROWS or self.ordering.shards(rows):
            return self._by_shard(rows, shards), None
        order = np.argsort(positions_ms, kind="stable")
        near, far = rows.select(order[:-far_count]), rows.select(order[-far_count:])
        others = {bucket_ms: shard for bucket_ms, shard in shards.items() if shard}
        return self._by_shard(near, shards), Spread(TIME_SCOPE, 0, far, others)

    def _by_shard(self, rows: RowGroup, shards: Mapping[int, int]) -> Groups:
        return tuple(by_key_shard(rows, shards, self.ordering.shards(rows)))

    async def _see_to(self, tasks: NewTasks, placed_ms: Times, now_ms: int) -> Inserted:
        """Rows of a repeat whose instant has come: the first call may have died before they were taken in."""
        rows = positioned(tasks.rows, placed_ms, tasks.rows.columns["fire_at_ms"])
        rows = rows.select(np.flatnonzero(placed_ms <= now_ms))
        if not len(rows):
            return Inserted()
        try:
            shards = await self.shards.place(tasks.prefix, rows, rows.columns["position_ms"])
            return await drive(insert_repeated(Append(self._by_shard(rows, shards)), now_ms), self._procedures)
        except ClosedForGood as error:
            raise StoreUnknown("The task's instant was closed while it was looked for.") from error

    async def _ids_elsewhere(
        self, tasks: NewTasks, first_ms: Times, placed_ms: Times, shards: Mapping[int, int], *, is_repeat: bool
    ) -> PlacedIds:
        """Of rows that do not live where this call put them: it is a repeat, or they were written again."""
        others: Mapping[int, int] = self.ordering.shards(tasks.rows)
        if is_repeat:
            shards = await self.shards.place(tasks.prefix, tasks.rows, first_ms)
        if placed_ms is not first_ms:
            shards, others = homes_after(first_ms, placed_ms, shards, others)
        return PlacedIds(self.secret, tasks.prefix, tasks.rows, placed_ms, shards, others)

    async def flush_estimates(self) -> None:
        await self._estimating.flush()
        await self.use.flush()

    # -- cancel, move, look ---------------------------------------------------------------------------------------

    async def cancel(self, namespace: str, request_id: str, ids: Sequence[TaskId]) -> Sequence[CancelAnswer]:
        now_ms, request = self.now_ms(), _hash(namespace, request_id)
        runner = self._turns if len(ids) == 1 else self._procedures
        groups = self._procedures.others.side_by_side
        said = await end_all(ids, Outcome.CANCELLED, request, runner, groups, now_ms=now_ms)
        if said.count(Cancelled.CANCELLED) == len(ids):
            self._removed(namespace, ids)
            return [CancelAnswer.CANCELLED] * len(ids)
        self._removed(namespace, _ended_now(ids, said))
        gone = [t for t, s in zip(ids, said, strict=True) if s is Cancelled.NOT_FOUND]
        forgotten = await self._forgotten(gone, now_ms)
        return [CancelAnswer.FINISHED if t in forgotten else ANSWERS[s] for t, s in zip(ids, said, strict=True)]

    async def reschedule(self, namespace: str, moves: Sequence[AskedMove]) -> Sequence[int | NotStored]:
        said = await self._moving.move_all([m._replace(request=_hash(namespace, m.request).hex()) for m in moves])
        for each, answer in zip(moves, said, strict=True):
            if isinstance(answer, int):
                self.use.move(namespace, each.task.position_ms, answer)
        return said

    async def moved_before(self, namespace: str, request: str, task: TaskId) -> int | None:
        return await self._moving.moved_before(task, _hash(namespace, request).hex())

    async def recall(self, request: bytes) -> bytes | None:
        return await drive(recall(request), self._turns)

    async def remember(self, request: bytes, answer: bytes) -> bytes:
        with after_a_write():
            return await drive(remember(request, answer, int(self._time.exact_ms())), self._turns)

    async def keep_result(self, delivery_id: bytes, result: bytes, keep_ms: int) -> None:
        with after_a_write():
            await drive(keep_result(delivery_id, result, int(self._time.exact_ms()) + keep_ms), self._procedures)

    async def kept_result(self, delivery_id: bytes) -> bytes | None:
        return await drive(kept_result(delivery_id), self._procedures)

    async def get(self, namespace: str, task: TaskId) -> TaskView:
        here, is_in_hand = await self._look_whether_in_hand(task)
        if here.rows is None:
            if self._is_forgotten(task, here.move, int(self._time.exact_ms())):
                return TaskView(task, State.FINISHED, task.position_ms, task.position_ms)
            if (await self._store.facts()).corrupt:
                raise CorruptRow(f"The row of {task} is not there, and a part of the data is damaged.")
            raise NotFound("There is no task with this id.", "NOT_FOUND")
        place, outcome = here.place, here.ending.outcome
        # What a late ack has marked while it waited for its next attempt never began that one.
        is_marked = here.mark(MarkKind.ACKED) is not None
        unsent = is_marked or await self._attempts.has_ended_unsent(place.partition, place.key, outcome)
        view = self._view(task, here, here.rows, is_in_hand=is_in_hand, acked_unsent=unsent)
        view = with_last(view, await self._attempts.last(place.partition, place.key, outcome))
        return (await self._browsing.with_dead_letters([view]))[0]

    async def resolve_key(self, namespace: str, key: str, request: bytes = b"") -> TaskId:
        name = name_key(namespace, key)
        once = resolve_once(name, request, int(self._time.exact_ms())) if request else resolve(name)
        task = await drive(once, self._turns)
        if task is None:
            raise NotFound(f"No task has the key {key!r}.", "NOT_FOUND")
        return task

    async def resolve_keys(self, namespace: str, keys: Sequence[str], request: bytes) -> Sequence[TaskId | None]:
        return await resolved_once([name_key(namespace, k) for k in keys], request, self._time_ms, self._procedures)

    async def resolve_each(self, namespace: str, keys: Sequence[tuple[str, bytes]]) -> Sequence[TaskId | None]:
        return await resolved_each([(name_key(namespace, k), r) for k, r in keys], self._time_ms, self._procedures)

    async def redrive(
        self, namespace: str, request: str, ids: Sequence[TaskId], asked_ms: int
    ) -> Sequence[bool | NotStored]:
        named = _hash(namespace, f"{REDRIVE_GENERATION} {request}").hex()
        said = await self._moving.redrive(ids, named, asked_ms)
        self.use.revive(namespace, sum(answer is True for answer in said))
        return said

    async def dead_letters(
        self, namespace: str, queue: str, lo_ms: int, hi_ms: int, after: bytes, limit: int
    ) -> Sequence[DeadLetter]:
        return await self._store.dead(namespace, queue, lo_ms, hi_ms, after, limit)

    async def purge_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> int:
        """How many are gone: one whose task has died again since stays."""
        self.now_ms()
        versions = {letter.task_id: letter.key.version for letter in dead_letters}
        taken = await self._store.take_dead_letters(list(versions))
        later = [letter for letter in taken if letter.key.version != versions[letter.task_id]]
        if later:
            with after_a_write():
                await self._store.put_dead_letters(later)
        return len(taken) - len(later)

    async def halting(self, dead_letters: Sequence[DeadLetter]) -> Collection[bytes]:
        return await self._scheduler.halting.among(dead_letters)

    async def list(self, query: Query, after: Cursor | None, limit: int, max_scanned: int, *, payload: bool) -> Views:
        return await self._browsing.page(query, after, limit, max_scanned, payload=payload)

    async def count(self, query: Query, after: Cursor | None, max_scanned: int) -> tuple[int, Cursor | None, int]:
        return await self._browsing.count(query, after, max_scanned)

    async def estimate(self, namespace: str, queue: str) -> int:
        return (await self._estimating.total(namespace, queue, self.now_ms())).tasks

    async def purge(self, query: Query, after: Cursor | None, max_scanned: int) -> tuple[int, Cursor | None, int, int]:
        self.now_ms()
        page = await self._browsing.page(query, after, max_scanned, max_scanned, payload=False)
        request = _hash(query.namespace, "purge")
        ids = [view.task_id for view in page.views]
        said = await end_all(ids, Outcome.PURGED, request, self._procedures, self._procedures.others.side_by_side)
        self._removed(query.namespace, _ended_now(ids, said))
        return said.count(Cancelled.CANCELLED), page.cursor, page.scanned_through_ms, said.count(Cancelled.IN_FLIGHT)

    def goes_by(self, mode: ModeOf, on_failure: Callable[[QueueKey], OnFailure]) -> None:
        """What queues may do, for `facts`; and what becomes of an ordering key when a task of it fails."""
        self._facts.go_by(mode)
        self._scheduler.memory.order_keys.goes_by(on_failure)

    async def facts(self) -> EngineFacts:
        return await self._facts.read()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _removed(self, namespace: str, tasks: Sequence[TaskId]) -> None:
        self._estimating.remove(tasks)
        self.use.remove(namespace, tasks)

    async def _look_up(self, task: TaskId) -> Located:
        here = await drive(locate(task, durable=True), self._procedures)
        may_be_dead = here.rows is None or here.ending.outcome is Outcome.DEAD
        dead_letters = await self._store.get_dead_letters([task.to_bytes()]) if may_be_dead else []
        return from_letter(here, dead_letters[0]) if dead_letters else here

    async def _look_whether_in_hand(self, task: TaskId) -> tuple[Located, bool]:
        """With whether a worker has the task. Where only a mark tells of a cancel, or it has expired, one may have it,
        or have ended it since the records were read. Its holder says so, and hears of the mark; they are read again."""
        here = await self._look_up(task)
        is_in_hand = await self._is_in_hand(here, here.rows) if here.rows is not None else False
        is_open = marked_as(here) not in (State.CANCELLED, State.PURGED) and not self._expired.has(here)
        if is_in_hand or here.ending.outcome is not None or is_open:
            return here, is_in_hand is True
        if is_in_hand is None:
            raise silent()
        if (told := await drive(tell_mark(here), self._procedures)) is Cancelled.PENDING:
            raise silent()
        return await self._look_up(task), told is Cancelled.IN_FLIGHT

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

    async def _is_in_hand(self, here: Located, rows: RowGroup) -> bool | None:
        """None: its holder does not answer."""
        outcome, is_held = here.ending.outcome, here.place.partition in self._scheduler.machines
        # Who holds the row may know that only its retries have ended; in the store that is the end.
        if outcome is not None and not (is_held and outcome in (Outcome.CANCELLED, Outcome.PURGED)):
            return False
        lease_ms, now_ms = rows.extra_of(0).lease_until_ms, int(self._time.exact_ms())
        return await self._procedures.is_in_hand(here.place, lease_ms, now_ms)

    def _view(self, task: TaskId, here: Located, rows: RowGroup, *, is_in_hand: bool, acked_unsent: bool) -> TaskView:
        extra, key, template = rows.extra_of(0), here.place.key, rows.template_of(0)
        state = State.IN_FLIGHT if is_in_hand else self._state(here, key.version)
        unsent = acked_unsent and state is State.ACKED
        attempt = self._attempts.begun(here.place.partition, key, state, extra.lease_until_ms, ended_unsent=unsent)
        fire_at_ms = int(rows.columns["fire_at_ms"][0])
        payload = rows.payload(0)
        progress = (self._scheduler.deliveries.progress_of(key) if is_in_hand else "") or extra.progress
        notes = payload, extra.key, attempt, extra.last_error, extra.history, progress, extra.ordering_key
        # Of an ordering key an attempt that follows a failed one stands where that stood.
        due_at_ms = max(key.position_ms, extra.not_before_ms)
        sent_id = delivery_id_of(key.digest, key.version)
        ended = is_in_hand and marked_as(here) in (State.CANCELLED, State.PURGED)
        view = TaskView(task, state, fire_at_ms, due_at_ms, template, *notes, delivery_id=sent_id, is_cancelling=ended)
        if not extra.ordering_key:
            return view
        queue, now_ms = QueueKey(template.namespace, template.queue), int(self._time.exact_ms())
        before = self.ordering.before(queue, extra.ordering_key, task.digest, now_ms)
        return replace(view, behind=before.task, is_halted=before.is_halted)

    def _state(self, here: Located, version: int) -> State:
        if here.ending.outcome in ENDED:
            return ENDED[here.ending.outcome]
        if (marked := marked_as(here)) is not None:
            return marked
        if self._expired.has(here):
            return State.EXPIRED
        return State.RETRYING if attempt_of(version) > 1 else State.PENDING


def _ended_now(ids: Sequence[TaskId], said: Sequence[Cancelled]) -> list[TaskId]:
    return [task for task, answer in zip(ids, said, strict=True) if answer is Cancelled.CANCELLED]


def _hash(namespace: str, request_id: str) -> bytes:
    return blake2b(f"{namespace}\0{request_id}".encode(), digest_size=12, person=b"timerd.request").digest()
