"""A loop whose instances can be stopped and go on later, as by SIGSTOP and SIGCONT: what they were about to do waits,
while the clocks, the network and everybody else go on."""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from contextvars import Context
from math import inf
from typing import Any

from tests.simulator.virtual_loop import OWNER, Owner, VirtualLoop


class Stoppable(Owner):
    """All that one instance has under way."""

    def __init__(self, loop: PausingLoop) -> None:
        super().__init__(loop)
        self.is_paused = False
        self.waiting: list[asyncio.Handle] = []
        self._pausing = loop
        self._went_on_ms = -inf

    def pause(self) -> None:
        self.is_paused = True

    def go_on(self) -> None:
        """What has come in is looked at before the timers that are over, as an event loop does."""
        self.is_paused = False
        self._went_on_ms = self._pausing.now_ms
        waiting, self.waiting = self.waiting, []
        self._pausing.run_soon(sorted(waiting, key=lambda handle: isinstance(handle, asyncio.TimerHandle)))

    def has_run_for(self, ms: float) -> bool:
        return self._pausing.now_ms - self._went_on_ms > ms

    def kill(self) -> None:
        self.go_on()
        super().kill()


class _Step(asyncio.Handle):
    __slots__ = ("_owner",)

    def __init__(
        self, callback: Callable[..., Any], args: tuple[Any, ...], loop: VirtualLoop, context: Context | None
    ) -> None:
        super().__init__(callback, args, loop, context)
        self._owner = _owner_of(self)

    def _run(self) -> None:
        if self._owner is not None and self._owner.is_paused:
            self._owner.waiting.append(self)
        else:
            super()._run()


class _Timer(asyncio.TimerHandle):
    __slots__ = ("_owner",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: Context | None,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self._owner = _owner_of(self)

    def _run(self) -> None:
        if self._owner is not None and self._owner.is_paused:
            self._owner.waiting.append(self)
        else:
            super()._run()


def _owner_of(handle: Any) -> Stoppable | None:
    owner = handle._context.get(OWNER)
    return owner if isinstance(owner, Stoppable) else None


class PausingLoop(VirtualLoop):
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def run_soon(self, handles: list[asyncio.Handle]) -> None:
        self._ready.extend(handle for handle in handles if not handle.cancelled())

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Step(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer
