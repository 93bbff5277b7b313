"""From a delivery to its handler and back: one lane per queue.

A single lane has as much credit as it runs handlers, so nothing waits in the worker. A batch lane has more, so that the
next batch is here when one ends (sdk/batch_credit.py).
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, Protocol

from timerd.sdk.batch_credit import BatchCredit
from timerd.sdk.deliveries import DeliveredBatch, Delivery
from timerd.sdk.leases import Hold, InHand
from timerd.sdk.traces import Traces
from timerd.sdk.verdicts import ACK, RELEASE, Reject, Retry, Verdict, clip, verdict_of
from timerd.v1 import work_service_pb2 as pb

Handler = Callable[[Delivery], Any]
BatchResults = Sequence[object] | None
BatchHandler = Callable[[list[Delivery]], BatchResults | Awaitable[BatchResults]]
log = logging.getLogger("timerd.worker")
Invoke = Callable[[Any], Awaitable[Any]]


class Desk(Protocol):
    """Where a lane takes what it begins and hands in what has ended."""

    in_hand: InHand

    def settle(self, verdict: Verdict, tokens: bytes) -> None: ...
    def end(self, hold: Hold) -> None: ...
    def resized(self, queue: str, change: int) -> None: ...


class Lane(Protocol):
    """What the work stream knows of a queue."""

    queue: str
    # Delivered and not ended.
    held: int

    @property
    def credit(self) -> int: ...

    def start(self, desk: Desk) -> None: ...
    def accept(self, batch: DeliveredBatch) -> None: ...
    def hand_back(self) -> None: ...
    def running(self) -> set[asyncio.Task[None]]: ...
    async def abort(self) -> None: ...


class _Running:
    """The handlers of a lane that are running, and the threads of those that are no coroutines."""

    def __init__(
        self, handler: Callable[[Any], Any], concurrency: int, on_free: Callable[[], None] = lambda: None
    ) -> None:
        self._handler = handler
        self._on_free = on_free
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._concurrency = concurrency
        self.is_aborting = False
        self.invoke: Invoke = handler if _is_async(handler) else self._in_thread

    def __len__(self) -> int:
        return len(self._tasks)

    def tasks(self) -> set[asyncio.Task[None]]:
        return set(self._tasks)

    def spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._on_free()

    async def _in_thread(self, argument: object) -> object:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="timerd handler")
        # What is current here (a trace) is current in the thread.
        inside = contextvars.copy_context().run
        result = await asyncio.get_running_loop().run_in_executor(self._threads, inside, self._handler, argument)
        # A plain function may hand back a coroutine (a lambda around one): its end is the handler's end.
        return await result if inspect.isawaitable(result) else result

    async def abort(self) -> None:
        self.is_aborting = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
        self.is_aborting = False


class SingleLane:
    """One handler call per delivery, `concurrency` at a time."""

    def __init__(self, queue: str, handler: Handler, concurrency: int, tracing: Traces | None = None) -> None:
        self.queue = queue
        self.credit = concurrency
        self.held = 0
        self._running = _Running(handler, concurrency)
        self._invoke = _traced(self._running.invoke, tracing)
        self._desk: Desk

    def start(self, desk: Desk) -> None:
        self._desk = desk

    def accept(self, batch: DeliveredBatch) -> None:
        for index in range(len(batch)):
            hold = Hold(batch, index, index + 1)
            self.held += 1
            self._desk.in_hand.add(hold)
            self._running.spawn(self._run(hold), f"timerd {self.queue}")

    def hand_back(self) -> None:
        """Nothing waits here: what has come has begun."""

    async def _run(self, hold: Hold) -> None:
        try:
            await self._invoke(Delivery(hold.batch, hold.start))
        except (Exception, asyncio.CancelledError) as raised:
            if self._running.is_aborting:
                raise
            self._desk.settle(_note(self.queue, raised), hold.tokens)
        else:
            self._desk.settle(ACK, hold.tokens)
        finally:
            self.held -= 1
            self._desk.end(hold)

    def running(self) -> set[asyncio.Task[None]]:
        return self._running.tasks()

    async def abort(self) -> None:
        await self._running.abort()


class BatchLane:
    """One handler call per batch of up to `max_size`; nothing waits for a batch to fill."""

    def __init__(
        self, queue: str, handler: BatchHandler, max_size: int, concurrency: int, tracing: Traces | None = None
    ) -> None:
        self.queue = queue
        self._credit = BatchCredit(max_size, concurrency)
        self.held = 0
        self._max_size = max_size
        self._concurrency = concurrency
        self._running = _Running(handler, concurrency, self._start_waiting)
        self._invoke = _traced(self._running.invoke, tracing)
        self._waiting: deque[Hold] = deque()
        self._desk: Desk

    @property
    def credit(self) -> int:
        return self._credit.tasks

    def start(self, desk: Desk) -> None:
        self._desk = desk

    def accept(self, batch: DeliveredBatch) -> None:
        hold = Hold(batch, 0, len(batch))
        self.held += len(hold)
        self._desk.in_hand.add(hold)
        self._waiting.append(hold)
        self._start_waiting()

    def hand_back(self) -> None:
        """What waits for a batch to end goes to another worker."""
        waiting = [*self._waiting]
        self._waiting.clear()
        for hold in waiting:
            self._desk.settle(RELEASE, hold.tokens)
        self._end(waiting)

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < self._concurrency:
            if holds := self._take():
                self._running.spawn(self._run(holds), f"timerd {self.queue}")

    def _take(self) -> list[Hold]:
        """Up to `max_size`; what the server gave to another worker meanwhile is not begun here."""
        taken: list[Hold] = []
        room = self._max_size
        while room and self._waiting:
            hold = self._waiting[0]
            if self._desk.in_hand.is_lost(hold):
                self._end([self._waiting.popleft()])
                continue
            if len(hold) > room:
                hold = self._desk.in_hand.split(hold, room)
            else:
                self._waiting.popleft()
            taken.append(hold)
            room -= len(hold)
        return taken

    async def _run(self, holds: list[Hold]) -> None:
        deliveries = [delivery for hold in holds for delivery in hold.deliveries()]
        begun_s, more = monotonic(), 0
        try:
            results = await self._invoke(deliveries)
            more = self._credit.ran(len(deliveries), monotonic() - begun_s)
            self._settle(holds, results)
        except (Exception, asyncio.CancelledError) as raised:
            if self._running.is_aborting:
                raise
            verdict = _note(self.queue, raised)
            for hold in holds:
                self._desk.settle(verdict, hold.tokens)
        finally:
            self._end(holds)
            if more:
                self._desk.resized(self.queue, more)

    def _settle(self, holds: list[Hold], results: BatchResults) -> None:
        if results is None:
            for hold in holds:
                self._desk.settle(ACK, hold.tokens)
            return
        tokens = [token for hold in holds for token in hold.each_token()]
        for token, verdict in zip(tokens, _verdicts(results, len(tokens)), strict=True):
            self._desk.settle(verdict, token)

    def _end(self, holds: list[Hold]) -> None:
        for hold in holds:
            self.held -= len(hold)
            self._desk.end(hold)

    def running(self) -> set[asyncio.Task[None]]:
        return self._running.tasks()

    async def abort(self) -> None:
        self._waiting.clear()
        await self._running.abort()


def _traced(invoke: Invoke, tracing: Traces | None) -> Invoke:
    if tracing is None:
        return invoke

    async def run(given: Any) -> Any:  # noqa: ANN401 - whatever the handler takes and gives
        with tracing.handling([given] if isinstance(given, Delivery) else given):
            return await invoke(given)

    return run


def _note(queue: str, raised: BaseException) -> Verdict:
    if not isinstance(raised, Reject | Retry):
        log.warning("A handler of the queue %r failed.", queue, exc_info=raised)
    return verdict_of(raised)


def _verdicts(results: Sequence[object], count: int) -> list[Verdict]:
    if not isinstance(results, Sequence) or len(results) != count:
        size = len(results) if isinstance(results, Sequence) else type(results).__name__
        wrong = (
            f"A batch handler returns None (all done) or a list with one entry per delivery "
            f"(an exception where it failed): {count} deliveries, returned {size}."
        )
        return [Verdict(pb.SETTLE_ACTION_NACK, None, clip(wrong))] * count
    return [verdict_of(result) if isinstance(result, BaseException) else ACK for result in results]


def _is_async(handler: Callable[[Any], Any]) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
