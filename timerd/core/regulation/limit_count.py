"""What one limit counts: the starts of its queues, by its rate, and their deliveries that are with workers.

It is the limit of one queue, or one with a name that many list. Nothing is reserved: the caller asks each what it
allows, and tells all of them what was sent.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

from timerd.core.dispatch import Allowance
from timerd.core.regulation.lent_rates import LentRate
from timerd.core.regulation.rate import RateLimit
from timerd.core.taken import QueueKey
from timerd.model.keeping import LimitLabels
from timerd.model.regulations import QueueLimit


@dataclass(slots=True, eq=False)
class LimitCount:
    """`queues`: those whose deliveries count; `waiting`: those of which it
    holds something back. `is_from_before`: it was there when this instance began, so something may have been sent by it
    that is not known here. `lent_rate`: by which it goes where its rate is shared with other instances. `is_watched`:
    who waits is told of the next end of a delivery. `throttled`: how often a queue had to wait."""

    labels: LimitLabels
    limit: QueueLimit
    queues: Collection[QueueKey]
    is_from_before: bool
    lent_rate: LentRate | None = None
    rate: RateLimit | LentRate | None = None
    waiting: set[QueueKey] = field(default_factory=set)
    is_watched: bool = False
    throttled: int = 0

    @property
    def name(self) -> str:
        """Empty where it is that of one queue."""
        return self.labels.limit

    @property
    def tokens(self) -> tuple[int, int]:
        """How many were drawn from its keeper so far, and how many of them have lapsed."""
        return self.lent_rate.counted if self.lent_rate is not None else (0, 0)

    def allow(self, tasks: int, in_hand: int, now_ms: int) -> Allowance:
        """How many of so many may go, while so many are in hand."""
        room = self.limit.max_in_hand - in_hand if self.limit.max_in_hand else tasks
        if room <= 0:
            return Allowance(0, math.inf)
        if self.rate is None:
            return Allowance(min(tasks, room), now_ms)
        return Allowance(min(tasks, room, self.rate.free(now_ms)), self.rate.next_ms(now_ms))

    def hold_back(self, queue: QueueKey) -> None:
        if queue not in self.waiting:
            self.waiting.add(queue)
            self.throttled += 1

    def sent(self, tasks: int, now_ms: int) -> float:
        """Returns when one more may go, by the rate; `now_ms` where nobody knows that yet."""
        if self.rate is None:
            return now_ms
        self.rate.sent(tasks, now_ms)
        next_ms = self.rate.next_ms(now_ms)
        return next_ms if next_ms < math.inf else now_ms

    def go_by(self, limit: QueueLimit, now_ms: int) -> None:
        """By this limit from now on. What was sent counts on, as long as there is a rate."""
        if limit == self.limit and (self.rate is not None) == bool(limit.rate):
            return
        if not limit.rate:
            self.rate = None
        elif self.rate is None:
            self.rate = self.lent_rate or RateLimit(limit, now_ms, is_full=not self.is_from_before)
        else:
            self.rate = self.rate.changed(limit, now_ms)
        self.limit = limit
