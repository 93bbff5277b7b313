"""Ends the attempt of a call that has not ended in time, and says where it was; and a call that was interrupted.

A coroutine is cancelled. A thread cannot be: its attempt ends all the same, and its place among the calls of the lane
is free when it has returned.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any, NamedTuple, Protocol

from timerd.sdk.values import LONGEST_WIRE_SPAN, Span, invalid, span_ms
from timerd.sdk.working.leases import Hold

log = logging.getLogger("timerd.worker")
_HERE = str(Path(__file__).parent)
# A process is given a second to write down where it is, and then two to end when it is asked to.
_LOOKS, _LOOK_S = 50, 0.02
_KILL_S = 2.0
_LEAST_STALL_S, _MOST_STALL_S = 1, 7 * 86_400


class Endable(Protocol):
    """A process that does one call at a time."""

    def dump_stack(self) -> None: ...
    def stack(self) -> str: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


@dataclass(slots=True, eq=False)
class TimedCall:
    """A call of a handler that is under way. `thread`, `process`: where it runs, as long as it runs there; `is_plain`:
    as long as a plain handler is to be called, or runs. `is_interrupted`: it was made to end, as far as it can be."""

    holds: list[Hold]
    task: asyncio.Task[Any]
    begun_s: float
    timeout_s: float
    stall_s: float
    attempt_ends_s: float
    # Looks when the first call is over by now.
    look: Callable[[], None]
    is_over: bool = False
    is_interrupted: bool = False
    is_plain: bool = False
    thread: int | None = field(default=None)
    process: Endable | None = field(default=None)

    @property
    def end_s(self) -> float:
        return min(self.last_s, self.stalls_at_s)

    @property
    def last_s(self) -> float:
        """When it is over, whatever its handler says."""
        return min(self.begun_s + self.timeout_s, self.attempt_ends_s)

    @property
    def stalls_at_s(self) -> float:
        """When it is over if its handler says nothing before."""
        return self.heard_s() + self.stall_s if self.stall_s < inf else inf

    @property
    def limit_s(self) -> float:
        """How long it may take in all."""
        return self.last_s - self.begun_s

    @property
    def has_stalled(self) -> bool:
        """Of one that is over: for want of a word."""
        return self.stalls_at_s < self.last_s

    def heard_s(self) -> float:
        """When its handler has said something last, of any of its deliveries; to begin is a word."""
        return max([self.begun_s, *[hold.said_s() for hold in self.holds]])

    @contextmanager
    def starting(self) -> Iterator[None]:
        """In its thread, while its process starts: the time that this takes is not the handler's."""
        self.begun_s = inf
        try:
            yield
        finally:
            self.begun_s = monotonic()
            with suppress(RuntimeError):
                self.task.get_loop().call_soon_threadsafe(self.look)

    @property
    def is_for_nothing(self) -> bool:
        return all(reason is not None for hold in self.holds for reason in hold.reasons())

    def took_s(self) -> float:
        return monotonic() - self.begun_s


# Of the task that runs it, and of what that task awaits.
CURRENT_CALL: ContextVar[TimedCall | None] = ContextVar("timerd_call", default=None)


class CallSpans(NamedTuple):
    """How long each call of a handler may take, and how long it may say nothing."""

    timeout_s: float = inf
    stall_s: float = inf


def spans_of(timeout: Span | None, stall_timeout: Span | None) -> CallSpans:
    """As callers give them. Raises InvalidTask."""
    spans = CallSpans(_seconds(timeout, "timeout"), _seconds(stall_timeout, "stall_timeout"))
    if spans.stall_s < inf:
        _check_stall(spans)
    return spans


def _check_stall(spans: CallSpans) -> None:
    """By the rules of that of a task."""
    if not _LEAST_STALL_S <= spans.stall_s <= _MOST_STALL_S:
        raise invalid(f"`stall_timeout` is {shown_s(spans.stall_s)}: give a second to 7 days.", "stall_timeout")
    if spans.stall_s >= spans.timeout_s:
        raise invalid(
            f"`stall_timeout` ({shown_s(spans.stall_s)}) is not shorter than `timeout` ({shown_s(spans.timeout_s)}), "
            "so no call could stall: give a shorter one, or a longer `timeout`.",
            "stall_timeout",
        )


def _seconds(span: Span | None, name: str) -> float:
    return inf if span is None else span_ms(span, name, most=LONGEST_WIRE_SPAN, may_be_none=False) / 1000


class TimeLimits:
    """Those of the calls of one lane. `spans`: of each call; those of the attempt count as well.
    `over`: what becomes of a call that is over, with the trace of where it is. `shield`: interrupts end no call.

    One timer is set, for the first that is over: nearly every call ends long before.
    """

    def __init__(self, spans: CallSpans, over: Callable[[TimedCall, str], None], *, shield: bool = False) -> None:
        self._spans = spans
        self._shield = shield
        self._over = over
        self._calls: set[TimedCall] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = inf

    def begin(self, holds: list[Hold]) -> TimedCall:
        """In the task that makes the call."""
        task = asyncio.current_task()
        assert task is not None
        timeout_s, stall_s = self._spans
        begun_s, ends_s = monotonic(), _ends_s(holds)
        call = TimedCall(holds, task, begun_s, timeout_s, stall_s, ends_s, self._look)
        if holds[0].batch.stalls_s is not None or (len(holds) > 1 and _may_stall(holds)):
            stall_s = call.stall_s = min([stall_s, *[each for hold in holds for each in hold.stalls_s()]])
            for hold in holds:
                hold.begin(call.heard_s)
        self._calls.add(call)
        CURRENT_CALL.set(call)
        # A chain of comparisons: `min` takes longer than all else here.
        timer_s = self._timer_s
        if ends_s < timer_s or begun_s + timeout_s < timer_s or begun_s + stall_s < timer_s:
            self._set_timer(min(begun_s + min(timeout_s, stall_s), ends_s))
        return call

    def end(self, call: TimedCall) -> None:
        """In the task that has made the call. What points from the task and from its holds at the call goes: it would
        keep all of them for Python's collector, which a burst then waits for."""
        self._calls.discard(call)
        CURRENT_CALL.set(None)
        for hold in call.holds:
            hold.end()
        if call.is_over:
            log.info("A call whose attempt had timed out has ended, after %s.", shown_s(call.took_s()))

    def interrupt(self) -> None:
        """Calls whose deliveries were all interrupted are made to end. A thread cannot be."""
        if self._shield:
            return
        for call in [each for each in self._calls if not (each.is_over or each.is_interrupted)]:
            if call.is_for_nothing:
                call.is_interrupted = True
                if (process := call.process) is not None:
                    self._end_process(process)
                elif not call.is_plain:
                    call.task.cancel()

    def stop(self) -> None:
        """No call is left."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_s = None, inf

    def _set_timer(self, at_s: float) -> None:
        self.stop()
        if at_s < inf:
            self._timer_s = at_s
            self._timer = asyncio.get_running_loop().call_later(max(0.0, at_s - monotonic()), self._look)

    def _look(self) -> None:
        now_s = monotonic()
        for call in [each for each in self._calls if not each.is_over and each.end_s <= now_s]:
            self._end_attempt(call)
        self._set_timer(min((each.end_s for each in self._calls if not each.is_over), default=inf))

    def _end_attempt(self, call: TimedCall) -> None:
        call.is_over = True
        if (process := call.process) is not None:
            process.dump_stack()
            self._when_dumped(call, process, _LOOKS, "")
            return
        self._over(call, "".join(traceback.format_list(_frames(call))))
        if call.thread is None:
            call.task.cancel()

    def _when_dumped(self, call: TimedCall, process: Endable, looks: int, before: str) -> None:
        """A process writes down where it is as soon as the system lets it. What is the same twice is all of it."""
        loop, trace = asyncio.get_running_loop(), process.stack()
        if looks and not (trace and trace == before):
            loop.call_later(_LOOK_S, self._when_dumped, call, process, looks - 1, trace)
            return
        self._over(call, trace)
        self._end_process(process)

    def _end_process(self, process: Endable) -> None:
        process.terminate()
        asyncio.get_running_loop().call_later(_KILL_S, process.kill)


def _may_stall(holds: list[Hold]) -> bool:
    return any(hold.batch.stalls_s is not None for hold in holds)


def _ends_s(holds: list[Hold]) -> float:
    """When their attempts are over, whatever the worker says. One by itself is nearly every call of a burst."""
    if len(holds) == 1:
        return holds[0].ends_s()
    deadline_s = max([hold.batch.deadline_s(hold.start, hold.stop) for hold in holds])
    return min([deadline_s, *[hold.batch.attempt_ends_s for hold in holds]])


def shown_s(seconds: float) -> str:
    """A span for people: `30 s`, `0.25 s`."""
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:,.0f} s"


def _frames(call: TimedCall) -> traceback.StackSummary:
    """Where the handler is, without what the worker has around it."""
    if call.thread is not None:
        frame = sys._current_frames().get(call.thread)
        every = traceback.extract_stack(frame) if frame is not None else traceback.StackSummary()
        inner = [at for at, each in enumerate(every) if each.filename.startswith(_HERE)]
        return traceback.StackSummary.from_list(every[inner[-1] + 1 if inner else 0 :])
    frames = [traceback.extract_stack(frame, limit=1)[0] for frame in _awaiting(call.task.get_coro())]
    return traceback.StackSummary.from_list([each for each in frames if not each.filename.startswith(_HERE)])


def _awaiting(awaited: object) -> Iterator[FrameType]:
    """The frames of a coroutine and of what it awaits, from the outermost on."""
    while awaited is not None:
        frame = _first_of(awaited, "cr_frame", "ag_frame", "gi_frame")
        if isinstance(frame, FrameType):
            yield frame
        awaited = _first_of(awaited, "cr_await", "ag_await", "gi_yieldfrom")


def _first_of(thing: object, *names: str) -> object:
    found = (getattr(thing, name, None) for name in names)
    return next((each for each in found if each is not None), None)
