"""Deliveries that workers brought from before a restart, counted with those of their queues until their lease is over.

A token does not say of which queue its task is, so somebody looks that up and says it. Until that is done, and as long
as workers may still be on their way back, it is not known how much of a queue is in hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from timerd.core.dispatch.hand_count import HandCount
from timerd.core.taken import QueueKey
from timerd.model.registers import Place


@dataclass(slots=True)
class _Brought:
    """`counts`: its lease is not over."""

    queue: QueueKey
    limit_key: str
    until_ms: int
    counts: bool = False


class BroughtBack:
    """By delivery id. `hand`: what workers have of a queue, and of a limit key of it."""

    def __init__(self, hand: Callable[[QueueKey, str], HandCount]) -> None:
        self._hand = hand
        self._known: dict[bytes, _Brought] = {}
        # Of those that nobody has looked up: where the row was, and the end of the lease.
        self._unplaced: dict[bytes, tuple[Place, int]] = {}
        # No lease of those that count is over before then.
        self._look_ms = math.inf
        self._heard_by_ms = -math.inf

    def begin(self, heard_by_ms: int) -> None:
        """By then workers have come back, where they do."""
        self._heard_by_ms = heard_by_ms

    @property
    def heard_by_ms(self) -> float:
        """By then workers have come back, where they do."""
        return self._heard_by_ms

    def unplaced(self) -> list[tuple[bytes, Place]]:
        """Those of which nobody knows the queue."""
        return [(delivery_id, place) for delivery_id, (place, _) in self._unplaced.items()]

    def doubt_ms(self, now_ms: int) -> float:
        """Until when nobody knows how much is in hand; infinite: until those that came are looked up."""
        return math.inf if self._unplaced and now_ms >= self._heard_by_ms else max(now_ms, self._heard_by_ms)

    def hold(self, delivery_id: bytes, place: Place, until_ms: int) -> None:
        """A worker has it."""
        known = self._known.get(delivery_id)
        if known is None:
            self._unplaced[delivery_id] = place, until_ms
            return
        known.until_ms = until_ms
        self._look_ms = min(self._look_ms, until_ms)
        if not known.counts:
            known.counts = True
            self._hand(known.queue, known.limit_key).bring()

    def place(self, delivery_id: bytes, queue: QueueKey | None, limit_key: str = "") -> None:
        """It is of that queue and key. None: nobody knows, for its row is gone."""
        found = self._unplaced.pop(delivery_id, None)
        if found is not None and queue is not None:
            self._known[delivery_id] = _Brought(queue, limit_key, found[1])
            self.hold(delivery_id, *found)

    def over(self, delivery_id: bytes) -> None:
        """No worker has it any more."""
        self._unplaced.pop(delivery_id, None)
        known = self._known.pop(delivery_id, None)
        if known is not None:
            self._end(known)

    def lapse(self, now_ms: int) -> None:
        """Leases that are over: what comes again counts as all that is sent."""
        if now_ms < self._look_ms:
            return
        for known in self._known.values():
            if known.until_ms <= now_ms:
                self._end(known)
        self._look_ms = min((known.until_ms for known in self._known.values() if known.counts), default=math.inf)

    def next_ms(self) -> float:
        """When to call `lapse`."""
        return self._look_ms

    def _end(self, known: _Brought) -> None:
        if known.counts:
            known.counts = False
            self._hand(known.queue, known.limit_key).bring_less()
