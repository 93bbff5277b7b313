"""The limits that go by rules are asked of queues that have any. Most queues have none, and pay one look-up a slice."""

from __future__ import annotations

from collections.abc import Iterable

from timerd.core.dispatch import Allowance, Limit, Limits, Slice
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.taken import QueueKey


class RuledQueues:
    """Implements core.dispatch.Limit by others. Rules that were taken away are known as empty ones: so each limit that
    has counted something of a queue hears that it has none of it any more."""

    def __init__(self, known: KnownRules, limits: Iterable[Limit]) -> None:
        self._known = known
        self._limits = Limits(limits)

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        if self._known.find(queue) is None:
            return Allowance(tasks, now_ms)
        return self._limits.allow(queue, tasks, now_ms)

    def sent(self, sent: Slice) -> float:
        return sent.now_ms if self._known.find(sent.queue) is None else self._limits.sent(sent)

    def forget(self, queue: QueueKey) -> None:
        self._limits.forget(queue)
