"""Calls about one task: those that need no message of their own share one with others of the same turn of the loop."""

from __future__ import annotations

import asyncio
from datetime import datetime
from math import ceil
from typing import Unpack

from timerd.sdk.scheduling.batches import Batch
from timerd.sdk.scheduling.coalescing import CancelGroup, ScheduleGroup
from timerd.sdk.scheduling.link import Link
from timerd.sdk.scheduling.targets import one_target, set_target
from timerd.sdk.values import (
    CancelOutcome,
    ConflictPolicy,
    Due,
    Item,
    Span,
    Task,
    TaskKeywords,
    TaskOptions,
    Template,
    datetime_of_ms,
    due_of,
    duration_of_ms,
    invalid,
    ms_of_timestamp,
    new_request_id,
    not_sendable,
    optional_name,
    payload_bytes,
    span_ms,
    template_of,
    text,
    timestamp_of_ms,
)
from timerd.v1 import timer_service_pb2 as pb

_PART_S = 60.0
_LONGEST_CANCEL_MS = 600_000
_AGAIN_S, _AGAIN_AT_MOST_S = 0.05, 2.0


class Singles(Link):
    """The part of `Client` that schedules, cancels and moves single tasks."""

    async def schedule(
        self,
        queue: str,
        payload: bytes | str,
        *,
        at: datetime | None = None,
        delay: Span | None = None,
        key: str | None = None,
        on_conflict: ConflictPolicy | str = ConflictPolicy.REJECT,
        request_id: str | None = None,
        options: TaskOptions | None = None,
        **fields: Unpack[TaskKeywords],
    ) -> Task:
        """The call stores one task, and returns it when it is on stable storage. Give either `at` or `delay`.

        To repeat a call in another process, give it a `key`, or a `request_id`.

        Args:
            queue: the queue whose workers receive the task; 1 to 128 characters of A-Z a-z 0-9 . _ - / :.
            payload: the bytes that the handler receives, or a text, which is sent as UTF-8; up to 64 KiB by default.
            at: the fire time, a datetime with a zone, up to 100 years ahead; one that has passed fires at once.
            delay: the time to the fire time, a timedelta or seconds, from now; by `request_id` from the first call.
            key: a name of your own, unique in the namespace; up to 256 characters. Default none.
            on_conflict: what happens where the key is in use: a `ConflictPolicy`, or "keep", "replace" or "reject".
                Default reject. With "keep" the task returned is the one that has the key, its outcome `KEPT`.
            request_id: a name of this call, by which a repeat is known for 24 h; up to 128 characters. The trace that
                the caller is in does not travel with it. Default a new one.
            options: what the task has beside payload, time and key. Default nothing.
            fields: the fields of `TaskOptions` as keywords; each wins over the object.

        Raises:
            AlreadyExists: the key is in use, and the policy is to reject.
            Aborted: another call took the key at the same moment, or a later one has replaced it; try again.
        """
        self._open()
        template = template_of("schedule", queue, options, fields, on_conflict)
        body, due = payload_bytes(payload), due_of(at, delay)
        if request_id is None:
            # A repeat is made in another trace, and would be another call by it.
            template = self._traced(template)
        if optional_name(key, "key") is None:
            template = template._replace(on_conflict=ConflictPolicy.UNSPECIFIED)
        if key is None and optional_name(request_id, "request_id") is None:
            # Calls of many traces share a message.
            group = self._coalescer.group(
                template.untraced(), len(body), lambda: ScheduleGroup(template, self._namespace, self._clock)
            )
            return await group.add(body, due, template.traceparent)
        return await self._store_one(template, body, due, key, request_id)

    async def _store_one(
        self, template: Template, body: bytes, due: Due, key: str | None = None, request_id: str | None = None
    ) -> Task:
        batch, request = Batch(template, self._clock), self._session.new_request()
        if key is not None:
            batch.add_item(body, due, Item(body, key=key))
        else:
            batch.add(body, due)
        try:
            if request_id is None:
                batch.write(request.schedule, self._namespace)
            else:
                batch.write_again(request.schedule, self._namespace, request_id)
        except (TypeError, ValueError) as wrong:
            raise not_sendable(wrong) from None
        answered = batch.read((await self._session.call(request)).schedule)
        error = answered.error(0)
        if error is not None:
            raise error
        return Task(answered, 0)

    async def cancel(
        self,
        task_id: str | None = None,
        *,
        key: str | None = None,
        wait: Span | None = None,
        request_id: str | None = None,
    ) -> CancelOutcome:
        """The call cancels a task, and its outcome says whether a delivery may still start. Give its id or its key.

        A worker that has the task is told, and IN_FLIGHT returned; with `wait` the end of the task is waited for, and
        CANCELLED or ALREADY_FIRED says what became of it. IN_FLIGHT then says that the worker has it still.

        Args:
            task_id: the id of the task. Default none.
            key: the key of the task. Default none.
            wait: how long the end of a task that a worker has is waited for, a timedelta or seconds, at most 10
                minutes. Default it is not.
            request_id: a name of this call, by which a repeat is known for 24 h. Default a new one.

        Raises:
            InvalidTask: `wait` is no span of time, or longer than 10 minutes.
        """
        self._open()
        one_target(task_id, key)
        optional_name(request_id, "request_id")
        wait_s = _cancel_wait_s(wait)
        if task_id is not None and request_id is None and not wait_s:
            return await self._coalescer.group("cancel", 0, lambda: CancelGroup(self._namespace)).add(task_id)
        request = pb.CancelRequest(namespace=self._namespace, request_id=request_id or new_request_id())
        set_target(request, task_id, key)
        loop = asyncio.get_running_loop()
        until_s, pause_s = loop.time() + wait_s, 0.0
        while True:
            # In parts, so that a server that goes away costs no more than one of them.
            left_s = min(max(0.0, until_s - loop.time()), _PART_S)
            if wait_s:
                request.wait.FromMilliseconds(ceil(1000 * left_s))
            response = await self._calls("Cancel", request, pb.CancelResponse, wait_s=left_s)
            outcome = CancelOutcome(response.outcome)
            if outcome is not CancelOutcome.IN_FLIGHT or loop.time() >= until_s:
                return outcome
            # A server that cannot wait, or does not know how, answers at once.
            pause_s = min(max(_AGAIN_S, 2 * pause_s), _AGAIN_AT_MOST_S)
            await asyncio.sleep(min(pause_s, max(0.0, until_s - loop.time())))

    async def reschedule(
        self,
        task_id: str | None = None,
        *,
        key: str | None = None,
        at: datetime | None = None,
        delay: Span | None = None,
        request_id: str | None = None,
    ) -> datetime:
        """The call gives a task another fire time, and returns that in UTC. The id of the task stays.

        Give its id or its key, and either `at` or `delay`.

        Args:
            task_id: the id of the task. Default none.
            key: the key of the task. Default none.
            at: the new fire time, a datetime with a zone; one that has passed fires at once.
            delay: the time to the new fire time, a timedelta or seconds, from now; by `request_id` from the first call.
            request_id: a name of this call, by which a repeat is known for 24 h. Default a new one.

        Raises:
            NotFound: there is no such task.
            FailedPrecondition: the task has fired, ended or was cancelled, or expires before the new time.
            Aborted: another call has moved it meanwhile; trying again may succeed.
        """
        self._open()
        one_target(task_id, key)
        optional_name(request_id, "request_id")
        due = due_of(at, delay)
        request = self._session.new_request()
        move = request.reschedule
        move.namespace, move.request_id = self._namespace, request_id or new_request_id()
        set_target(move, task_id, key)
        if due.is_delay:
            move.delay.CopyFrom(duration_of_ms(due.ms))
        else:
            move.fire_time.CopyFrom(timestamp_of_ms(due.ms))
        if request_id is None:
            # With a request_id of its caller's the call may be made again with the same content.
            move.request_time.CopyFrom(timestamp_of_ms(self._clock()))
        response = await self._session.call(request)
        return datetime_of_ms(ms_of_timestamp(response.reschedule.fire_time))

    def _traced(self, template: Template) -> Template:
        """With the trace that the caller is in, where it names none."""
        if self._tracing is None or template.traceparent:
            return template
        return template._replace(traceparent=text(self._tracing.traceparent(), "traceparent"))


def _cancel_wait_s(wait: Span | None) -> float:
    if wait is None:
        return 0.0
    wait_ms = span_ms(wait, "wait")
    if wait_ms > _LONGEST_CANCEL_MS:
        raise invalid(f"`wait` is {wait!r}: give 10 minutes at most, and call again to wait on.", "wait")
    return wait_ms / 1000
