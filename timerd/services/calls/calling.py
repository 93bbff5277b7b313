"""A task that is handled at once, and what becomes of it, in one call.

It is a schedule, and then a wait. Who waits is noted *before* the task is stored, so that the first look is saved: what
ends is heard. After that no error is told, for it would say that nothing is stored: the task is, and is answered as one
that is open, which the caller goes on to wait for.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache, partial
from time import perf_counter
from typing import Any

from google.protobuf.duration_pb2 import Duration

from timerd.core.dispatch import Histogram
from timerd.model.errors import TimerdError
from timerd.model.identity import TaskId
from timerd.model.task import MAX_ON_DEMAND_MS, Template
from timerd.services.calls.call_times import BOUNDS_S
from timerd.services.calls.due_times import wait_ms
from timerd.services.calls.fields import namespace_of
from timerd.services.calls.ingest import IngestBudget
from timerd.services.calls.mutations import Mutations
from timerd.services.calls.requests import Draft
from timerd.services.calls.results import KeptResults
from timerd.services.calls.task_ends import OVER, NotedWait, TaskEnds
from timerd.services.engine.verbs import State, StoredTasks, Verbs
from timerd.v1 import task_pb2 as task_wire
from timerd.v1 import timer_service_pb2 as wire

log = logging.getLogger(__name__)
# The caller is there when the task ends, or comes back from a connection that broke.
RESULT_KEPT_S = 60
AT_ONCE = Duration()
OPEN = "open"
# Raises StoreUnknown where the store keeps the work from its end for too long: it goes on.
InTime = Callable[[Coroutine[Any, Any, StoredTasks]], Awaitable[StoredTasks]]


class AnsweredCalls:
    """One method a verb, as in `Mutations`. `seconds`: how long calls took, by the state of their task."""

    def __init__(
        self,
        change: Mutations,
        verbs: Verbs,
        ends: TaskEnds,
        results: KeptResults,
        ingest: IngestBudget,
        in_time: InTime,
    ) -> None:
        self._change = change
        self._verbs = verbs
        self._ends = ends
        self._results = results
        self._ingest = ingest
        self._in_time = in_time
        self.seconds: dict[str, Histogram] = {}

    async def call(self, request: wire.CallRequest) -> wire.CallResponse:
        """What it takes in counts until it is stored: a caller that waits holds nothing up."""
        began_s, timeout_s = perf_counter(), wait_ms(request.timeout) / 1000
        with ExitStack() as waiting:
            with self._ingest.hold(request.ByteSize()):
                draft = on_demand(await self._change.draft(scheduled_by(request)))
                wait = waiting.enter_context(self._ends.noted(draft.tasks.rows.digests()[0]))
                stored = await self._in_time(self._change.store(draft))
            reply = await self._ended(namespace_of(request.namespace), stored, wait, timeout_s)
        self._count(reply, perf_counter() - began_s)
        return reply

    async def _ended(self, namespace: str, stored: StoredTasks, wait: NotedWait, timeout_s: float) -> wire.CallResponse:
        task, may_be_over = stored.task_ids[0], stored.may_be_repeat
        look, until_s = partial(self._verbs.get, namespace, task), perf_counter() + timeout_s
        if not may_be_over and await self._ends.first_attempt_acked(wait, timeout_s):
            return _reply(task, State.ACKED, _kept(wait))
        left_s = max(0.0, until_s - perf_counter())
        try:
            view = await self._ends.until_over(wait, look, left_s, may_be_over=may_be_over)
            result = await self._results.of(view)
        except TimerdError as error:
            log.info("of %s nobody can say yet whether it has ended: %s", task, error)
            return _reply(task, State.PENDING)
        return _reply(task, view.state, result, view.last_error)

    def _count(self, reply: wire.CallResponse, took_s: float) -> None:
        outcome = State(reply.state).name.lower() if reply.has_ended else OPEN
        if outcome not in self.seconds:
            self.seconds[outcome] = Histogram(BOUNDS_S)
        self.seconds[outcome].add(took_s)


def scheduled_by(request: wire.CallRequest) -> wire.ScheduleRequest:
    """The same for all tries, however long they wait."""
    asked = wire.ScheduleRequest(
        namespace=request.namespace,
        request_id=request.request_id,
        template=request.template,
        payload=request.payload,
        delay=AT_ONCE,
    )
    if request.HasField("request_time"):
        asked.request_time.CopyFrom(request.request_time)
    if not asked.template.HasField("keep_result"):
        asked.template.keep_result.FromSeconds(RESULT_KEPT_S)
    return asked


def on_demand(draft: Draft) -> Draft:
    """The draft of a call, whose caller waits. What names the task goes by what the caller has sent, so a try that an
    instance of another release has stored is the same task."""
    rows = draft.tasks.rows
    templates = [_awaited(template) for template in rows.templates]
    return replace(draft, tasks=replace(draft.tasks, rows=replace(rows, templates=templates)))


@lru_cache(maxsize=256)
def _awaited(template: Template) -> Template:
    is_short = 0 < template.expire_after_ms <= MAX_ON_DEMAND_MS
    return replace(template, on_demand=template.on_demand or is_short)


def _kept(wait: NotedWait) -> task_wire.Result | None:
    return task_wire.Result.FromString(wait.result) if wait.result is not None else None


def _reply(
    task: TaskId, state: State, result: task_wire.Result | None = None, last_error: str = ""
) -> wire.CallResponse:
    return wire.CallResponse(
        task_id=str(task),
        state=task_wire.TaskState.Name(state.value),
        has_ended=state in OVER,
        result=result,
        last_error=last_error,
    )
