"""Which limit keys draw tokens for a queue that may start few: one for each of the queue's own tokens.

A token of a key that the queue keeps back would lapse, and another instance would miss it meanwhile. So a key draws
when there is a token of the queue for it, and keeps that until it has started, has none before long, has nothing due
any more, or has waited for too long. Then the next key has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from timerd.core.taken import QueueKey

# Whose keeper has not answered by then, or whose token has not begun, does not keep the queue's from another key.
DEADLINE_MS = 400


class DrawStage(Enum):
    """Of a key that draws. OVER: it has none, and gets none before long. ASKED: it will, or has one that begins soon.
    READY: it is its turn."""

    OVER = "over"
    ASKED = "asked"
    READY = "ready"


@dataclass(slots=True)
class _Order:
    """`remaining`: so many more keys may draw. `admitted`: those that do, since then."""

    remaining: int = 0
    admitted: dict[str, float] = field(default_factory=dict)


class DrawOrder:
    """Of one instance. Queues that are not here may start many: all of their keys draw. `boot_ms`: a clock that is
    never set."""

    def __init__(self, stage: Callable[[QueueKey, str], DrawStage], boot_ms: Callable[[], float]) -> None:
        self._stage = stage
        self._boot_ms = boot_ms
        self._orders: dict[QueueKey, _Order] = {}

    def __contains__(self, queue: QueueKey) -> bool:
        return queue in self._orders

    def allow(self, queue: QueueKey, coming: int, free: int) -> int:
        """How many of those that are `free` may be taken now: what a key waits with is not there for another one.
        `coming`: the queue's tokens, also those that have not begun."""
        order, long_ago_ms = self._orders.setdefault(queue, _Order()), self._boot_ms() - DEADLINE_MS
        stages = {key: self._stage(queue, key) for key, since_ms in order.admitted.items() if since_ms > long_ago_ms}
        order.admitted = {key: order.admitted[key] for key, stage in stages.items() if stage is not DrawStage.OVER}
        order.remaining = max(0, coming - len(order.admitted))
        return max(0, free - sum(stage is DrawStage.ASKED for stage in stages.values()))

    def left(self, queue: QueueKey) -> int:
        """So many more of its keys may draw."""
        order = self._orders.get(queue)
        return order.remaining if order is not None else 0

    def forget(self, queue: QueueKey) -> None:
        """It may start many."""
        self._orders.pop(queue, None)

    def draws(self, queue: QueueKey, limit_key: str) -> bool:
        """Whether there is a token of the queue for the key."""
        order = self._orders.get(queue)
        return order is not None and (order.remaining > 0 or limit_key in order.admitted)

    def admit(self, queue: QueueKey, limit_key: str) -> bool:
        """As `draws`; it has it from now on."""
        if not self.draws(queue, limit_key):
            return False
        order = self._orders[queue]
        if limit_key not in order.admitted:
            order.remaining -= 1
            order.admitted[limit_key] = self._boot_ms()
        return True

    def sent(self, queue: QueueKey, limit_key: str, tasks: int) -> None:
        """So many tokens of the queue are used up."""
        if (order := self._orders.get(queue)) is not None:
            of_others = tasks - (limit_key in order.admitted)
            order.admitted.pop(limit_key, None)
            order.remaining = max(0, order.remaining - of_others)
