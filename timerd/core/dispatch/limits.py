"""How many rows of a queue may be sent now, and when to ask again: a list of limits is asked, and the least counts.

All limits go by engine time, and a send counts with all of them or with none: what a limit allows is not reserved, and
what was sent is told to each. docs/understand/architecture.md says where a new limit goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from timerd.core.taken import QueueKey


class Allowance(NamedTuple):
    """How many `tasks` may go, and where that is none, when to ask again. `heeds_credit`: more credit of the queue's
    workers may change it before."""

    tasks: int
    next_ms: float
    heeds_credit: bool = False


class Slice(NamedTuple):
    """What was sent of a queue in one go. `is_dry`: its workers have got all that they wanted. `is_all`: nothing more
    is due, and there is credit for what will be."""

    queue: QueueKey
    now_ms: int
    tasks: int
    messages: int
    size_bytes: int
    is_dry: bool
    is_all: bool


class Limit(Protocol):
    """One reason to send less of a queue, or later."""

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        """How many of so many may be sent now. Of none, `next_ms` is later than `now_ms`."""
        ...

    def sent(self, sent: Slice) -> float:
        """Something of the queue was sent. Returns when more of it may go."""
        ...

    def forget(self, queue: QueueKey) -> None:
        """The queue has no workers any more."""
        ...


class Limits:
    """All that are asked for each queue, in an order that does not matter."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        self._limits = tuple(limits)

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        """The least of what they allow; where that is none, the one that allows none for longest decides when to ask,
        and whether credit changes it."""
        least, next_ms, heeds_credit = tasks, -math.inf, False
        for limit in self._limits:
            allowed = limit.allow(queue, tasks, now_ms)
            least = min(least, allowed.tasks)
            if not allowed.tasks and allowed.next_ms >= next_ms:
                next_ms, heeds_credit = allowed.next_ms, allowed.heeds_credit
        return Allowance(least, next_ms, heeds_credit)

    def sent(self, sent: Slice) -> float:
        """Tells all of them. Returns when all of them allow more."""
        return max([limit.sent(sent) for limit in self._limits], default=sent.now_ms)

    def forget(self, queue: QueueKey) -> None:
        for limit in self._limits:
            limit.forget(queue)


class Credit:
    """No worker gets more than it asked for. `wanted`: how many tasks the workers of a queue may be sent in all. When
    there is more, the place that gives it says so."""

    def __init__(self, wanted: Callable[[QueueKey], int]) -> None:
        self._wanted = wanted

    def allow(self, queue: QueueKey, tasks: int, _: int) -> Allowance:
        return Allowance(min(tasks, self._wanted(queue)), math.inf)

    def sent(self, sent: Slice) -> float:
        return sent.now_ms

    def forget(self, queue: QueueKey) -> None:
        """Nothing is kept here."""
