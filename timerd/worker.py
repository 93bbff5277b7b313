"""Receiving due tasks: handlers per queue, run by `Worker`.

A handler that returns acknowledges its delivery; one that raises fails the attempt. Deliveries come at least once:
`delivery_id` is the same over all repeats.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Protocol, TypeVar, Unpack

import grpc.aio

from timerd.sdk.scheduling import Opened, Schedules
from timerd.sdk.transport import (
    DEFAULT_TARGET,
    Calls,
    Connection,
    ConnectOptions,
    WorkerKeywords,
    connect_options,
    opener,
)
from timerd.sdk.values import (
    LONGEST_WIRE_SPAN,
    Delivery,
    Interrupted,
    Interruption,
    InterruptReason,
    InvalidTask,
    Occurrence,
    OccurrenceReason,
    OrderFence,
    OutcomeUnknown,
    Overloaded,
    Progress,
    Slot,
    SlotPlace,
    Span,
    SpecKeywords,
    TaskResult,
    TimerdError,
    Unavailable,
    check_registry,
    ms_clock,
    queue_of_decorator,
    span_ms,
    spec_of,
    text,
    whole_number,
)
from timerd.sdk.values import name as checked_name
from timerd.sdk.working import (
    BatchHandler,
    BatchLane,
    CallSpans,
    Handler,
    Lane,
    Pool,
    Reject,
    Retry,
    SharedSlots,
    SingleLane,
    Throttled,
    WorkStream,
    check_handler,
    isolated,
    run_until_signalled,
    show_log,
    spans_of,
)
from timerd.v1 import work_service_pb2 as pb

if TYPE_CHECKING:
    from timerd.sdk.scheduling import Client

_WORK = "/timerd.v1.WorkService/Work"
# Of one try to declare a schedule; there are more.
_DECLARE_S = 10.0
_DECLARE_AGAIN_S = 1.0
_MOST_SLOTS = 1_000_000


class TypedHandlers(Protocol):
    """What `Worker.include` takes: `timerd.tasks.Tasks`."""

    def bound(self, client: Client) -> AbstractContextManager[None]:
        """The tasks are scheduled by a client as long as the block lasts.

        Args:
            client: the client.
        """

    def handlers(self, concurrency: int) -> Mapping[str, Handler]:
        """The handler of each queue.

        Args:
            concurrency: how many calls of plain functions of a queue run at a time.
        """


AnyHandler = TypeVar("AnyHandler", bound=Handler)
AnyBatchHandler = TypeVar("AnyBatchHandler", bound=BatchHandler)


class Worker:
    """A worker receives due tasks, and runs the handlers that are registered for their queues.

    One stream to the server serves all queues. Where it breaks, the worker connects again and goes on. While a
    handler runs, the worker extends the lease of its delivery.

    Args:
        target: the address of the server as HOST:PORT (port 7400 where it is left out), or a `ConnectOptions`, whose
            `timeout` a worker does not use. Default 127.0.0.1:7400.
        name: the name by which the server's operators see this worker. Default host name and process id.
        lease: how long a delivery stays with this worker after the server last heard of it, a timedelta or seconds,
            more than 0 and at most 49 days; then it is delivered again. Default 30 s.
        options: the other fields of `ConnectOptions`, without `timeout`, as keywords; each wins over the object.

    Raises:
        InvalidTask: an option is of a wrong form.
        TimerdError: gevent or eventlet has patched this process, in which gRPC cannot work (MONKEY_PATCHED).
    """

    def __init__(
        self,
        target: str | ConnectOptions = DEFAULT_TARGET,
        *,
        name: str | None = None,
        lease: Span = 30.0,
        **options: Unpack[WorkerKeywords],
    ) -> None:
        given = connect_options("Worker", target, options, WorkerKeywords.__optional_keys__)
        self._connection = Connection(given)
        self._namespace = text(given.namespace, "namespace")
        self._name = text(name or "", "name") or f"{socket.gethostname()}-{os.getpid()}"
        # On the wire 0 is "whatever the server has".
        self._lease_ms = span_ms(lease, "lease", most=LONGEST_WIRE_SPAN, may_be_none=False)
        self._clock = ms_clock(given.clock)
        self._tracing = given.tracing
        self._lanes: dict[str, Lane] = {}
        self._pools: list[Pool] = []
        self._included: list[TypedHandlers] = []
        self._declared: list[Callable[[Schedules], Awaitable[None]]] = []
        self._declaring: asyncio.Task[None] | None = None
        # Of the run that is under way: its loop, its stream and its end, which other threads may stop and wait for.
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stream: WorkStream | None = None
        self._ended: Future[None] = Future()
        self._is_stopped_before = False

    def on(
        self,
        queue: str,
        *,
        concurrency: int = 16,
        timeout: Span | None = None,
        stall_timeout: Span | None = None,
        isolation: str = "",
        shield: bool = False,
    ) -> Callable[[AnyHandler], AnyHandler]:
        """The decorator registers a handler for the tasks of a queue: `@worker.on("mails")`.

        A handler takes one `Delivery`. It is a coroutine function, or a plain one, which then runs in threads. Its
        return acknowledges the delivery; `Reject` ends the task as a dead letter; `Retry` and every other exception
        fail the attempt.

        Args:
            queue: the queue; a worker has one handler for each.
            concurrency: how many calls of the handler run at a time. Of a handler that is faster than messages are the
                next deliveries are here already, what it takes in 20 ms, up to 1,000. Default 16.
            timeout: how long a call may take, a timedelta or seconds, more than 0 and at most 49 days. Then the attempt
                fails, and its error says at which line the handler was. A coroutine is cancelled; a plain handler goes
                on, and its place is free when it ends; a process is ended. Default, and at most, what is left of the
                task's `attempt_timeout`.
            stall_timeout: how long a call may say no `Delivery.progress`, 1 s to 7 days; at most what its task says.
            isolation: "process" has each call done by a process of its own, which can be ended whatever it is at. Its
                module is imported there, so a program's own start stands under `if __name__ == "__main__"`. Default
                none.
            shield: an interrupt (the task was cancelled, say) ends no call of the handler, which may look at
                `delivery.interrupted`, but not in a process of its own. Default not: a coroutine is cancelled, and a
                process is ended.

        Raises:
            InvalidTask: the handler cannot be called with one delivery, or would run none of its lines (a class, a
                generator function); or the queue has a handler already.
            TimerdError: the worker runs already (FAILED_PRECONDITION).
        """
        queue, at_once = queue_of_decorator(queue, "on"), whole_number(concurrency, "concurrency", 1)
        spans = spans_of(timeout, stall_timeout)

        def register(handler: AnyHandler) -> AnyHandler:
            check_handler(handler, queue, "delivery")
            called = isolated(handler, queue, isolation)
            self._add(SingleLane(queue, called, at_once, self._tracing, spans, shield=shield))
            return handler

        return register

    def on_batch(
        self,
        queue: str,
        *,
        max_size: int = 1000,
        concurrency: int = 1,
        timeout: Span | None = None,
        stall_timeout: Span | None = None,
        isolation: str = "",
        shield: bool = False,
    ) -> Callable[[AnyBatchHandler], AnyBatchHandler]:
        """The decorator registers a handler that takes a list of deliveries of a queue.

        The handler returns None where all are done, or one entry for each: an exception (also `Reject` or `Retry`)
        where it failed, anything else where it is done. What it raises fails all of them. Beside what the handlers
        have, one batch waits here. Where handlers end within a few milliseconds more do, so that all that is here is
        4 * `max_size` * (`concurrency` + 1) tasks at most.

        Args:
            queue: the queue; a worker has one handler for each.
            max_size: the most deliveries of one call. Default 1,000.
            concurrency: how many calls of the handler run at a time. Default 1.
            timeout: how long a call may take in all, as for `on`; at most what is left of any of its attempts.
            stall_timeout: how long a call may say no progress, of any of its deliveries, as for `on`.
            isolation: as for `on`.
            shield: as for `on`. A call is ended only when all of its deliveries were interrupted.

        Raises:
            InvalidTask: as for `on`.
            TimerdError: the worker runs already (FAILED_PRECONDITION).
        """
        queue, size = queue_of_decorator(queue, "on_batch"), whole_number(max_size, "max_size", 1)
        at_once, spans = whole_number(concurrency, "concurrency", 1), spans_of(timeout, stall_timeout)

        def register(handler: AnyBatchHandler) -> AnyBatchHandler:
            check_handler(handler, queue, "list of deliveries")
            called: BatchHandler = isolated(handler, queue, isolation)
            self._add(BatchLane(queue, called, size, at_once, self._tracing, spans, shield=shield))
            return handler

        return register

    def pool(self, name: str, *, slots: int) -> Pool:
        """The worker gets slots that several queues share: `pool = worker.pool("convert", slots=8)`.

        `@pool.on("pdf")` then registers the handler of a queue in it. Use a pool where one worker handles several kinds
        of tasks in the same few places; the server puts into a free slot what is first among all of them.

        Args:
            name: a name of the caller's choice, by which operators see it.
            slots: how many handlers run at a time, of all queues of the pool together.

        Raises:
            InvalidTask: the worker has a pool of this name, or `slots` is less than 1.
        """
        shared = SharedSlots(checked_name(name, "name"), whole_number(slots, "slots", 1, _MOST_SLOTS))
        if any(each.name == name for each in self._pools):
            raise InvalidTask(f"This worker has a pool {name!r} already: give the other one a name of its own.")
        pool = Pool(shared, self._on_in_pool)
        self._pools.append(pool)
        return pool

    def _on_in_pool(
        self, handler: Handler, queue: str, pool: SharedSlots, spans: CallSpans, isolation: str, *, shield: bool
    ) -> None:
        check_handler(handler, queue, "delivery")
        called = isolated(handler, queue, isolation)
        self._add(SingleLane(queue, called, pool.slots, self._tracing, spans, pool, shield=shield))

    def include(
        self,
        tasks: TypedHandlers,
        *,
        concurrency: int = 16,
        timeout: Span | None = None,
        stall_timeout: Span | None = None,
        shield: bool = False,
    ) -> None:
        """The worker takes over the typed tasks of a registry: `worker.include(tasks)`.

        Args:
            tasks: a `timerd.tasks.Tasks`.
            concurrency: how many calls of each queue run at a time. Default 16.
            timeout: how long a call may take, as for `on`.
            stall_timeout: as for `on`.
            shield: as for `on`.

        Raises:
            InvalidTask: it is no registry, or a queue of it has a handler already.
            TimerdError: the worker runs already (FAILED_PRECONDITION).
        """
        check_registry(tasks)
        for queue, handler in tasks.handlers(whole_number(concurrency, "concurrency", 1)).items():
            on = self.on(queue, concurrency=concurrency, timeout=timeout, stall_timeout=stall_timeout, shield=shield)
            on(handler)
        self._included.append(tasks)

    def scheduled(
        self,
        schedule_id: str,
        *,
        queue: str = "",
        payload: bytes | str = b"",
        catch_up: str = "latest",
        max_count: int = 0,
        overlap: str = "allow",
        pause_on_dead: bool = False,
        concurrency: int = 16,
        timeout: Span | None = None,
        shield: bool = False,
        **when: Unpack[SpecKeywords],
    ) -> Callable[[AnyHandler], AnyHandler]:
        """The decorator declares a schedule and registers its handler: `@worker.scheduled("report", cron="0 9 * * *")`.

        When the worker runs, the schedule is created, or becomes what is declared here. It stays when the worker ends.

        Args:
            schedule_id: a name of the caller's choice, unique in the namespace.
            queue: the queue of its tasks, which has no other handler here. Default "scheduled/" and the id.
            payload: what the handler receives, bytes or a text. Default nothing.
            catch_up: as for `Schedules.create`: "latest" (default), "all" or "none".
            max_count: the schedule is done after so many tasks. Default 0, any number.
            overlap: as for `Schedules.create`: "allow" (default), "skip", "buffer_one", "buffer_all", "cancel_other" or
                "replace".
            pause_on_dead: as for `Schedules.create`. Default not.
            concurrency: how many calls of the handler run at a time. Default 16.
            timeout: how long a call may take, as for `on`.
            shield: as for `on`.
            when: when it comes, the keywords of `SpecKeywords`.

        Raises:
            InvalidTask: as for `on`; or what is declared is of a wrong form. What only the server can judge ends `run`.
            TimerdError: the worker runs already (FAILED_PRECONDITION).
        """
        own_queue = queue or f"scheduled/{schedule_id}"
        spec_of("scheduled", when)

        async def declare(schedules: Schedules) -> None:
            await schedules.create(
                schedule_id,
                queue=own_queue,
                payload=payload,
                catch_up=catch_up,
                max_count=max_count,
                overlap=overlap,
                pause_on_dead=pause_on_dead,
                on_conflict="update",
                **when,
            )

        self._declared.append(declare)
        return self.on(own_queue, concurrency=concurrency, timeout=timeout, shield=shield)

    def _add(self, lane: Lane) -> None:
        if self._loop is not None:
            raise TimerdError("Handlers are registered before the worker runs.", code="FAILED_PRECONDITION")
        if lane.queue in self._lanes:
            raise InvalidTask(f"The queue {lane.queue!r} has a handler already; a worker takes one per queue.")
        self._lanes[lane.queue] = lane

    async def run(self) -> None:
        """The worker receives and handles tasks until `stop` is called.

        Cancelling this coroutine ends it at once: what is in hand is delivered again, and perhaps what ended in the
        last 20 ms.

        Raises:
            InvalidTask: no handler is registered, or the server refuses the name of a queue or of the namespace.
            AccessDenied: the credentials are missing, or do not allow to work these queues.
            TimerdError: the worker runs already, or gRPC cannot be used in this process (FAILED_PRECONDITION).
        """
        if not self._lanes:
            raise InvalidTask('This worker has no handlers. Register one with `@worker.on("queue")`.')
        if not self._begin():
            return
        try:
            async with self._connection.open_channel() as channel:
                await self._work(channel)
        finally:
            self._end()

    async def _work(self, channel: grpc.aio.Channel) -> None:
        opened = opener(channel, _WORK, pb.WorkResponse.FromString)
        stream = WorkStream(opened, self._lanes, self._namespace, self._name, self._lease_ms, self._clock)
        self._stream = stream
        declaring = self._declaring = asyncio.create_task(self._declare(channel))
        declaring.add_done_callback(lambda _: stream.stop() if _has_failed(declaring) else None)
        try:
            await stream.run()
        finally:
            declaring.cancel()
            await stream.abort()
        if _has_failed(declaring):
            declaring.result()

    async def _declare(self, channel: grpc.aio.Channel) -> None:
        """The schedules of this worker, as soon as the server can be reached."""
        calls = Calls(channel, self._connection.target, _DECLARE_S)
        for declare in self._declared:
            while True:
                try:
                    await declare(Schedules(Opened(self._namespace, calls)))
                    break
                except (Unavailable, Overloaded, OutcomeUnknown):
                    await asyncio.sleep(_DECLARE_AGAIN_S)

    def _begin(self) -> bool:
        """Whether it has not been stopped before."""
        with self._lock:
            if self._loop is not None:
                raise TimerdError("This worker runs already.", code="FAILED_PRECONDITION")
            if self._is_stopped_before:
                self._is_stopped_before = False
                return False
            self._loop, self._ended = asyncio.get_running_loop(), Future()
            # So that nobody who waits for it can cancel it.
            self._ended.set_running_or_notify_cancel()
            return True

    def _end(self) -> None:
        with self._lock:
            self._stream = self._loop = None
            self._ended.set_result(None)

    async def stop(self) -> None:
        """The worker takes nothing new, finishes what has begun, and hands back the rest.

        It returns when all of it is confirmed. An attempt that is handed back does not count.

        May be called from any thread and event loop. Where the worker does not run, its next `run` returns at once. In
        a coroutine that is a handler of this worker it returns at once, for the worker waits for its handlers.
        """
        with self._lock:
            if self._loop is None:
                self._is_stopped_before = True
                return
            loop, ended = self._loop, self._ended
        if loop is not asyncio.get_running_loop():
            # A loop that is closed meanwhile has ended it.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._stop_stream)
        elif self._stop_stream():
            return
        await asyncio.wrap_future(ended)

    def _stop_stream(self) -> bool:
        """Whether it is one of its handlers that stops it."""
        if self._stream is None:
            return False
        self._stream.stop()
        return asyncio.current_task() in self._stream.running()

    def run_forever(self) -> None:
        """The worker runs until SIGTERM or SIGINT, in a program without an event loop.

        The first signal stops it as `stop` does. A second one ends the process: SystemExit with 128 + its number, and a
        second later without a word to what is still there (a plain handler, say). Where the program has not set up
        logging, what the worker says stands on stderr: who it is, where, and what it serves.

        Raises:
            InvalidTask, AccessDenied, TimerdError: as for `run`.
        """
        show_log()
        if exit_code := asyncio.run(run_until_signalled(self)):
            sys.exit(exit_code)


def _has_failed(declaring: asyncio.Task[None]) -> bool:
    return declaring.done() and not declaring.cancelled() and declaring.exception() is not None


__all__ = [
    "ConnectOptions",
    "Delivery",
    "InterruptReason",
    "Interrupted",
    "Interruption",
    "Occurrence",
    "OccurrenceReason",
    "OrderFence",
    "Pool",
    "Progress",
    "TaskResult",
    "Reject",
    "Retry",
    "Throttled",
    "Slot",
    "SlotPlace",
    "TimerdError",
    "Worker",
    "WorkerKeywords",
]
