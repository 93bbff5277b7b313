"""What calls of tasks ask of the rules of queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from timerd.core.regulation import HeldBack
from timerd.core.taken import QueueKey


class QueueRules(Protocol):
    """Of one instance, as it knows them now."""

    def check_intake(self, queue: QueueKey, now_ms: int) -> None:
        """Raises QueueShut where the queue takes no new tasks in, and Unavailable where that is not known yet."""
        ...

    def check_releases(self, capability: str) -> None:
        """Raises Precondition where an instance that lives does not understand it."""
        ...

    def check_ordering(self) -> None:
        """Raises Precondition where nobody could keep the order of an ordering key."""
        ...

    def opens_ms(self, queue: QueueKey, now_ms: int) -> float:
        """When rows of the queue may be sent: `now_ms`, or later; infinite: when it is told so."""
        ...

    def held_back(self, queue: QueueKey, now_ms: int, limit_key: str = "") -> Sequence[HeldBack]:
        """By which limits, and until when, the longest first. None of them: they allow one more of the key now."""
        ...


class NoRules:
    """Implements QueueRules where nobody can give a queue any."""

    def check_intake(self, queue: QueueKey, now_ms: int) -> None:
        """It takes in."""

    def check_releases(self, capability: str) -> None:
        """There is no other."""

    def check_ordering(self) -> None:
        """It is alone."""

    def opens_ms(self, queue: QueueKey, now_ms: int) -> float:
        return now_ms

    def held_back(self, queue: QueueKey, now_ms: int, limit_key: str = "") -> Sequence[HeldBack]:
        return ()
