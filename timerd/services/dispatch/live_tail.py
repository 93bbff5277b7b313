"""What dispatch tells those who look on: nothing depends on it, so a mistake in it is noted and costs no delivery."""

from __future__ import annotations

from collections.abc import Callable

from timerd.core.dispatch import Assignment, Settlement, Tail
from timerd.core.taken import QueueKey, Taken
from timerd.services.background import noted


class LiveTail:
    """Of one instance. `tail` is what readers join."""

    def __init__(self, secret: bytes, clock_ms: Callable[[], int]) -> None:
        self.tail = Tail(secret)
        self._clock_ms = clock_ms

    def sent(self, queue: QueueKey, assignment: Assignment, now_ms: int) -> None:
        if self.tail.is_read:
            with noted("watching", "who looks on is not told of what was sent"):
                self.tail.sent(queue, assignment.taken, assignment.called, now_ms)

    def cancelled(self, taken: Taken) -> None:
        """Their tasks were, and a worker has them."""
        if self.tail.is_read:
            with noted("watching", "who looks on is not told of what was cancelled"):
                self.tail.cancelled(taken.digests)

    def ended(self, settlement: Settlement) -> None:
        """It is durable."""
        if self.tail.is_read:
            with noted("watching", "who looks on is not told of what has ended"):
                self.tail.settled(settlement, self._clock_ms())
