"""How late the event loop is: a look four times a second says how long it was busy with something else."""

from __future__ import annotations

import asyncio

from timerd.core.tally import Histogram

EVERY_S = 0.25
BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class LoopLag:
    """Looks from `start` to `stop`. `last_s`: what the last look found."""

    def __init__(self) -> None:
        self.seen = Histogram(BOUNDS_S)
        self.last_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(EVERY_S, self._look, loop, loop.time() + EVERY_S)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        self.last_s = max(0.0, loop.time() - due_s)
        self.seen.add(self.last_s)
        self._timer = loop.call_later(EVERY_S, self._look, loop, loop.time() + EVERY_S)
