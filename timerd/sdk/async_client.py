"""Scheduling, cancelling and moving: the asyncio client itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from timerd.sdk.batches import MAX_TASKS
from timerd.sdk.bulk import Bulk, BulkItem, Progress, batches_of
from timerd.sdk.checks import id_list, name, optional_name, payload_bytes
from timerd.sdk.coalescing import CancelGroup, ScheduleGroup, outcomes_in, submit_group, write_cancel
from timerd.sdk.columns import Part, Tasks, batches_of_columns
from timerd.sdk.ids import new_request_id
from timerd.sdk.link import one_target, set_target
from timerd.sdk.operations import Operations
from timerd.sdk.templates import make_template
from timerd.sdk.times import (
    Span,
    datetime_of_ms,
    due_of,
    duration_of_ms,
    ms_of_timestamp,
    timestamp_of_ms,
)
from timerd.sdk.values import CancelOutcome, ConflictPolicy, Item, RetryPolicy, Task
from timerd.v1 import timer_service_pb2 as pb

# Inside the class, `list` is the method.
TaskList = list[Task]
OutcomeList = list[CancelOutcome]


class Client(Operations):
    """Use it as `async with Client() as client:`; safe to share between all coroutines of a loop."""

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
            # Calls of many traces share a message.
            group = self._coalescer.group(
                template.untraced(), len(body), lambda: ScheduleGroup(template, self._namespace, self._clock)
            )
            return await group.add(body, due, template.traceparent)
        group = ScheduleGroup(template, self._namespace, self._clock, request_id or "")
        if key is not None:
            group.batch.add_item(body, due, Item(body, key=key))
            task = group.expect()
        else:
            task = group.add(body, due, template.traceparent)
        submit_group(self._session, group)
        return await task

    async def schedule_many(
        self,
        queue: str,
        items: Iterable[BulkItem],
        *,
        on_conflict: ConflictPolicy | str = ConflictPolicy.REJECT,
        labels: Mapping[str, str] | None = None,
        content_type: str = "",
        priority: int = 0,
        retry: RetryPolicy | None = None,
        expire_at: datetime | None = None,
        soft_expire_at: datetime | None = None,
        traceparent: str = "",
        progress: Progress | None = None,
    ) -> TaskList:
        """Items are `(payload, at or delay)` or `Item`; the tasks come back in their order.

        `progress` is told the number stored so far. Raises PartlyStored, with all tasks, where some are not stored.
        """
        self._open()
        template = make_template(
            queue, labels, content_type, priority, retry, expire_at, soft_expire_at,
            traceparent or self._current_trace(), on_conflict,
        )  # fmt: skip
        bulk = Bulk(self._session, self._namespace, template, progress)
        return [task for part in await bulk.run(batches_of(items, template, self._clock)) for task in part]

    async def schedule_columns(
        self,
        queue: str,
        payloads: Sequence[bytes | str],
        at_ms: Sequence[int],
        *,
        labels: Mapping[str, str] | None = None,
        content_type: str = "",
        priority: int = 0,
        retry: RetryPolicy | None = None,
        expire_at: datetime | None = None,
        soft_expire_at: datetime | None = None,
        traceparent: str = "",
        progress: Progress | None = None,
    ) -> Tasks:
        """As `schedule_many`, in less than half of the caller's time: `payloads[n]` is due `at_ms[n]` milliseconds
        after the epoch (whole numbers in a list, an array or a column of a table). Raises PartlyStored, too."""
        self._open()
        template = make_template(
            queue, labels, content_type, priority, retry, expire_at, soft_expire_at,
            traceparent or self._current_trace(), ConflictPolicy.UNSPECIFIED,
        )  # fmt: skip
        bulk = Bulk(self._session, self._namespace, template, progress, Part)
        return Tasks(await bulk.run(batches_of_columns(payloads, at_ms, template, self._clock)))

    def _current_trace(self) -> str:
        return self._tracing.traceparent() if self._tracing is not None else ""

    async def cancel(
        self, task_id: str | None = None, *, key: str | None = None, request_id: str | None = None
    ) -> CancelOutcome:
        self._open()
        one_target(task_id, key)
        optional_name(request_id, "request_id")
        if task_id is not None and request_id is None:
            return await self._coalescer.group("cancel", 0, lambda: CancelGroup(self._namespace)).add(task_id)
        request = pb.CancelRequest(namespace=self._namespace, request_id=request_id or new_request_id())
        set_target(request, task_id, key)
        response = await self._calls("Cancel", request, pb.CancelResponse)
        return CancelOutcome(response.outcome)

    async def cancel_many(self, task_ids: Iterable[str]) -> OutcomeList:
        """One outcome per id, in their order."""
        self._open()
        ids, outcomes = id_list(task_ids), OutcomeList()
        for start in range(0, len(ids), MAX_TASKS):
            request, named = self._session.new_request(), ids[start : start + MAX_TASKS]
            write_cancel(request, self._namespace, new_request_id(), named)
            outcomes += outcomes_in(await self._session.call(request), len(named))
        return outcomes

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
        request = self._session.new_request()
        move = request.reschedule
        move.namespace, move.request_id = self._namespace, request_id or new_request_id()
        set_target(move, task_id, key)
        if due.is_delay:
            move.delay.CopyFrom(duration_of_ms(due.ms))
            move.request_time.CopyFrom(timestamp_of_ms(self._clock()))
        else:
            move.fire_time.CopyFrom(timestamp_of_ms(due.ms))
        response = await self._session.call(request)
        return datetime_of_ms(ms_of_timestamp(response.reschedule.fire_time))

    async def fire_now(self, task_id: str, *, request_id: str | None = None) -> datetime:
        """Reschedules to now."""
        self._open()
        own_id = optional_name(request_id, "request_id") or new_request_id()
        request = pb.FireNowRequest(namespace=self._namespace, request_id=own_id, task_id=name(task_id, "task_id"))
        response = await self._calls("FireNow", request, pb.FireNowResponse)
        return datetime_of_ms(ms_of_timestamp(response.fire_time))
