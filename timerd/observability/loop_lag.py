"""How late the event loop is, and how busy: a look four times a second says how long it did something else.

Late it is only when it is too late: near its limit an instance is busy all the time and late by little. So what asks
for more instances is the share of the processor that the thread of the loop has had, smoothed over half a minute.
"""

from __future__ import annotations

import asyncio
from time import thread_time

from timerd.core.dispatch import Histogram

EVERY_S = 0.25
SMOOTHED_S = 30.0
BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class LoopLag:
    """Looks from `start` to `stop`. `last_s`: what the last look found; `busy`: of 1."""

    def __init__(self) -> None:
        self.seen = Histogram(BOUNDS_S)
        self.last_s = 0.0
        self.busy = 0.0
        self._looked_s = self._worked_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._looked_s, self._worked_s = loop.time(), thread_time()
        self._timer = loop.call_later(EVERY_S, self._look, loop, loop.time() + EVERY_S)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        self.last_s = max(0.0, loop.time() - due_s)
        self.seen.add(self.last_s)
        self.weigh(loop.time(), thread_time())
        self._timer = loop.call_later(EVERY_S, self._look, loop, loop.time() + EVERY_S)

    def weigh(self, now_s: float, worked_s: float) -> None:
        """A look that comes late speaks for all the time since the one before."""
        passed_s, own_s = now_s - self._looked_s, worked_s - self._worked_s
        if passed_s > 0:
            weight = min(1.0, passed_s / SMOOTHED_S)
            self.busy += weight * (min(1.0, own_s / passed_s) - self.busy)
        self._looked_s, self._worked_s = now_s, worked_s
