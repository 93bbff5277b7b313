"""Time that stands still until a test turns it: the clock, the alarm that delivery sets, and handlers that sleep."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import NamedTuple


class SimClock:
    """A simulated clock stands still until a test turns it. It implements `ports.Clock`.

    Args:
        now_ms: the time that its boot clock shows, which is right, in milliseconds since the epoch.
        offset_ms: what its wall clock shows more than that, in milliseconds. Default 0.
    """

    def __init__(self, now_ms: int, offset_ms: int = 0) -> None:
        self.now_ms = now_ms
        self.offset_ms = offset_ms

    def wall_ms(self) -> float:
        """The wall clock shows milliseconds since the epoch, and may be wrong by `offset_ms`."""
        return float(self.now_ms + self.offset_ms)

    def boot_ms(self) -> float:
        """The boot clock shows the right milliseconds since the epoch."""
        return float(self.now_ms)


def _silent() -> None:
    """Nobody listens yet."""


class SimAlarm:
    """A simulated alarm rings when the clock has been turned to its instant, or at once where that has passed.

    Args:
        clock: the clock that the test turns.
    """

    def __init__(self, clock: SimClock) -> None:
        self.at_ms = math.inf
        self._clock = clock
        self._ring: Callable[[], None] = _silent

    def listen(self, ring: Callable[[], None]) -> None:
        """The alarm calls `ring` when it rings."""
        self._ring = ring

    def set(self, at_ms: float) -> None:
        """The alarm rings at `at_ms`, milliseconds since the epoch by the wall clock."""
        self.at_ms = at_ms
        self.look()

    def look(self) -> None:
        """The alarm rings where its instant has come; the code that turns the clock calls this."""
        if self.rings_ms <= self._clock.now_ms:
            self.at_ms = math.inf
            self._ring()

    @property
    def rings_ms(self) -> float:
        """This is when the alarm rings, in milliseconds by the boot clock."""
        return self.at_ms - self._clock.offset_ms

    def close(self) -> None:
        """The alarm rings no more."""
        self.at_ms = math.inf


class _Sleep(NamedTuple):
    until_ms: float
    over: asyncio.Future[None]


class Sleepers:
    """Handlers that wait for virtual time; a test that turns the clock need not wait for them."""

    def __init__(self) -> None:
        self._sleeps: dict[asyncio.Task[None], _Sleep] = {}

    async def sleep(self, until_ms: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleeps[task] = _Sleep(until_ms, over)
        try:
            await over
        finally:
            self._sleeps.pop(task, None)

    def wake(self, now_ms: int) -> None:
        """From here on they count as awake."""
        for task, sleep in list(self._sleeps.items()):
            if sleep.until_ms <= now_ms:
                del self._sleeps[task]
                if not sleep.over.done():
                    sleep.over.set_result(None)

    def next_ms(self) -> float:
        return min((sleep.until_ms for sleep in self._sleeps.values()), default=math.inf)

    def awake(self, tasks: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
        return tasks - self._sleeps.keys()
