"""Ends the attempt of a call that has not ended in time, and says where it was.

A coroutine is cancelled. A thread cannot be: its attempt ends all the same, and its place among the calls of the lane
is free when it has returned.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any

from timerd.sdk.working.leases import Hold

log = logging.getLogger("timerd.worker")
_HERE = str(Path(__file__).parent)


@dataclass(slots=True, eq=False)
class TimedCall:
    """A call of a handler that is under way. `thread`: where it runs, as long as it runs in one."""

    holds: list[Hold]
    task: asyncio.Task[Any]
    begun_s: float
    limit_s: float
    is_over: bool = False
    thread: int | None = field(default=None)

    @property
    def end_s(self) -> float:
        return self.begun_s + self.limit_s

    def took_s(self) -> float:
        return monotonic() - self.begun_s


# Of the task that runs it, and of what that task awaits.
CURRENT_CALL: ContextVar[TimedCall | None] = ContextVar("timerd_call", default=None)


class TimeLimits:
    """Those of the calls of one lane. `timeout_s`: of each call; the attempt's own one counts from its delivery.
    `over`: what becomes of a call that is over, with the trace of where it is.

    One timer is set, for the first that is over: nearly every call ends long before.
    """

    def __init__(self, timeout_s: float | None, over: Callable[[TimedCall, str], None]) -> None:
        self._timeout_s = inf if timeout_s is None else timeout_s
        self._over = over
        self._calls: set[TimedCall] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = inf

    def begin(self, holds: list[Hold]) -> TimedCall:
        """In the task that makes the call."""
        begun_s = monotonic()
        limit_s = self._timeout_s
        for hold in holds:
            left_s = hold.batch.attempt_ends_s - begun_s
            limit_s = left_s if left_s < limit_s else limit_s
        task = asyncio.current_task()
        assert task is not None
        call = TimedCall(holds, task, begun_s, limit_s)
        self._calls.add(call)
        CURRENT_CALL.set(call)
        if begun_s + limit_s < self._timer_s:
            self._set_timer(call.end_s)
        return call

    def end(self, call: TimedCall) -> None:
        self._calls.discard(call)
        if call.is_over:
            log.info("A call whose attempt had timed out has ended, after %s.", shown_s(call.took_s()))

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
        trace = "".join(traceback.format_list(_frames(call)))
        call.is_over = True
        self._over(call, trace)
        if call.thread is None:
            call.task.cancel()


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
