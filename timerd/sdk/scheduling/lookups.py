"""Looking at tasks, and the rare commands over many of them: everything that goes as unary calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from datetime import datetime
from math import ceil, inf
from typing import Any

from timerd.sdk.scheduling.filters import make_count_filter, make_filter, make_purge_filter, set_range
from timerd.sdk.scheduling.link import Link
from timerd.sdk.scheduling.targets import one_target, set_target
from timerd.sdk.transport import pages
from timerd.sdk.values import (
    Count,
    DeadLetter,
    Purged,
    Redriven,
    Span,
    TaskInfo,
    TaskState,
    flag,
    id_list,
    new_request_id,
    span_ms,
    text,
    whole_number,
)
from timerd.v1 import timer_service_pb2 as pb

NOT_A_DEAD_LETTER = "NOT_A_DEAD_LETTER"
# The server answers by then, and is asked again.
LONGEST_WAIT_S = 60.0


class Lookups(Link):
    """The part of `Client` that reads, counts, purges and redrives."""

    async def get(self, task_id: str | None = None, *, key: str | None = None) -> TaskInfo:
        """The call returns a task as it is stored now. Give its id or its key.

        Args:
            task_id: the id of the task. Default none.
            key: the key of the task. Default none.

        Raises:
            NotFound: there is no such task.
        """
        self._open()
        one_target(task_id, key)
        request = pb.GetRequest(namespace=self._namespace)
        set_target(request, task_id, key)
        return TaskInfo.of((await self._calls("Get", request, pb.GetResponse)).task)

    async def wait(
        self,
        task_id: str | None = None,
        *,
        key: str | None = None,
        timeout: Span | None = None,  # noqa: ASYNC109 - it is the server that waits
    ) -> TaskInfo:
        """The call waits until a task has ended, and returns it. Give its id or its key.

        Whether it has ended says `state.is_over` of what is returned: after `timeout` it is returned as it is then.

        Args:
            task_id: the id of the task. Default none.
            key: the key of the task; the task that has it when the call is made is waited for. Default none.
            timeout: how long to wait at most, a timedelta or seconds, 0 or more. Default until it has ended.

        Raises:
            NotFound: there is no such task.
        """
        self._open()
        one_target(task_id, key)
        request = pb.WaitRequest(namespace=self._namespace)
        set_target(request, task_id, key)
        loop, longest_s = asyncio.get_running_loop(), inf if timeout is None else span_ms(timeout, "timeout") / 1000
        until_s = loop.time() + longest_s

        def left_s() -> float:
            """For how long the next try asks the server to wait."""
            wait_s = min(max(0.0, until_s - loop.time()), LONGEST_WAIT_S)
            request.timeout.FromMilliseconds(ceil(1000 * wait_s))
            return wait_s

        while True:
            response = await self._calls("Wait", request, pb.WaitResponse, wait_s=left_s(), again=left_s)
            if response.has_ended or loop.time() >= until_s:
                return TaskInfo.of(response.task)
            # The key may be another task's by now.
            request.task_id = response.task.task_id

    async def count(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        queue: str = "",
        states: Iterable[TaskState] = (),
        labels: Mapping[str, str] | None = None,
    ) -> Count:
        """The call counts the tasks that are due (see `TaskInfo.due_time`) in a range.

        The count is exact. Without a range, states and labels it is an estimate and its `estimated` is set: what is due
        from this minute on, also where it has ended by now.

        Args:
            start: due from this instant on, a datetime with a zone. Default from the beginning.
            end: due before this instant, a datetime with a zone. Default without end.
            queue: tasks of this queue. Default those of all queues.
            states: tasks in one of these states. Default those that have not ended: PENDING, IN_FLIGHT, RETRYING.
            labels: tasks that have all of these labels. Default whatever they have.
        """
        self._open()
        chosen = make_count_filter(start, end, queue, states, labels)
        request = pb.CountRequest(namespace=self._namespace, filter=chosen)
        total, estimated = 0, False
        async for page in pages(request, lambda: self._calls("Count", request, pb.CountResponse)):
            total += page.count
            estimated = estimated or page.estimated
        counted = Count(total)
        counted.estimated = estimated
        return counted

    async def purge(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        queue: str = "",
        states: Iterable[TaskState] = (),
        labels: Mapping[str, str] | None = None,
        force: bool = False,
    ) -> Purged:
        """The call removes tasks that have not ended and are due (see `TaskInfo.due_time`) in a range.

        Without `force` it only says how many these are. What a worker has in hand is told to end, and is not tried
        again: `with_workers` of what is returned counts it.

        Args:
            start: due from this instant on, a datetime with a zone. Default from the beginning.
            end: due before this instant, a datetime with a zone. Default without end.
            queue: tasks of this queue. Default those of all queues.
            states: tasks in one of these states. Default those that have not ended: PENDING, IN_FLIGHT, RETRYING.
            labels: tasks that have all of these labels. Default whatever they have.
            force: whether they are removed. Default no. With it, `queue`, `labels`, `start` or `end` must be given.
        """
        self._open()
        chosen = make_purge_filter(start, end, queue, states, labels, force=force)
        request = pb.PurgeRequest(namespace=self._namespace, filter=chosen, force=force)
        total, in_hand, dry_run = 0, 0, not force

        def ask() -> Coroutine[Any, Any, pb.PurgeResponse]:
            request.request_id = new_request_id()
            return self._calls("Purge", request, pb.PurgeResponse)

        async for page in pages(request, ask):
            total += page.purged
            in_hand += page.in_hand
            dry_run = page.dry_run
        purged = Purged(total)
        purged.dry_run, purged.with_workers = dry_run, in_hand
        return purged

    async def redrive(
        self,
        task_ids: Iterable[str] = (),
        *,
        queue: str = "",
        start: datetime | None = None,
        end: datetime | None = None,
        max_redriven: int = 0,
    ) -> Redriven:
        """The call gives dead letters a new life at once, those named or those of a queue, and returns how many.

        Args:
            task_ids: the ids of dead letters; those that are none are in `missing` of what is returned, those that
                cannot live again (another task has the key, say) in `refused`. Default none.
            queue: the queue whose dead letters are meant where no ids are given. Default none.
            start: of these, those that died from this instant on, a datetime with a zone. Default all.
            end: of these, those that died before this instant, a datetime with a zone. Default all.
            max_redriven: at most so many, up to 10,000. Default (and 0) 1,000.
        """
        self._open()
        ids = id_list(task_ids)
        request = pb.RedriveRequest(
            namespace=self._namespace,
            request_id=new_request_id(),
            task_ids=ids,
            queue=text(queue, "queue"),
            max_redriven=whole_number(max_redriven, "max_redriven"),
        )
        set_range(request, start, end)
        response = await self._calls("Redrive", request, pb.RedriveResponse)
        redriven = Redriven(response.redriven)
        problems = {r.task_id or ids[r.index]: r.problem for r in response.results if r.problem.message}
        redriven.missing = tuple(i for i, problem in problems.items() if problem.reason == NOT_A_DEAD_LETTER)
        redriven.refused = {i: p.message for i, p in problems.items() if p.reason != NOT_A_DEAD_LETTER}
        return redriven

    async def server_info(self) -> pb.GetServerInfoResponse:
        """The call returns what the server says of itself: version, durability, ledger, clock, memory and advice."""
        self._open()
        return await self._calls("GetServerInfo", pb.GetServerInfoRequest(), pb.GetServerInfoResponse)

    async def dead_letters(
        self,
        queue: str = "",
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        page_size: int = 0,
    ) -> AsyncIterator[DeadLetter]:
        """The call yields dead letters, those that died first at first.

        Args:
            queue: dead letters of this queue. Default those of all queues.
            start: those that died from this instant on, a datetime with a zone. Default all.
            end: those that died before this instant, a datetime with a zone. Default all.
            page_size: how many are fetched at a time, up to 1,000. Default (and 0) 100.
        """
        self._open()
        request = pb.ListDeadLettersRequest(
            namespace=self._namespace, queue=text(queue, "queue"), page_size=whole_number(page_size, "page_size")
        )
        set_range(request, start, end)
        ask = self._calls
        async for page in pages(request, lambda: ask("ListDeadLetters", request, pb.ListDeadLettersResponse)):
            for letter in page.dead_letters:
                yield DeadLetter.of(letter)

    async def list(
        self,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        queue: str = "",
        states: Iterable[TaskState] = (),
        labels: Mapping[str, str] | None = None,
        include_payload: bool = False,
        page_size: int = 0,
    ) -> AsyncIterator[TaskInfo]:
        """The call yields the tasks that are due in a range, oldest first: `async for task in client.list(...)`.

        Range and order go by `TaskInfo.due_time`.

        Args:
            start: due from this instant on, a datetime with a zone. Default from the beginning.
            end: due before this instant, a datetime with a zone. Default without end.
            queue: tasks of this queue. Default those of all queues.
            states: tasks in one of these states. Default those that have not ended: PENDING, IN_FLIGHT, RETRYING.
            labels: tasks that have all of these labels. Default whatever they have.
            include_payload: whether the payloads come along. Default no.
            page_size: how many are fetched at a time, up to 1,000. Default (and 0) 100.
        """
        self._open()
        chosen = make_filter(start, end, queue, states, labels)
        request = pb.ListRequest(
            namespace=self._namespace,
            filter=chosen,
            include_payload=flag(include_payload, "include_payload"),
            page_size=whole_number(page_size, "page_size"),
        )
        async for page in pages(request, lambda: self._calls("List", request, pb.ListResponse)):
            for task in page.tasks:
                yield TaskInfo.of(task)
