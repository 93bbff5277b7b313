"""Calls made in one turn of the event loop that share a template (or are all cancels) travel as one message.

Nobody lingers on an idle session: the message leaves at the end of the turn. On a busy one it waits for the next
answer, so that under load messages grow instead of queues. The message has one request_id of its own; that is why a
call with a key or a request_id of the caller's never joins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from typing import Protocol, TypeVar

from timerd.sdk.scheduling.batches import MAX_TASKS, Batch
from timerd.sdk.transport import Answer, Session
from timerd.sdk.values import (
    CancelOutcome,
    Due,
    Item,
    MsClock,
    Task,
    Template,
    TimerdError,
    new_request_id,
    not_sendable,
)
from timerd.v1 import timer_service_pb2 as pb

Value = TypeVar("Value")
# So many messages under way keep a server busy: later calls had better wait a moment and share a message.
_BUSY_MESSAGES = 4


class Group(Protocol):
    """Calls that wait for one answer."""

    def has_room(self, payload_bytes: int) -> bool: ...
    def write(self, request: pb.SessionRequest) -> None: ...
    def finish(self, answer: Answer) -> None: ...


AnyGroup = TypeVar("AnyGroup", bound=Group)


class Coalescer:
    """Groups that are still open, and when they leave."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: dict[Hashable, tuple[Group, float]] = {}
        self._under_way = 0
        self._flush_is_due = False

    def group(self, key: Hashable, payload_bytes: int, make: Callable[[], AnyGroup]) -> AnyGroup:
        """The open group of this key, with room for one more."""
        found = self._open.get(key)
        if found is not None and found[0].has_room(payload_bytes):
            return found[0]  # type: ignore[return-value]
        if found is not None:
            self._send(key)
        made = make()
        self._open[key] = (made, asyncio.get_running_loop().time())
        self._flush_later()
        return made

    def _flush_later(self) -> None:
        if self._open and not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        for key in list(self._open):
            if self._under_way >= _BUSY_MESSAGES:
                return
            self._send(key)

    def _send(self, key: Hashable) -> None:
        group, opened_s = self._open.pop(key)
        self._under_way += 1

        def on_answer(answer: Answer) -> None:
            self._under_way -= 1
            self._flush_later()
            group.finish(answer)

        request = self._session.new_request()
        try:
            group.write(request)
        except (TypeError, ValueError) as wrong:
            on_answer(not_sendable(wrong))
            return
        self._session.submit(request, on_answer, asyncio.get_running_loop().time() - opened_s)


class ScheduleGroup:
    """Single schedules with one template, but for the traces that they are part of."""

    def __init__(self, template: Template, namespace: str, clock: MsClock) -> None:
        self.batch = Batch(template, clock)
        self._namespace = namespace
        self._request_id = new_request_id()
        self._waiting: list[asyncio.Future[Task]] = []

    def has_room(self, payload_bytes: int) -> bool:
        return self.batch.has_room(payload_bytes)

    def add(self, payload: bytes, due: Due, traceparent: str) -> asyncio.Future[Task]:
        if traceparent == self.batch.template.traceparent:
            self.batch.add(payload, due)
        else:
            self.batch.add_item(payload, due, Item(payload, traceparent=traceparent))
        task: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        self._waiting.append(task)
        return task

    def write(self, request: pb.SessionRequest) -> None:
        self.batch.write(request.schedule, self._namespace, self._request_id)

    def finish(self, answer: Answer) -> None:
        if isinstance(answer, TimerdError):
            _fail_all(self._waiting, answer)
            return
        answered = self.batch.read(answer.schedule)
        for index, waiting in enumerate(self._waiting):
            error = answered.error(index)
            if waiting.done():
                continue
            if error is None:
                waiting.set_result(Task(answered, index))
            else:
                waiting.set_exception(error)


class CancelGroup:
    """Single cancels by task_id."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._request_id = new_request_id()
        self._task_ids: list[str] = []
        self._waiting: list[asyncio.Future[CancelOutcome]] = []

    def has_room(self, payload_bytes: int) -> bool:
        return len(self._task_ids) < MAX_TASKS

    def add(self, task_id: str) -> asyncio.Future[CancelOutcome]:
        outcome: asyncio.Future[CancelOutcome] = asyncio.get_running_loop().create_future()
        self._task_ids.append(task_id)
        self._waiting.append(outcome)
        return outcome

    def write(self, request: pb.SessionRequest) -> None:
        write_cancel(request, self._namespace, self._request_id, self._task_ids)

    def finish(self, answer: Answer) -> None:
        if isinstance(answer, TimerdError):
            _fail_all(self._waiting, answer)
            return
        try:
            outcomes = outcomes_in(answer, len(self._waiting))
        except TimerdError as error:
            _fail_all(self._waiting, error)
            return
        for waiting, outcome in zip(self._waiting, outcomes, strict=True):
            if not waiting.done():
                waiting.set_result(outcome)


def write_cancel(request: pb.SessionRequest, namespace: str, request_id: str, task_ids: Sequence[str]) -> None:
    request.cancel.namespace = namespace
    request.cancel.request_id = request_id
    request.cancel.task_ids.extend(task_ids)


def outcomes_in(answer: pb.SessionResponse, asked: int) -> list[CancelOutcome]:
    """One for each that was asked for."""
    outcomes = list(answer.cancel.outcomes)
    if len(outcomes) != asked:
        raise TimerdError(f"The server answered {asked} cancels with {len(outcomes)} outcomes.", code="INTERNAL")
    known = {outcome: CancelOutcome(outcome) for outcome in set(outcomes)}
    return [known[outcome] for outcome in outcomes]


def _fail_all(waiting: list[asyncio.Future[Value]], error: TimerdError) -> None:
    for future in waiting:
        if not future.done():
            # A copy for each: an exception collects the traces of all places that raise it.
            future.set_exception(copy(error))
