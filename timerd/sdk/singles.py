"""Calls about one task, checked and written as one message. How the message travels is left to who inherits: with
others, through the event loop (`Client`), or at once, while the caller's thread waits (`QuickClient`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from timerd.sdk.batches import Batch
from timerd.sdk.checks import optional_name, payload_bytes
from timerd.sdk.errors import TimerdError, not_sendable
from timerd.sdk.ids import new_request_id
from timerd.sdk.targets import one_target, set_target
from timerd.sdk.templates import Template, make_template
from timerd.sdk.times import (
    Due,
    MsClock,
    Span,
    datetime_of_ms,
    due_of,
    duration_of_ms,
    ms_of_timestamp,
    timestamp_of_ms,
)
from timerd.sdk.traces import Traces
from timerd.sdk.values import CancelOutcome, ConflictPolicy, Item, RetryPolicy, Task
from timerd.v1 import timer_service_pb2 as pb


class Asks(Protocol):
    """A Session, as far as one message with one answer goes."""

    def new_request(self) -> pb.SessionRequest: ...

    async def call(self, request: pb.SessionRequest) -> pb.SessionResponse: ...


class Singles(ABC):
    """The part of a client that schedules, cancels and moves single tasks."""

    _namespace: str
    _clock: MsClock
    _tracing: Traces | None
    # A unary call by its name.
    _calls: Any

    def speak_as(self, other: Singles) -> None:
        """For the same caller."""
        self._namespace, self._clock, self._tracing = other._namespace, other._clock, other._tracing

    @property
    @abstractmethod
    def _asks(self) -> Asks: ...

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    async def _store(self, template: Template, body: bytes, due: Due) -> Task:
        """A task that may travel with others."""

    @abstractmethod
    async def _cancel(self, task_id: str) -> CancelOutcome: ...

    async def schedule(
        self,
        queue: str,
        payload: bytes | str,
        *,
        at: datetime | None = None,
        delay: Span | None = None,
        key: str | None = None,
        on_conflict: ConflictPolicy | str = ConflictPolicy.REJECT,
        labels: Mapping[str, str] | None = None,
        content_type: str = "",
        priority: int = 0,
        retry: RetryPolicy | None = None,
        expire_at: datetime | None = None,
        soft_expire_at: datetime | None = None,
        traceparent: str = "",
        request_id: str | None = None,
    ) -> Task:
        """Returns when the task is on stable storage. Give `at` (a datetime with a zone) or `delay`.

        To repeat a call in another process, give it a `key`, or a `request_id` and an `at`.
        """
        self._open()
        body, due = payload_bytes(payload), due_of(at, delay)
        template = make_template(
            queue, labels, content_type, priority, retry, expire_at, soft_expire_at,
            traceparent or self._current_trace(), on_conflict,
        )  # fmt: skip
        if optional_name(key, "key") is None:
            template = template._replace(on_conflict=ConflictPolicy.UNSPECIFIED)
        if key is None and optional_name(request_id, "request_id") is None:
            return await self._store(template, body, due)
        return await self._store_alone(template, body, due, key, request_id)

    async def _store_alone(
        self, template: Template, body: bytes, due: Due, key: str | None = None, request_id: str | None = None
    ) -> Task:
        batch, request = Batch(template, self._clock), self._asks.new_request()
        if key is not None:
            batch.add_item(body, due, Item(body, key=key))
        else:
            batch.add(body, due)
        try:
            batch.write(request.schedule, self._namespace, request_id or new_request_id())
        except (TypeError, ValueError) as wrong:
            raise not_sendable(wrong) from None
        answered = batch.read((await self._asks.call(request)).schedule)
        error = answered.error(0)
        if error is not None:
            raise error
        return Task(answered, 0)

    async def cancel(
        self, task_id: str | None = None, *, key: str | None = None, request_id: str | None = None
    ) -> CancelOutcome:
        self._open()
        one_target(task_id, key)
        optional_name(request_id, "request_id")
        if task_id is not None and request_id is None:
            return await self._cancel(task_id)
        request = pb.CancelRequest(namespace=self._namespace, request_id=request_id or new_request_id())
        set_target(request, task_id, key)
        response = await self._calls("Cancel", request, pb.CancelResponse)
        return CancelOutcome(response.outcome)

    async def reschedule(
        self,
        task_id: str | None = None,
        *,
        key: str | None = None,
        at: datetime | None = None,
        delay: Span | None = None,
        request_id: str | None = None,
    ) -> datetime:
        """Gives a task another fire time, which is returned. Its id stays."""
        self._open()
        one_target(task_id, key)
        optional_name(request_id, "request_id")
        due = due_of(at, delay)
        request = self._asks.new_request()
        move = request.reschedule
        move.namespace, move.request_id = self._namespace, request_id or new_request_id()
        set_target(move, task_id, key)
        if due.is_delay:
            move.delay.CopyFrom(duration_of_ms(due.ms))
            move.request_time.CopyFrom(timestamp_of_ms(self._clock()))
        else:
            move.fire_time.CopyFrom(timestamp_of_ms(due.ms))
        response = await self._asks.call(request)
        return datetime_of_ms(ms_of_timestamp(response.reschedule.fire_time))

    def _current_trace(self) -> str:
        return self._tracing.traceparent() if self._tracing is not None else ""


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
