"""Scheduling, cancelling and moving: the asyncio client itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import Unpack

from timerd.sdk.scheduling.batches import MAX_TASKS
from timerd.sdk.scheduling.bulk import Bulk, BulkItem, OnProgress, batches_of
from timerd.sdk.scheduling.calling import TaskCalls
from timerd.sdk.scheduling.coalescing import outcomes_in, write_cancel
from timerd.sdk.scheduling.columns import KeyColumns, Part, Tasks, batches_of_columns
from timerd.sdk.scheduling.cycles import Cycles
from timerd.sdk.scheduling.limits import Limits
from timerd.sdk.scheduling.moves import Move, Moved, moved_of, requests_of
from timerd.sdk.scheduling.operations import Operations
from timerd.sdk.scheduling.queues import Queues
from timerd.sdk.scheduling.receiving import Receiving
from timerd.sdk.scheduling.schedules import Schedules
from timerd.sdk.scheduling.watching import Watching
from timerd.sdk.values import (
    CancelOutcome,
    ConflictPolicy,
    Task,
    TaskKeywords,
    TaskOptions,
    datetime_of_ms,
    id_list,
    ms_of_timestamp,
    name,
    new_request_id,
    optional_name,
    template_of,
)
from timerd.v1 import timer_service_pb2 as pb

# Inside the class, `list` is the method.
TaskList = list[Task]
OutcomeList = list[CancelOutcome]
MovedList = list[Moved]


class Client(Operations, Receiving, TaskCalls, Watching):
    """A client schedules, cancels, moves, reads and receives tasks, in programs that use asyncio.

    Use it as `async with Client() as client:`, or call `close` in the end. It connects with its first call. All
    coroutines of an event loop may share it.

    A call is repeated with the same content until it is answered or `timeout` has passed. Beside the errors that each
    method names, every call may raise:

    - InvalidTask: a value is of a wrong form or out of its range; nothing was sent or stored.
    - Unavailable: no server was reached, or it could take nothing in, for `timeout`; nothing was stored.
    - Overloaded: the server has too much in hand, and that did not pass within `timeout`; nothing was stored.
    - OutcomeUnknown: `timeout` passed, or the client was closed, before the answer came. Calls that only read raise
      Unavailable in its place.
    - AccessDenied: the credentials are missing or do not allow the call.
    - TimerdError with the code FAILED_PRECONDITION: this client is closed, or lives in another event loop or in the
      process from which this one was forked; nothing was sent.
    - TimerdError with the code CANCELLED: the client was closed while the call waited, and nothing was sent, or the
      call only reads.
    - TimerdError with the code INTERNAL: the server met a mistake of its own; the outcome is unknown.

    Args:
        target: the address of the server as HOST:PORT (port 7400 where it is left out), or a `ConnectOptions`. Default
            127.0.0.1:7400.
        options: the other fields of `ConnectOptions` as keywords; each wins over the object. Among them is `timeout`,
            how long a call is repeated: a timedelta or seconds, default 30 s.

    Raises:
        InvalidTask: an option is of a wrong form.
        TimerdError: gevent or eventlet has patched this process, in which gRPC cannot work (MONKEY_PATCHED).
    """

    @cached_property
    def schedules(self) -> Schedules:
        """The schedules are what comes again: `client.schedules.create(...)` and the like."""
        return Schedules(self)

    @cached_property
    def cycles(self) -> Cycles:
        """The cycles are members that have their turn in every period: `client.cycles.create(...)` and the like."""
        return Cycles(self)

    @cached_property
    def queues(self) -> Queues:
        """The queues are paused, drained and resumed here: `client.queues.pause(...)` and the like."""
        return Queues(self)

    @cached_property
    def limits(self) -> Limits:
        """The limits are what queues share: `client.limits.put(...)` and the like."""
        return Limits(self)

    async def schedule_many(
        self,
        queue: str,
        items: Iterable[BulkItem],
        *,
        on_conflict: ConflictPolicy | str = ConflictPolicy.REJECT,
        progress: OnProgress | None = None,
        options: TaskOptions | None = None,
        **fields: Unpack[TaskKeywords],
    ) -> TaskList:
        """The call stores many tasks of one queue, and returns them in the order of the items.

        One item that is wrong keeps no other from being stored.

        Args:
            queue: the queue whose workers receive the tasks; 1 to 128 characters of A-Z a-z 0-9 . _ - / :.
            items: pairs (payload, at or delay), or `Item` for a task with a key or options of its own; an iterable of
                any length, which is read while it is sent.
            on_conflict: what happens to an item whose key is in use: a `ConflictPolicy`, or "keep", "replace" or
                "reject". Default reject.
            progress: a function that is told the number of tasks stored so far. Default none.
            options: what all tasks have in common. Default nothing.
            fields: the fields of `TaskOptions` as keywords; each wins over the object.

        Raises:
            PartlyStored: some tasks are stored and some are not; its `tasks` say which.
            InvalidTask, AlreadyExists, TimerdError: no task is stored, for the first item's reason (`item`).
        """
        self._open()
        template = self._traced(template_of("schedule_many", queue, options, fields, on_conflict))
        bulk = Bulk(self._session, self._namespace, template, progress)
        return [task for part in await bulk.run(batches_of(items, template, self._clock)) for task in part]

    async def schedule_columns(
        self,
        queue: str,
        payloads: Sequence[bytes | str],
        at_ms: Sequence[int],
        *,
        ordering_keys: Sequence[str | None] | None = None,
        limit_keys: Sequence[str | None] | None = None,
        progress: OnProgress | None = None,
        options: TaskOptions | None = None,
        **fields: Unpack[TaskKeywords],
    ) -> Tasks:
        """The call stores many tasks of one queue from columns, in less than half of the time of `schedule_many`.

        The tasks have no keys. Each of them, and its id, is made when it is looked at.

        Args:
            queue: the queue whose workers receive the tasks.
            payloads: the payload of each task, bytes or text: a list, an array or a column of a table.
            at_ms: the fire time of each task, in whole milliseconds since the epoch, as many as there are payloads.
            ordering_keys: the ordering key of each task, as many as there are payloads; None: that of `options`.
                Default all have that one.
            limit_keys: the limit key of each task, in the same way.
            progress: a function that is told the number of tasks stored so far. Default none.
            options: what all tasks have in common. Default nothing.
            fields: the fields of `TaskOptions` as keywords; each wins over the object.

        Raises:
            PartlyStored: some tasks are stored and some are not; its `tasks` say which.
            InvalidTask: the columns do not fit together, or an entry is wrong (`item`); no task is stored.
        """
        self._open()
        template = self._traced(template_of("schedule_columns", queue, options, fields))
        bulk = Bulk(self._session, self._namespace, template, progress, Part)
        keys = KeyColumns(ordering_keys, limit_keys)
        return Tasks(await bulk.run(batches_of_columns(payloads, at_ms, template, self._clock, keys)))

    async def cancel_many(self, task_ids: Iterable[str]) -> OutcomeList:
        """The call cancels many tasks, and returns one outcome for each id, in their order.

        Where it raises, tasks of earlier messages (1,000 ids each) may be cancelled; calling it again is safe.

        Args:
            task_ids: the ids; one that names no task has the outcome `NOT_FOUND`.
        """
        self._open()
        ids, outcomes = id_list(task_ids), OutcomeList()
        for start in range(0, len(ids), MAX_TASKS):
            request, named = self._session.new_request(), ids[start : start + MAX_TASKS]
            write_cancel(request, self._namespace, new_request_id(), named)
            outcomes += outcomes_in(await self._session.call(request), len(named))
        return outcomes

    async def reschedule_many(self, moves: Iterable[Move]) -> MovedList:
        """The call gives many tasks another fire time, and returns what became of each, in their order.

        One that cannot be moved keeps no other from it. Where it raises, tasks of earlier messages (1,000 moves each)
        may be moved.

        Args:
            moves: which tasks, each once, and to when.

        Raises:
            InvalidTask: a task is named twice in a message, or one of the moves says nothing that can be done.
        """
        self._open()
        moved: MovedList = []
        for request in requests_of(moves, self._namespace, self._clock()):
            moved += moved_of((await self._calls("RescheduleBatch", request, pb.RescheduleBatchResponse)).results)
        return moved

    async def fire_now(self, task_id: str, *, request_id: str | None = None) -> datetime:
        """The call makes a task due at once, and returns its new fire time in UTC.

        Args:
            task_id: the id of the task.
            request_id: a name of this call, by which a repeat is known for 24 h. Default a new one.

        Raises:
            NotFound: there is no such task.
            FailedPrecondition: the task has fired, ended or was cancelled, or its `expire_at` has passed.
            Aborted: another call has moved it meanwhile; trying again may succeed.
        """
        self._open()
        own_id = optional_name(request_id, "request_id") or new_request_id()
        request = pb.FireNowRequest(namespace=self._namespace, request_id=own_id, task_id=name(task_id, "task_id"))
        response = await self._calls("FireNow", request, pb.FireNowResponse)
        return datetime_of_ms(ms_of_timestamp(response.fire_time))
