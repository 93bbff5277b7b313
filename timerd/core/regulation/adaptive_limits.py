"""The adaptive limits of queues that have one by their rules, each in front of all that is sent of its queue.

They count what this instance has sent and hear of its end, and nothing of it is stored: a server that starts anew
begins at the floor. In a cluster each instance finds out for itself what it may send.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from timerd.core.dispatch import Allowance, HandCount, Slice
from timerd.core.regulation.adaptive_limit import AdaptiveLimit, Sign
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.limits import HeldBack, Why
from timerd.core.taken import QueueKey
from timerd.model.regulations import AdaptiveRules

_SIGNS = {"acked": Sign.GOOD, "failed": Sign.FAILED, "throttled": Sign.TOO_MUCH, "timed_out": Sign.TOO_MUCH}


@dataclass(slots=True, eq=False)
class AdaptedQueue:
    """Implements core.dispatch.DeliveryWatch. `is_waiting`: something of it is held back until one has ended."""

    queue: QueueKey
    limit: AdaptiveLimit
    hand: HandCount
    opened: Callable[[Collection[QueueKey]], None]
    is_waiting: bool = False

    @property
    def room(self) -> int:
        return self.limit.room(self.hand.open)

    def begun(self, deliveries: int, sent_ms: int) -> None:
        self.limit.begun(self.hand.open)

    def ended(self, outcome: str, deliveries: int, sent_ms: int, now_ms: int) -> None:
        self.limit.ended(_SIGNS.get(outcome, Sign.NOTHING), deliveries, sent_ms, now_ms)
        if self.is_waiting:
            self.is_waiting = False
            self.opened((self.queue,))


class AdaptiveLimits:
    """Implements core.dispatch.Limit. `hand`: what workers have of a queue. `opened`: is told of queues that were held
    back, when one of theirs has ended."""

    def __init__(
        self,
        known: KnownRules,
        hand: Callable[[QueueKey], HandCount],
        opened: Callable[[Collection[QueueKey]], None],
    ) -> None:
        self._known = known
        self._hand = hand
        self._opened = opened
        self._adapted: dict[QueueKey, AdaptedQueue] = {}

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        rules = self._known.of(queue).adaptive
        if rules is None:
            self._leave(queue)
            return Allowance(tasks, now_ms)
        adapted = self._adapt(queue, rules, now_ms)
        room = adapted.room
        adapted.is_waiting = not room
        return Allowance(min(tasks, room), now_ms if room else math.inf)

    def sent(self, sent: Slice) -> float:
        """The count of what is in hand has told."""
        return sent.now_ms

    def forget(self, queue: QueueKey) -> None:
        """It goes on to count, whether there are workers or not."""

    def held_back(self, queue: QueueKey, _: int) -> HeldBack | None:
        """None: it lets one more go."""
        adapted = self._adapted.get(queue)
        if adapted is None or self._known.of(queue).adaptive is None or adapted.room:
            return None
        return HeldBack(math.inf, "", Why.ADAPTIVE)

    def tasks(self, queue: QueueKey) -> int | None:
        """How many may be in hand now. None: nothing was sent by it."""
        adapted = self._adapted.get(queue)
        return None if adapted is None else adapted.limit.tasks

    def used(self) -> dict[QueueKey, AdaptiveLimit]:
        """Those by which something has gone."""
        return {queue: adapted.limit for queue, adapted in self._adapted.items()}

    def _adapt(self, queue: QueueKey, rules: AdaptiveRules, now_ms: int) -> AdaptedQueue:
        """The count of a queue of which nothing was in hand may be another one by now."""
        adapted, hand = self._adapted.get(queue), self._hand(queue)
        if adapted is None:
            # What is sent now counts already.
            adapted = AdaptedQueue(queue, AdaptiveLimit(rules, now_ms - 1), hand, self._opened)
            self._adapted[queue] = adapted
        adapted.limit.go_by(rules)
        adapted.hand = hand
        hand.listen(adapted)
        return adapted

    def _leave(self, queue: QueueKey) -> None:
        """It has no adaptive limit any more."""
        if self._adapted and (adapted := self._adapted.pop(queue, None)) is not None:
            self._hand(queue).leave(adapted)
