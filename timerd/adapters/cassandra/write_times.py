"""When a write says that it was made: of two writes of one cell the later one stands, in whatever order they came.

The driver would take the wall clock, and never go back behind what it has said. So an instance whose clock was an hour
ahead for a moment would date all that it writes for the next hour ahead of the others, who could change and remove
nothing of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock


def wall_ms() -> int:
    """The wall clock of this machine."""
    return time.time_ns() // 1_000_000


class WriteTimes:
    """In microseconds since the epoch, each later than the one before; the driver asks in several threads. `now_ms` is
    a time that is not stepped."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._last_us = 0
        self._lock = Lock()

    def __call__(self) -> int:
        with self._lock:
            self._last_us = max(self._last_us + 1, self._now_ms() * 1_000)
            return self._last_us
