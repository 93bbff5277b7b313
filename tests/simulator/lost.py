"""Deliveries that were sent and never arrived: the stream broke while they were on their way.

The server cannot know it. Until it has given the worker up (after the grace, or at the end of the lease where it went
away itself) such a task is in flight, although no worker has seen it. A server that was killed knows of none.
"""

from __future__ import annotations

from tests.simulator.events import Broke
from tests.simulator.known import Known

GRACE_MS = 1_000


class LostOnTheWay:
    def __init__(self) -> None:
        self._is_up = False
        # With the instant until which the worker may come back.
        self._broken: list[tuple[Broke, float]] = []
        self._all: list[Broke] = []

    def server_started(self) -> None:
        self._is_up = True

    def server_stopping(self, now_ms: float) -> None:
        """What is in flight keeps its lease over the restart."""
        alive = (broke for broke, until_ms in self._broken if now_ms <= until_ms)
        self._broken = [(broke, broke.at_ms + broke.lease_ms) for broke in alive]

    def server_killed(self) -> None:
        self._is_up = False
        self._broken.clear()

    def broke(self, broke: Broke) -> None:
        self._all.append(broke)
        if self._is_up:
            self._broken.append((broke, broke.at_ms + (broke.lease_ms if broke.going_away else GRACE_MS)))

    def may_be(self, task: Known, now_ms: float) -> bool:
        """Whether it was due when the stream of one of its queue's workers broke, and that worker may come back yet."""
        return any(
            task.wanted.queue in broke.queues and min(task.asked) <= broke.at_ms and now_ms <= until_ms
            for broke, until_ms in self._broken
        )

    def may_have_used_up(self, task: Known) -> bool:
        """Whether as many streams broke as it has attempts, each with one of them: a lease that ends before its worker
        comes back is an attempt that has failed."""
        broken = [broke for broke in self._all if task.wanted.queue in broke.queues and min(task.asked) <= broke.at_ms]
        return len(broken) >= task.wanted.max_attempts
