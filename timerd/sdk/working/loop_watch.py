"""Sees from another thread that a handler keeps the event loop to itself, and says so while it happens.

Nothing else could: what would extend the leases, and notice that they have ended, waits for the same loop.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable

# Counted in beats and not by a clock: a process that was stopped for an hour has held up nobody.
_BEATS_OF_LEASE = 8
_MOST_MISSED = _BEATS_OF_LEASE // 2
_SHOWN_FRAMES = 6
log = logging.getLogger("timerd.worker")


class LoopWatch:
    """Warns once for each time that the loop stands still for half a lease."""

    def __init__(self, lease_s: Callable[[], float]) -> None:
        self._lease_s = lease_s
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._beats = 0
        self._over = threading.Event()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._beat()
        threading.Thread(target=self._watch, name="timerd loop watch", daemon=True).start()

    def stop(self) -> None:
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _beat_s(self) -> float:
        return self._lease_s() / _BEATS_OF_LEASE

    def _beat(self) -> None:
        self._beats += 1
        self._timer = self._loop.call_later(self._beat_s, self._beat)

    def _watch(self) -> None:
        seen = missed = 0
        while not self._over.wait(self._beat_s):
            missed = missed + 1 if self._beats == seen else 0
            seen = self._beats
            if missed == _MOST_MISSED:
                self._warn()

    def _warn(self) -> None:
        task, frame = asyncio.current_task(self._loop), sys._current_frames().get(self._loop_thread)
        log.warning(
            "%s has kept the event loop to itself for about %.1f s. No lease is extended meanwhile: after %.1f s the "
            "tasks are delivered again. Register a plain function, which runs in a thread, or await what takes long. "
            "It is at:\n%s",
            "Something" if task is None else task.get_name(),
            _MOST_MISSED * self._beat_s,
            self._lease_s(),
            "".join(traceback.format_stack(frame)[-_SHOWN_FRAMES:]),
        )
