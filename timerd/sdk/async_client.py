"""Scheduling, cancelling and moving: the asyncio client itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from timerd.sdk.batches import MAX_TASKS
from timerd.sdk.bulk import Bulk, BulkItem, Progress, batches_of
from timerd.sdk.checks import id_list, name, optional_name
from timerd.sdk.coalescing import CancelGroup, ScheduleGroup
from timerd.sdk.columns import Part, Tasks, batches_of_columns
from timerd.sdk.ids import new_request_id
from timerd.sdk.operations import Operations
from timerd.sdk.session import Session
from timerd.sdk.singles import Singles, outcomes_in, write_cancel
from timerd.sdk.templates import Template, make_template
from timerd.sdk.times import Due, datetime_of_ms, ms_of_timestamp
from timerd.sdk.values import CancelOutcome, ConflictPolicy, RetryPolicy, Task
from timerd.v1 import timer_service_pb2 as pb

# Inside the class, `list` is the method.
TaskList = list[Task]
OutcomeList = list[CancelOutcome]


class Client(Operations, Singles):
    """Use it as `async with Client() as client:`; safe to share between all coroutines of a loop."""

    @property
    def _asks(self) -> Session:
        return self._session

    async def _store(self, template: Template, body: bytes, due: Due) -> Task:
        # Calls of many traces share a message.
        group = self._coalescer.group(
            template.untraced(), len(body), lambda: ScheduleGroup(template, self._namespace, self._clock)
        )
        return await group.add(body, due, template.traceparent)

    async def _cancel(self, task_id: str) -> CancelOutcome:
        return await self._coalescer.group("cancel", 0, lambda: CancelGroup(self._namespace)).add(task_id)

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

    async def cancel_many(self, task_ids: Iterable[str]) -> OutcomeList:
        """One outcome per id, in their order."""
        self._open()
        ids, outcomes = id_list(task_ids), OutcomeList()
        for start in range(0, len(ids), MAX_TASKS):
            request, named = self._session.new_request(), ids[start : start + MAX_TASKS]
            write_cancel(request, self._namespace, new_request_id(), named)
            outcomes += outcomes_in(await self._session.call(request), len(named))
        return outcomes

    async def fire_now(self, task_id: str, *, request_id: str | None = None) -> datetime:
        """Reschedules to now."""
        self._open()
        own_id = optional_name(request_id, "request_id") or new_request_id()
        request = pb.FireNowRequest(namespace=self._namespace, request_id=own_id, task_id=name(task_id, "task_id"))
        response = await self._calls("FireNow", request, pb.FireNowResponse)
        return datetime_of_ms(ms_of_timestamp(response.fire_time))
