"""What changes tasks: schedule, cancel, reschedule, purge, redrive. The unary calls, the batches and the Session share
these: a unary call is a batch of one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from operator import is_
from types import MappingProxyType
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from timerd.config import ServerConfig
from timerd.model.errors import Invalid, NotFound, NotStored, Precondition, QuotaExceeded, TimerdError
from timerd.model.identity import TaskId
from timerd.model.rows import RowGroup
from timerd.model.task import MAX_BATCH_TASKS
from timerd.model.task_ids import TaskIds
from timerd.services.calls.due_times import DueClock, clock_of, refuse_long_past
from timerd.services.calls.fields import at_most, key_of, limit_count, namespace_of, request_id_of
from timerd.services.calls.fields import queue_of as checked_queue
from timerd.services.calls.many_ids import all_genuine, joined
from timerd.services.calls.page_tokens import cursor_of, cursor_token
from timerd.services.calls.plain_calls import PlainCalls, plain_calls
from timerd.services.calls.queries import DEFAULT_SCANNED, MAX_SCANNED, alive_only, open_bounds, query_of
from timerd.services.calls.queue_rules import QueueRules
from timerd.services.calls.quotas import Quotas
from timerd.services.calls.reads import dead_after
from timerd.services.calls.repeats import answered_once, name_of, named
from timerd.services.calls.replies import (
    NOTHING_STORED,
    batch_reply,
    redrive_results,
    refused_results,
    schedule_reply,
    timestamp,
)
from timerd.services.calls.requests import (
    Draft,
    Rules,
    ScheduleCall,
    draft_of_batch,
    draft_of_one,
    draft_of_single,
    rules_for,
    rules_of_now,
    rules_of_repeat,
)
from timerd.services.calls.targets import genuine, stored_id, task_of, task_of_id
from timerd.services.engine.verbs import AskedMove, CancelAnswer, StoredTasks, Verbs
from timerd.services.transport.slices import in_slices
from timerd.v1 import task_pb2 as task_wire
from timerd.v1 import timer_service_pb2 as wire

AnySchedule = TypeVar("AnySchedule", bound=ScheduleCall)
MoveCall = wire.RescheduleRequest | wire.FireNowRequest
DraftOf = Callable[[AnySchedule, Rules], Awaitable[Draft]]
NO_PROBLEMS: Mapping[int, NotStored] = MappingProxyType({})
DEFAULT_REDRIVEN = 1_000
# A millisecond or less for their ids, as columns.
IDS_AT_ONCE = 2_000
DEAD_LETTERS_AT_ONCE = 500
# What they name is remembered as one register.
MAX_BATCH_KEYS = 1_000
# Of a repeat: another call with the task may succeed.
REFUSED_BEFORE = "REFUSED_BEFORE"


def _first_ms(instants_ms: npt.NDArray[np.int64]) -> int:
    """Of one task as well: its call is the most common one, and a reduction costs it 3 us."""
    return int(instants_ms[0] if len(instants_ms) == 1 else instants_ms.min())


class Mutations:
    """One method a verb: request -> reply, or one of model.errors."""

    def __init__(
        self,
        verbs: Verbs,
        config: ServerConfig,
        rules: QueueRules,
        quotas: Quotas,
        over: Callable[[Iterable[bytes]], None],
    ) -> None:
        """`over` is told the digests of tasks that have ended, or may have."""
        self._verbs = verbs
        self._over = over
        self._rules = rules
        self._payload_limit_bytes = config.payload_limit_bytes
        self._quotas = quotas
        # What was changed -> how many tasks.
        self.changed: Counter[str] = Counter()

    async def draft(self, request: wire.ScheduleRequest) -> Draft:
        """What is to be stored. Raises what is wrong with it."""
        return await self._draft(draft_of_one, request)

    async def schedule(self, request: wire.ScheduleRequest) -> wire.ScheduleResponse:
        draft = await self.draft(request)
        stored = await self.store(draft)
        return schedule_reply(draft, stored, await self._kept_fire_ms(draft.tasks.namespace, stored))

    def single(self, request: wire.ScheduleRequest, now_ms: int) -> Draft | None:
        """What `schedule` would store, where nothing has to be asked for it. None: `schedule` sees to it. Raises what
        is wrong with the call, as if it were made first."""
        rules = rules_for(request, now_ms, self._payload_limit_bytes, self._rules)
        draft = draft_of_single(request, rules)
        return None if draft is None or self._quotas.has(draft.tasks.namespace) else draft

    def plain(self, requests: Sequence[wire.ScheduleRequest | None], now_ms: int) -> PlainCalls | None:
        """Those of which `single` would store what they ask for, as columns. None: there are none."""
        rules = rules_of_now(DueClock(now_ms), self._payload_limit_bytes, self._rules)
        return plain_calls(requests, rules, self._quotas.has)

    async def schedule_batch(self, request: wire.ScheduleBatchRequest) -> wire.ScheduleBatchResponse:
        draft = await self._draft(draft_of_batch, request)
        if not len(draft.tasks.rows):
            return await batch_reply(draft, NOTHING_STORED, {})
        asked = draft.tasks.rows
        stored = await self.store(draft)
        _name_refused(draft, asked)
        kept_ms = await self._kept_fire_ms(draft.tasks.namespace, stored) if stored.kept else {}
        return await batch_reply(draft, stored, kept_ms)

    async def store(self, draft: Draft) -> StoredTasks:
        with self._quotas.promised(draft.tasks):
            return await self._verbs.schedule(draft.tasks)

    async def _draft(self, draft_of: DraftOf[AnySchedule], request: AnySchedule) -> Draft:
        """What is refused for the time, a setting or a quota may have been stored by an earlier try: then it is
        answered as it was the first time (guarantee G2)."""
        now_ms = self._verbs.now_ms()
        draft: Draft | None = None
        refused: NotStored | None = None
        try:
            draft = await draft_of(request, rules_for(request, now_ms, self._payload_limit_bytes, self._rules))
            if request.request_id and not request.HasField("request_time") and len(draft.tasks.rows):
                refuse_long_past(_first_ms(draft.tasks.rows.columns["fire_at_ms"]), now_ms)
            await self._quotas.take(draft.tasks, now_ms)
        except (Invalid, Precondition, QuotaExceeded) as error:
            refused = error
        if request.request_id and (refused is not None or draft is None or draft.problems):
            again = await self._draft_of_repeat(draft_of, request, now_ms, draft)
            if again is not None:
                return again
        if refused is not None:
            raise refused
        assert draft is not None
        return draft

    async def _draft_of_repeat(
        self, draft_of: DraftOf[AnySchedule], request: AnySchedule, now_ms: int, first: Draft | None
    ) -> Draft | None:
        """None: no earlier try of the call has stored anything. `first`: as a call that is made first; None: it would
        be refused as a whole, for the time."""
        try:
            draft = await draft_of(request, rules_of_repeat(request, now_ms))
        except Invalid:
            return None
        asked = draft.tasks.rows
        # What is too large was refused for that, though by now it is also too late.
        refused = {**(first.problems if first is not None else {}), **await self._over_limit(draft_of, request, now_ms)}
        if not len(asked) or not await self._verbs.is_stored(draft.tasks, refused.keys()):
            return None
        _name_refused(draft, asked, refused)
        return draft

    async def _over_limit(
        self, draft_of: DraftOf[AnySchedule], request: AnySchedule, now_ms: int
    ) -> Mapping[int, NotStored]:
        """Of the items of a call that would be refused for the time, those that are too large besides."""
        rules = replace(rules_of_repeat(request, now_ms), payload_limit_bytes=self._payload_limit_bytes)
        try:
            return (await draft_of(request, rules)).problems
        except Invalid:
            # Of one task it is the call that is.
            return NO_PROBLEMS

    async def _kept_fire_ms(self, namespace: str, stored: StoredTasks) -> Mapping[int, int]:
        """When the tasks fire that have the keys asked for; what cannot be read stays unsaid: the outcome stands."""
        found: dict[int, int] = {}
        for row, task in stored.kept.items():
            try:
                found[row] = (await self._verbs.get(namespace, task)).fire_at_ms
            except TimerdError:
                continue
        return found

    async def cancel(self, request: wire.CancelRequest) -> tuple[TaskId | None, CancelAnswer]:
        """Which task it was about, where there is one, and what became of it."""
        namespace, request_id = namespace_of(request.namespace), request_id_of(request.request_id)
        clock_of(request, self._verbs.now_ms()).refuse_too_old()
        # How long a try waits does not make it another call.
        named = wire.CancelRequest()
        named.CopyFrom(request)
        named.ClearField("wait")
        try:
            task = await self._target(namespace, named)
        except NotFound:
            return None, CancelAnswer.NOT_FOUND
        answers = await self._verbs.cancel(namespace, request_id, [task])
        self._cancelled([task], answers)
        return task, answers[0]

    async def cancel_batch(self, request: wire.CancelBatchRequest) -> wire.CancelBatchResponse:
        """Ids that cannot be of this namespace cost the engine nothing."""
        namespace, request_id = namespace_of(request.namespace), request_id_of(request.request_id)
        if not request.keys:
            limit_count(len(request.task_ids), MAX_BATCH_TASKS, "task_ids", "task_ids")
        clock_of(request, self._verbs.now_ms()).refuse_too_old()
        of_keys = self._of_keys(namespace, request) if request.keys else None
        tasks = await (of_keys or self._genuine(namespace, request.task_ids))
        known = tasks if isinstance(tasks, TaskIds) else [task for task in tasks if task is not None]
        said = await self._verbs.cancel(namespace, request_id, known) if known else ()
        self._cancelled(known, said)
        if len(said) == len(tasks):
            return wire.CancelBatchResponse(outcomes=_outcomes(said))
        answers = iter(said)
        outcomes = [_outcome(CancelAnswer.NOT_FOUND if task is None else next(answers)) for task in tasks]
        return wire.CancelBatchResponse(outcomes=outcomes)

    async def _of_keys(self, namespace: str, request: wire.CancelBatchRequest) -> Sequence[TaskId | None]:
        if request.task_ids:
            raise Invalid("Both task_ids and keys are set: name the tasks in one way.", "keys")
        limit_count(len(request.keys), MAX_BATCH_KEYS, "keys", "keys")
        keys = [key_of(key, f"keys[{index}]") for index, key in enumerate(request.keys)]
        if "" in keys:
            raise Invalid("A key of the message is empty: give the key of a task, or leave it out.", "keys")
        return await self._verbs.resolve_keys(namespace, keys, name_of(namespace, request))

    def _cancelled(self, tasks: Sequence[TaskId], answers: Sequence[CancelAnswer]) -> None:
        self._over(task.digest for task in tasks)
        self.changed["cancelled"] += sum(map(is_, answers, repeat(CancelAnswer.CANCELLED)))

    async def _genuine(self, namespace: str, texts: Sequence[str]) -> Sequence[TaskId | None]:
        secret, parts = self._verbs.secret, list[Sequence[TaskId | None]]()
        if len(texts) == 1:
            # As most calls: columns, and a turn of the loop, would cost more than the id.
            return [genuine(secret, namespace, texts[0])]
        for at in range(0, len(texts), IDS_AT_ONCE):
            part = texts[at : at + IDS_AT_ONCE]
            good = all_genuine(secret, namespace, part)
            parts.append(good or [genuine(secret, namespace, text) async for _, text in in_slices(part)])
            if len(texts) > IDS_AT_ONCE:
                await asyncio.sleep(0)
        return joined(parts)

    async def reschedule(self, request: wire.RescheduleRequest) -> wire.RescheduleResponse:
        namespace, request_id = namespace_of(request.namespace), request_id_of(request.request_id)
        due = partial(DueClock.fire_at_ms, message=request, which=request.WhichOneof("due"))
        task, moved_ms = await self._move(namespace, named(request_id, request), request, due)
        return wire.RescheduleResponse(task_id=str(task), fire_time=timestamp(moved_ms))

    async def fire_now(self, request: wire.FireNowRequest) -> wire.FireNowResponse:
        namespace, request_id = namespace_of(request.namespace), request_id_of(request.request_id)
        task, moved_ms = await self._move(namespace, named(request_id, request), request, _now)
        return wire.FireNowResponse(task_id=str(task), fire_time=timestamp(moved_ms))

    async def _move(
        self, namespace: str, request_name: str, request: MoveCall, due: Callable[[DueClock], int]
    ) -> tuple[TaskId, int]:
        """What is refused for the time may have been carried out by an earlier try."""
        clock = clock_of(request, self._verbs.now_ms())
        try:
            clock.refuse_too_old()
            fire_at_ms = due(clock)
        except Invalid:
            task = await self._known_target(namespace, request)
            moved_ms = await self._verbs.moved_before(namespace, request_name, task) if task is not None else None
            if task is None or moved_ms is None:
                raise
        else:
            task = await self._target(namespace, request)
            asked = AskedMove(request_name, task, fire_at_ms, clock.asked_ms())
            moved_ms = _carried_out((await self._verbs.reschedule(namespace, [asked]))[0])
        self.changed["moved"] += 1
        return task, moved_ms

    async def _known_target(self, namespace: str, request: MoveCall) -> TaskId | None:
        """The task that earlier tries of the call were about."""
        if isinstance(request, wire.FireNowRequest) or request.WhichOneof("target") == "task_id":
            return genuine(self._verbs.secret, namespace, request.task_id)
        name = name_of(namespace, request)
        known = await self._verbs.recall(name) if name else None
        return genuine(self._verbs.secret, namespace, known.decode()) if known else None

    async def _target(self, namespace: str, request: MoveCall | wire.CancelRequest) -> TaskId:
        if isinstance(request, wire.FireNowRequest):
            return task_of_id(self._verbs.secret, namespace, request.task_id)
        which = request.WhichOneof("target")
        name = name_of(namespace, request) if which == "key" else b""
        return await task_of(self._verbs, namespace, request, which, name)

    async def purge(self, request: wire.PurgeRequest) -> wire.PurgeResponse:
        """A dry run counts the same tasks, whatever was counted before."""
        namespace = namespace_of(request.namespace)
        request_id_of(request.request_id)
        if not request.force:
            return await self._purge(namespace, request)
        work = partial(self._purge, namespace, request)
        return await answered_once(self._verbs, namespace, request, wire.PurgeResponse, work)

    async def _purge(self, namespace: str, request: wire.PurgeRequest) -> wire.PurgeResponse:
        query = alive_only(query_of(namespace, request.filter))
        scanned = at_most(request.max_scanned, DEFAULT_SCANNED, MAX_SCANNED)
        after, in_hand = cursor_of(request), 0
        if request.force:
            purged, cursor, through_ms, in_hand = await self._verbs.purge(query, after, scanned)
            self.changed["purged"] += purged
        else:
            purged, cursor, through_ms = await self._verbs.count(query, after, scanned)
        return wire.PurgeResponse(
            purged=purged,
            dry_run=not request.force,
            next_page_token=cursor_token(request, cursor),
            scanned_through=timestamp(through_ms),
            in_hand=in_hand,
        )

    async def redrive(self, request: wire.RedriveRequest) -> wire.RedriveResponse:
        namespace, request_id = namespace_of(request.namespace), request_id_of(request.request_id)
        if request.task_ids and request.queue:
            raise Invalid("Both task_ids and queue are set: name the dead letters in one way.", "task_ids")
        run = self._redrive_ids if request.task_ids else self._redrive_range
        work = partial(run, namespace, named(request_id, request), request)
        return await answered_once(self._verbs, namespace, request, wire.RedriveResponse, work)

    async def _redrive_ids(self, namespace: str, named: str, request: wire.RedriveRequest) -> wire.RedriveResponse:
        limit_count(len(request.task_ids), MAX_BATCH_TASKS, "task_ids", "task_ids")
        tasks = await self._genuine(namespace, request.task_ids)
        known = [task for task in tasks if task is not None]
        asked_ms = clock_of(request, self._verbs.now_ms()).asked_ms()
        answers = iter(await self._verbs.redrive(namespace, named, known, asked_ms) if known else ())
        said = [task is not None and next(answers) for task in tasks]
        redriven = sum(answer is True for answer in said)
        self.changed["redriven"] += redriven
        return wire.RedriveResponse(redriven=redriven, results=redrive_results(request.task_ids, said))

    async def _redrive_range(self, namespace: str, named: str, request: wire.RedriveRequest) -> wire.RedriveResponse:
        queue = checked_queue(request.queue, "queue")
        lo_ms, hi_ms = open_bounds(request)
        left = at_most(request.max_redriven, DEFAULT_REDRIVEN, MAX_BATCH_TASKS)
        reply, after = wire.RedriveResponse(), b""
        # What this call has given life to may die again before the next page is read: it counts once.
        seen: set[bytes] = set()
        asked_ms = clock_of(request, self._verbs.now_ms()).asked_ms()
        while left:
            dead_letters = await self._verbs.dead_letters(
                namespace, queue, lo_ms, hi_ms, after, min(left, DEAD_LETTERS_AT_ONCE)
            )
            if not dead_letters:
                break
            after = dead_after(dead_letters[-1])
            tasks = [stored_id(letter.task_id) for letter in dead_letters if letter.task_id not in seen]
            seen.update(letter.task_id for letter in dead_letters)
            said = await self._verbs.redrive(namespace, named, tasks, asked_ms)
            redriven = sum(answer is True for answer in said)
            reply.redriven += redriven
            self.changed["redriven"] += redriven
            reply.results.extend(refused_results(tasks, said))
            left -= len(tasks)
        return reply


def _name_refused(draft: Draft, asked: RowGroup, now: Mapping[int, NotStored] = NO_PROBLEMS) -> None:
    """The tasks of a repeat that were not stored when the call was made first, though they might be now. `now`: why
    they would not be."""
    if len(asked) != len(draft.tasks.rows):
        for index in np.setdiff1d(asked.columns["index"], draft.tasks.rows.columns["index"]).tolist():
            then = Invalid("The task was refused when the call was made first.", f"[{index}]", REFUSED_BEFORE)
            draft.problems[index] = now.get(index, then)


def _now(clock: DueClock) -> int:
    return clock.now_ms


def _carried_out(answer: int | NotStored) -> int:
    """Of a batch of one. Raises what it was refused for."""
    if isinstance(answer, NotStored):
        raise answer
    return answer


def _outcomes(answers: Sequence[CancelAnswer]) -> list[task_wire.CancelOutcome]:
    """They are mostly all the same."""
    known = {answer: _outcome(answer) for answer in set(answers)}
    return [known[answers[0]]] * len(answers) if len(known) == 1 else [known[answer] for answer in answers]


def _outcome(answer: CancelAnswer) -> task_wire.CancelOutcome:
    return cast(task_wire.CancelOutcome, answer.value)
