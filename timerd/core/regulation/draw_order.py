"""Which limit keys of a queue draw tokens now: as many as its own limits let start, in the order in which they wait.

A token of a key that the queue holds back would be drawn for nothing, and another instance would miss it meanwhile.
So the queue's own tokens come first, and for each of them one key asks; where its keeper has none, the next one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from timerd.core.regulation.limits import UNBOUNDED
from timerd.core.taken import QueueKey

# So often it is looked at which keys have used what they have drawn.
LOOK_MS = 5


@dataclass(slots=True)
class _Order:
    """`admitted`: keys that have asked, or have what they asked for. `later`: those whose turn is to come."""

    admitted: dict[str, None] = field(default_factory=dict)
    later: dict[str, None] = field(default_factory=dict)
    looked_ms: float = 0.0


class DrawOrder:
    """`most`: how many a queue may start by its own tokens, those that begin soon among them. `is_drawing`: whether a
    key has asked and was not answered, or has a token that it has not used."""

    def __init__(self, most: Callable[[QueueKey], int], is_drawing: Callable[[QueueKey, str], bool]) -> None:
        self._most = most
        self._is_drawing = is_drawing
        self._orders: dict[QueueKey, _Order] = {}

    def most(self, queue: QueueKey, tasks: int) -> int:
        """Of so many that are due."""
        return min(tasks, self._most(queue))

    def admits(self, queue: QueueKey, limit_key: str, now_ms: float) -> bool:
        """Whether the key draws now; else when it is its turn."""
        most = self._most(queue)
        if most >= UNBOUNDED:
            self._orders.pop(queue, None)
            return True
        order = self._orders.setdefault(queue, _Order())
        if limit_key in order.admitted:
            return True
        if len(order.admitted) >= most and now_ms >= order.looked_ms + LOOK_MS:
            self._look(queue, order, now_ms)
        if len(order.admitted) >= most:
            order.later[limit_key] = None
            return False
        order.later.pop(limit_key, None)
        order.admitted[limit_key] = None
        return True

    def goes_on(self, queue: QueueKey, limit_key: str) -> bool:
        """Whether a key that was answered draws from its next limit."""
        order = self._orders.get(queue)
        return order is None or limit_key in order.admitted

    def next(self, queue: QueueKey, now_ms: float) -> Iterator[str]:
        """Keys whose turn it is by now."""
        order = self._orders.get(queue)
        if order is None or not order.later:
            return
        most = self._most(queue)
        self._look(queue, order, now_ms)
        while order.later and len(order.admitted) < most:
            limit_key = next(iter(order.later))
            del order.later[limit_key]
            order.admitted[limit_key] = None
            yield limit_key

    def forget(self, queue: QueueKey) -> None:
        """It goes by other rules: what waits says so again."""
        self._orders.pop(queue, None)

    def _look(self, queue: QueueKey, order: _Order, now_ms: float) -> None:
        order.admitted = {key: None for key in order.admitted if self._is_drawing(queue, key)}
        order.looked_ms = now_ms
