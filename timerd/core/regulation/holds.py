"""Limits that are held: a handler was told to wait by what it has asked, so nothing starts by its limit before that.

One answer of 429 holds the limit, not one task: all queues that list it wait, and none of their attempts is used up. It
is known by the instance that had sent the delivery, and forgotten with it: who is held no more asks, and is told again.
Where a customer was told to wait, and not all of them, it is the limit key of that one which is held in the queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator

from timerd.core.dispatch import Allowance, Slice
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.limits import HeldBack, Why
from timerd.core.taken import QueueKey
from timerd.model.keeping import LimitLabels
from timerd.model.named_limits import LimitName
from timerd.model.pushback import Pushback

# So many limits are told apart by their counts.
MOST_COUNTED = 200
# Keys that are held before those are looked for that are no more.
SLACK_KEYS = 1_024
# Holds, of a queue or of the limit of that name, a limit key until then, now; whether it could: the keys of the queue
# may not be told apart.
HoldsKey = Callable[[QueueKey, str, str, int, int], bool]


class KeyHolds:
    """Limit keys that are held, of queues or of limits."""

    def __init__(self) -> None:
        self._until_ms: dict[tuple[Hashable, str], int] = {}
        self._prune_at = SLACK_KEYS

    def hold(self, of: Hashable, limit_key: str, until_ms: int, now_ms: int) -> None:
        """Of several words the latest instant counts."""
        held = of, limit_key
        self._until_ms[held] = max(self._until_ms.get(held, 0), until_ms)
        if len(self._until_ms) > self._prune_at:
            self._until_ms = {each: at_ms for each, at_ms in self._until_ms.items() if at_ms > now_ms}
            self._prune_at = 2 * len(self._until_ms) + SLACK_KEYS

    def until_ms(self, of: Hashable, limit_key: str, now_ms: int) -> int | None:
        """None: it is not held."""
        until_ms = self._until_ms.get((of, limit_key), 0) if self._until_ms else 0
        return until_ms if until_ms > now_ms else None

    def keys_of(self, of: Hashable) -> list[str]:
        """Those that are held, and some that were."""
        return [limit_key for owner, limit_key in self._until_ms if owner == of]


class Holds:
    """Implements core.dispatch.Limit. `pushed_back`: how many deliveries came back to be held."""

    def __init__(self, known: KnownRules) -> None:
        self._known = known
        self._holds_key: HoldsKey = lambda _, __, ___, ____, _____: False
        self._until_ms: dict[LimitLabels, int] = {}
        self.pushed_back: Counter[LimitLabels] = Counter()

    def holds_keys_by(self, holds_key: HoldsKey) -> None:
        """Where the keys of queues are told apart."""
        self._holds_key = holds_key

    def hold(self, queue: QueueKey, limit_key: str, throttle: Pushback, now_ms: int) -> str:
        """A delivery of the queue and key was throttled. Returns why nothing is held, in a sentence; empty: it is
        held."""
        if throttle.limit and throttle.limit not in self._known.of(queue).limits:
            return (
                f"The handler was throttled by the limit {throttle.limit!r}, which the queue {queue.queue!r} does not "
                "list, so the attempt has failed: list it (timerd queues set), or name none to hold the queue."
            )
        labels, until_ms = labels_of(queue, throttle.limit), now_ms + throttle.after_ms
        by_key = throttle.by_key or self._known.is_keyed(LimitName(queue.namespace, throttle.limit))
        if not (by_key and self._holds_key(queue, throttle.limit, limit_key, until_ms, now_ms)):
            self._hold(labels, until_ms, now_ms)
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

    def _hold(self, labels: LimitLabels, until_ms: int, now_ms: int) -> None:
        if labels not in self._until_ms:
            self._until_ms = {each: at_ms for each, at_ms in self._until_ms.items() if at_ms > now_ms}
        self._until_ms[labels] = max(self._until_ms.get(labels, 0), until_ms)

    def _of(self, queue: QueueKey) -> Iterator[LimitLabels]:
        yield labels_of(queue, "")
        for limit in self._known.of(queue).limits:
            yield labels_of(queue, limit)


def labels_of(queue: QueueKey, limit: str) -> LimitLabels:
    """`limit`: a name that the queue lists; empty: its own."""
    return LimitLabels(queue.namespace, "" if limit else queue.queue, limit)
