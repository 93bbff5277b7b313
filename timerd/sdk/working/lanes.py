"""From a delivery to its handler and back: one lane per queue.

A lane has credit for what its handlers take, and for more where they are so fast that they would wait for messages
(read_ahead.py, batch_credit.py). What has come and not begun waits here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from timerd.sdk.values import DeliveredBatch, Delivery, InvalidResult, Traces, flag
from timerd.sdk.working.batch_credit import BatchCredit
from timerd.sdk.working.dispositions import (
    ACK,
    ASKED_FOR,
    RELEASE,
    Disposition,
    FailedElsewhere,
    acknowledged,
    clip,
    disposition_of,
)
from timerd.sdk.working.handlers import BatchHandler, BatchResults, Handler, HandlerCalls, finished
from timerd.sdk.working.interrupting import end_by_time, ends_by_interrupt, said_of_interrupted
from timerd.sdk.working.leases import Hold, InHand
from timerd.sdk.working.pools import SharedSlots, SlotCredit
from timerd.sdk.working.read_ahead import ReadAhead
from timerd.sdk.working.time_limits import CallSpans, TimedCall, TimeLimits, shown_s
from timerd.v1 import work_service_pb2 as pb

log = logging.getLogger("timerd.worker")
# What is read ahead is done in a tenth of it (read_ahead.py).
_LONGEST_WAIT_S = 0.2
_NO_LIMITS = CallSpans()


class LaneHost(Protocol):
    """Where a lane takes what it begins and hands in what has ended."""

    in_hand: InHand

    def settle(self, disposition: Disposition, tokens: bytes) -> None: ...
    def end(self, hold: Hold) -> None: ...
    def resized(self, queue: str, change: int) -> None: ...


class Lane(Protocol):
    """What the work stream knows of a queue."""

    queue: str
    # Whose slots it shares with other lanes, if it does.
    pool: SharedSlots | None
    # Delivered and not ended.
    held: int

    @property
    def credit(self) -> int: ...

    @property
    def waiting(self) -> int:
        """Delivered and not begun."""
        ...

    @property
    def shown(self) -> str:
        """The queue and how much of it is handled at a time, for people."""
        ...

    def fresh(self) -> Lane: ...
    def start(self, host: LaneHost) -> None: ...
    def accept(self, batch: DeliveredBatch) -> None: ...
    def hand_back(self) -> None: ...
    def interrupt(self) -> None: ...
    def running(self) -> set[asyncio.Task[None]]: ...
    async def abort(self) -> None: ...


class Waiting:
    """What has come and not begun, in the order in which it came."""

    def __init__(self, host: LaneHost) -> None:
        self._in_hand = host.in_hand
        self._holds: deque[Hold] = deque()
        self.tasks = 0

    def __len__(self) -> int:
        return len(self._holds)

    def add(self, hold: Hold) -> None:
        self._in_hand.add(hold)
        self._holds.append(hold)
        self.tasks += len(hold)

    def take(self, room: int) -> Hold | None:
        """The first of them, or as much of it as there is room for."""
        if not self._holds:
            return None
        if len(self._holds[0]) > room:
            self.tasks -= room
            return self._in_hand.split(self._holds[0], room)
        taken = self._holds.popleft()
        self.tasks -= len(taken)
        return taken

    def take_all(self) -> list[Hold]:
        taken = [*self._holds]
        self._holds.clear()
        self.tasks = 0
        return taken

    @property
    def first(self) -> Hold | None:
        return self._holds[0] if self._holds else None


class SingleLane:
    """One handler call per delivery, `concurrency` at a time.

    What was read ahead goes back when it has waited for a while: its handlers have become slow, and another worker's
    may not have.
    """

    def __init__(
        self,
        queue: str,
        handler: Handler,
        concurrency: int,
        tracing: Traces | None = None,
        spans: CallSpans = _NO_LIMITS,
        pool: SharedSlots | None = None,
        *,
        shield: bool = False,
    ) -> None:
        self.queue = queue
        self.pool = pool
        self.held = 0
        self._credit = ReadAhead(concurrency) if pool is None else SlotCredit(concurrency)
        self._concurrency = concurrency
        self._handler = handler
        self._tracing = tracing
        self._running = HandlerCalls(handler, queue, concurrency, tracing, self._start_waiting)
        self._spans = spans
        self._shield = flag(shield, "shield")
        self._limits = TimeLimits(spans, self._on_over, shield=shield)
        self._watching: asyncio.TimerHandle | None = None
        self._host: LaneHost
        self._waiting: Waiting

    def fresh(self) -> Lane:
        """Another one of the same handler, which has nothing in hand."""
        rest = self._concurrency, self._tracing, self._spans, self.pool
        return SingleLane(self.queue, self._handler, *rest, shield=self._shield)

    @property
    def credit(self) -> int:
        return self._credit.tasks

    @property
    def waiting(self) -> int:
        return self._waiting.tasks

    @property
    def shown(self) -> str:
        if self.pool is not None:
            return f"{self.queue} (in the {self.pool.slots:,} slots of {self.pool.name})"
        return f"{self.queue} ({self._concurrency:,} at a time)"

    def start(self, host: LaneHost) -> None:
        """Also of a worker that runs once more: nothing of what it had is left."""
        self._running.start()
        self._host = host
        self._waiting = Waiting(host)
        self.held = 0
        self._credit.restart()
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def accept(self, batch: DeliveredBatch) -> None:
        self.held += len(batch)
        self._waiting.add(Hold(batch, 0, len(batch)))
        self._start_waiting()

    def _start_waiting(self) -> None:
        free = self._concurrency - len(self._running)
        while free > 0 and (hold := self._waiting.take(1)) is not None:
            if self._host.in_hand.is_lost(hold):
                self._end(hold)
            else:
                self._running.spawn(self._run(hold))
                free -= 1
        if self._watching is None and self._waiting:
            self._watch(self._waiting.first)

    def _watch(self, first: Hold | None) -> None:
        """Whether that one has gone on within the time that what is read ahead may wait."""
        at = (first, first.start if first is not None else 0)
        self._watching = asyncio.get_running_loop().call_later(_LONGEST_WAIT_S, self._look_after, at)

    def _look_after(self, at: tuple[Hold | None, int]) -> None:
        self._watching = None
        first = self._waiting.first
        if first is None:
            return
        if (first, first.start) == at:
            self.hand_back()
            self._credit.restart()
        else:
            self._watch(first)

    def hand_back(self) -> None:
        """What has not begun goes to another worker."""
        for hold in self._waiting.take_all():
            self._host.settle(RELEASE, hold.tokens)
            self._end(hold)

    def _end(self, hold: Hold) -> None:
        self.held -= len(hold)
        self._host.end(hold)

    async def _run(self, hold: Hold) -> None:
        call = self._limits.begin([hold])
        try:
            delivery, ended = Delivery(hold.batch, hold.start), ACK
            returned = await self._running.invoke(delivery)
            if returned is not None:
                ended = acknowledged(delivery, await finished(returned))
        except BaseException as raised:
            if not call.is_over:
                if self._running.is_cut_short(raised):
                    raise
                _fail(self._host, self._running.name, call, raised)
        else:
            if not call.is_over:
                self._host.settle(ended, hold.tokens)
        finally:
            self._limits.end(call)
            self._end(hold)
            if change := self._credit.ran(call.took_s()):
                self._host.resized(self.queue, change)
            self._running.ended(call.task)

    def interrupt(self) -> None:
        self._limits.interrupt()

    def _on_over(self, call: TimedCall, trace: str) -> None:
        _time_out(self._host, self._running.name, call, trace)

    def running(self) -> set[asyncio.Task[None]]:
        return self._running.tasks()

    async def abort(self) -> None:
        self._waiting.take_all()
        self._limits.stop()
        await self._running.abort()


class BatchLane:
    """One handler call per batch of up to `max_size`; nothing waits for a batch to fill."""

    def __init__(
        self,
        queue: str,
        handler: BatchHandler,
        max_size: int,
        concurrency: int,
        tracing: Traces | None = None,
        spans: CallSpans = _NO_LIMITS,
        *,
        shield: bool = False,
    ) -> None:
        self.queue = queue
        # A batch takes no slot of its own, so batches keep credit of their own.
        self.pool: SharedSlots | None = None
        self._credit = BatchCredit(max_size, concurrency)
        self.held = 0
        self._max_size = max_size
        self._concurrency = concurrency
        self._handler = handler
        self._tracing = tracing
        self._running = HandlerCalls(handler, queue, concurrency, tracing, self._on_free)
        self._spans = spans
        self._shield = flag(shield, "shield")
        self._limits = TimeLimits(spans, self._on_over, shield=shield)
        self._host: LaneHost
        self._waiting: Waiting

    def fresh(self) -> Lane:
        """Another one of the same handler, which has nothing in hand."""
        rest = self._max_size, self._concurrency, self._tracing, self._spans
        return BatchLane(self.queue, self._handler, *rest, shield=self._shield)

    @property
    def credit(self) -> int:
        return self._credit.tasks

    @property
    def waiting(self) -> int:
        return self._waiting.tasks

    @property
    def shown(self) -> str:
        return f"{self.queue} (batches of up to {self._max_size:,})"

    def start(self, host: LaneHost) -> None:
        self._running.start()
        self._host = host
        self._waiting = Waiting(host)
        self.held = 0

    def accept(self, batch: DeliveredBatch) -> None:
        self.held += len(batch)
        self._waiting.add(Hold(batch, 0, len(batch)))
        self._start_waiting()

    def hand_back(self) -> None:
        """What waits for a batch to end goes to another worker."""
        waiting = self._waiting.take_all()
        for hold in waiting:
            self._host.settle(RELEASE, hold.tokens)
        self._end(waiting)

    def _on_free(self) -> None:
        """What comes in the same turn is to be in the next batch."""
        asyncio.get_running_loop().call_soon(self._start_waiting)

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < self._concurrency:
            if holds := self._take():
                self._running.spawn(self._run(holds))

    def _take(self) -> list[Hold]:
        """Up to `max_size`; what the server gave to another worker meanwhile is not begun here."""
        taken: list[Hold] = []
        room = self._max_size
        while room and (hold := self._waiting.take(room)) is not None:
            if self._host.in_hand.is_lost(hold):
                self._end([hold])
                continue
            taken.append(hold)
            room -= len(hold)
        return taken

    async def _run(self, holds: list[Hold]) -> None:
        deliveries = [delivery for hold in holds for delivery in hold.deliveries()]
        call, more = self._limits.begin(holds), 0
        try:
            results = await self._running.invoke(deliveries)
            if results is not None:
                results = await finished(results)
            more = self._credit.ran(len(deliveries), call.took_s())
            if not call.is_over:
                self._settle(holds, deliveries, results)
        except BaseException as raised:
            if not call.is_over:
                if self._running.is_cut_short(raised):
                    raise
                _fail(self._host, self._running.name, call, raised)
        finally:
            self._limits.end(call)
            self._end(holds)
            if more:
                self._host.resized(self.queue, more)
            self._running.ended(call.task)

    def _settle(self, holds: list[Hold], deliveries: list[Delivery], results: BatchResults) -> None:
        if results is None:
            _settle_all(self._host, ACK, holds)
            return
        tokens = [token for hold in holds for token in hold.each_token()]
        for token, disposition in zip(tokens, _dispositions(results, deliveries), strict=True):
            self._host.settle(disposition, token)

    def interrupt(self) -> None:
        self._limits.interrupt()

    def _on_over(self, call: TimedCall, trace: str) -> None:
        _time_out(self._host, self._running.name, call, trace)

    def _end(self, holds: list[Hold]) -> None:
        for hold in holds:
            self.held -= len(hold)
            self._host.end(hold)

    def running(self) -> set[asyncio.Task[None]]:
        return self._running.tasks()

    async def abort(self) -> None:
        self._waiting.take_all()
        self._limits.stop()
        await self._running.abort()


def _settle_all(host: LaneHost, disposition: Disposition, holds: list[Hold]) -> None:
    for hold in holds:
        host.settle(disposition, hold.tokens)


def _fail(host: LaneHost, handler: str, call: TimedCall, raised: BaseException) -> None:
    if not ends_by_interrupt(call, raised):
        _settle_all(host, disposition_of(raised), call.holds)
        _log_failure(handler, raised)
        return
    for disposition, token in said_of_interrupted(call.holds, raised):
        host.settle(disposition, token)
    log.info("%s was interrupted after %s.", handler, shown_s(call.took_s()))


def _time_out(host: LaneHost, handler: str, call: TimedCall, trace: str) -> None:
    """The attempts of the call fail where they are. Its leases are not extended any more."""
    goes_on = call.thread is not None and call.process is None
    stays = " It runs in a thread, which cannot be ended: it goes on." if goes_on else ""
    end_by_time(call)
    error = f"{_why(handler, call)} It was at:\n{trace}"
    _settle_all(host, Disposition(pb.SETTLE_ACTION_NACK, None, clip(error)), call.holds)
    for hold in call.holds:
        host.in_hand.remove(hold)
    log.warning("%s%s", error.rstrip(), stays)


def _why(handler: str, call: TimedCall) -> str:
    if call.has_stalled:
        return f"Stalled: {handler} had said no progress for {shown_s(call.stall_s)}."
    return f"TimeoutError: {handler} had not ended after {shown_s(call.limit_s)}."


def _log_failure(handler: str, raised: BaseException) -> None:
    if isinstance(raised, ASKED_FOR) or (isinstance(raised, FailedElsewhere) and raised.is_asked_for):
        return
    wish = isinstance(raised, SystemExit | KeyboardInterrupt)
    advice = " The worker goes on: `Worker.stop` is what ends it." if wish else ""
    log.warning("%s failed.%s", handler, advice, exc_info=raised)


def _dispositions(results: Sequence[object], deliveries: list[Delivery]) -> list[Disposition]:
    entries, count = [*results] if isinstance(results, Sequence) else None, len(deliveries)
    if entries is not None and len(entries) == count:
        each = zip(entries, deliveries, strict=True)
        return [ACK if entry is None else _disposition(entry, delivery) for entry, delivery in each]
    returned = type(results).__name__ if entries is None else len(entries)
    wrong = (
        f"A batch handler returns None (all done) or a list with one entry per delivery "
        f"(an exception where it failed, its result where one is kept): {count} deliveries, returned {returned}."
    )
    return [Disposition(pb.SETTLE_ACTION_NACK, None, clip(wrong))] * count


def _disposition(entry: object, delivery: Delivery) -> Disposition:
    """An exception may be its class, as it may where one is raised."""
    if isinstance(entry, BaseException) or (isinstance(entry, type) and issubclass(entry, BaseException)):
        return disposition_of(entry)
    try:
        return acknowledged(delivery, entry)
    except InvalidResult as wrong:
        return disposition_of(wrong)
