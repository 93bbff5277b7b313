"""An event loop whose time leaps: where all wait, it is at once the instant that the next one waits for.

Nothing outside of the loop is ever waited for, so a seed gives the same history each time, and an hour costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, cast

from timerd.model.errors import TimerdError

START_MS = 1_800_000_000_000
# Rounds at one instant; a history of a correct server has some hundreds.
ROUNDS_AT_ONCE = 20_000
# Who works: the tasks of one run of the server end with it.
OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)


class Owner:
    """All that one run of the server has under way; `kill` forgets it between two steps."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.dead = False
        # What nobody expected.
        self.errors: list[BaseException] = []
        self.context: Context = copy_context()
        self.context.run(OWNER.set, self)
        self._loop = loop
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self._loop.create_task(work, context=self.context.copy())

    def own(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, TimerdError) and not self.dead:
            self.errors.append(error)

    def has_run_for(self, ms: float) -> bool:
        """Whether nothing has kept it from what it does for so long."""
        return True

    def kill(self) -> None:
        self.dead = True
        for task in list(self._tasks):
            task.cancel()


class Livelock(Exception):
    """Somebody asks again and again, and no time passes: no limit of wall-clock time would say so each time alike."""


class _Leap:
    """In the place of a selector."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._rounds = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everybody waits for nothing")
        self._rounds = 0 if timeout else self._rounds + 1
        if self._rounds > ROUNDS_AT_ONCE:
            self._rounds = 0
            raise Livelock(f"goes round {ROUNDS_AT_ONCE} times, and no time passes")
        self.now_s += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """`now_ms` is both clocks of the machine."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Leap()
        self._clock_resolution = 1e-7
        self.outside = copy_context()
        self.set_task_factory(cast(Any, self._task))

    def time(self) -> float:
        return self._selector.now_s

    @property
    def now_ms(self) -> float:
        return START_MS + round(self._selector.now_s * 1000, 3)

    def leap(self, to_ms: float) -> None:
        """While nobody works."""
        self._selector.now_s = max(self._selector.now_s, (to_ms - START_MS) / 1000)

    def later(self, delay_ms: float, work: Callable[[], object]) -> None:
        """By somebody outside of the server."""
        self.call_later(delay_ms / 1000, work, context=self.outside)

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """No other thread wakes this loop."""

    @staticmethod
    def _task(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], context: Context | None = None
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, context=context)
        owner = context[OWNER] if context is not None and OWNER in context else OWNER.get() if context is None else None
        if owner is not None:
            owner.own(task)
            if owner.dead:
                task.cancel()
        return task


class LoopClock:
    """Implements ports.Clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def wall_ms(self) -> float:
        return self._loop.now_ms

    def boot_ms(self) -> float:
        return self._loop.now_ms
