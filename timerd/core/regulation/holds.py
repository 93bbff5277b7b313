"""Limits that are held: a handler was told to wait by what it has asked, so nothing starts by its limit before that.

One answer of 429 holds the limit, not one task: all queues that list it wait, and none of their attempts is used up. It
is known by the instance that had sent the delivery, and forgotten with it: who is held no more asks, and is told again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from timerd.core.dispatch import Allowance, Slice
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.limits import HeldBack, Why
from timerd.core.taken import QueueKey
from timerd.model.keeping import LimitLabels
from timerd.model.pushback import Pushback

# So many limits are told apart by their counts.
MOST_COUNTED = 200


class Holds:
    """Implements core.dispatch.Limit. `pushed_back`: how many deliveries came back to be held."""

    def __init__(self, known: KnownRules) -> None:
        self._known = known
        self._until_ms: dict[LimitLabels, int] = {}
        self.pushed_back: Counter[LimitLabels] = Counter()

    def hold(self, queue: QueueKey, throttle: Pushback, now_ms: int) -> str:
        """A delivery of the queue was throttled. Returns why nothing is held, in a sentence; empty: it is held."""
        if throttle.limit and throttle.limit not in self._known.of(queue).limits:
            return (
                f"The handler was throttled by the limit {throttle.limit!r}, which the queue {queue.queue!r} does not "
                "list, so the attempt has failed: list it (timerd queues set), or name none to hold the queue."
            )
        labels = labels_of(queue, throttle.limit)
        if labels not in self._until_ms:
            self._until_ms = {each: at_ms for each, at_ms in self._until_ms.items() if at_ms > now_ms}
        self._until_ms[labels] = max(self._until_ms.get(labels, 0), now_ms + throttle.after_ms)
        if labels in self.pushed_back or len(self.pushed_back) < MOST_COUNTED:
            self.pushed_back[labels] += 1
        return ""

    def held_until_ms(self, labels: LimitLabels, now_ms: int) -> int | None:
        """Of one limit. None: it is not held."""
        until_ms = self._until_ms.get(labels, 0)
        return until_ms if until_ms > now_ms else None

    def held_back(self, queue: QueueKey, now_ms: int) -> HeldBack | None:
        """By the limit that does so for longest. None: none of the queue's is held."""
        if not self._until_ms:
            return None
        each = ((self.held_until_ms(labels, now_ms), labels.limit) for labels in self._of(queue))
        return max((HeldBack(ms, limit, Why.THROTTLED) for ms, limit in each if ms is not None), default=None)

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        held = self.held_back(queue, now_ms) if self._until_ms else None
        return Allowance(tasks, now_ms) if held is None else Allowance(0, held.until_ms)

    def sent(self, sent: Slice) -> float:
        return sent.now_ms

    def forget(self, queue: QueueKey) -> None:
        """It goes on to hold, whether there are workers or not."""

    def _of(self, queue: QueueKey) -> Iterator[LimitLabels]:
        yield labels_of(queue, "")
        for limit in self._known.of(queue).limits:
            yield labels_of(queue, limit)


def labels_of(queue: QueueKey, limit: str) -> LimitLabels:
    """`limit`: a name that the queue lists; empty: its own."""
    return LimitLabels(queue.namespace, "" if limit else queue.queue, limit)
