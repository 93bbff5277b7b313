"""Ends of tasks, told to the callers that wait for them.

Who waits is noted *before* the task is looked up, and an end is told *after* it is durable: none falls in between. What
another instance has recorded is found by looking again, less and less often.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain

from timerd.core.dispatch import Settlement
from timerd.model.errors import Overloaded, Unavailable
from timerd.model.identity import TaskId
from timerd.services.engine.verbs import ENDED, State, TaskView

# Callers that wait at one instance.
MOST_WAITS = 10_000
FIRST_LOOK_S = 0.1
LAST_LOOK_S = 5.0
OVER = frozenset({*ENDED.values(), State.FINISHED})
# Raises what verbs.get raises.
GetTask = Callable[[], Awaitable[TaskView]]


class TaskEnds:
    """Of one instance."""

    def __init__(self) -> None:
        self._heard: defaultdict[bytes, set[asyncio.Event]] = defaultdict(set)
        self._count = 0
        self._is_stopped = False

    @property
    def waiting(self) -> int:
        return self._count

    async def wait(self, task: TaskId, look: GetTask, timeout_s: float) -> TaskView:
        """Until it has ended, or as it is after the time-out. Raises Overloaded, Unavailable."""
        loop = asyncio.get_running_loop()
        until_s, again_s = loop.time() + timeout_s, FIRST_LOOK_S
        with self._noted(task.digest) as heard:
            while True:
                self._check_serving()
                heard.clear()
                view = await look()
                left_s = until_s - loop.time()
                if view.state in OVER or left_s <= 0:
                    return view
                with suppress(TimeoutError):
                    await asyncio.wait_for(heard.wait(), min(again_s, left_s))
                again_s = min(2 * again_s, LAST_LOOK_S)

    @contextmanager
    def _noted(self, digest: bytes) -> Iterator[asyncio.Event]:
        if self._count >= MOST_WAITS:
            raise Overloaded(
                f"{MOST_WAITS:,} callers wait for the end of a task at this instance, and more are not taken: repeat "
                "the call in a while.",
                "TOO_MANY_WAITS",
                retry_after_ms=1_000,
            )
        heard = asyncio.Event()
        self._heard[digest].add(heard)
        self._count += 1
        try:
            yield heard
        finally:
            self._count -= 1
            self._heard[digest].discard(heard)
            if not self._heard[digest]:
                del self._heard[digest]

    def _check_serving(self) -> None:
        if self._is_stopped:
            raise Unavailable("The server is going away: connect again in a moment.", "DRAINING", retry_after_ms=1_000)

    def settled(self, settlement: Settlement) -> None:
        """It is durable. What goes on after a failure has ended where it was cancelled."""
        if self._heard:
            self.told(chain(settlement.ended_digests(), (failed.key.digest for failed in settlement.again)))

    def told(self, digests: Iterable[bytes]) -> None:
        """They have ended, or may have."""
        if not self._heard:
            return
        for digest in digests:
            for heard in self._heard.get(digest, ()):
                heard.set()

    def stop(self) -> None:
        """The server is going away: callers that wait are told so."""
        self._is_stopped = True
        self.told(list(self._heard))
