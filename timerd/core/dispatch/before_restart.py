"""Deliveries that workers bring from before a restart: not open here, but they must not fire while a worker has them.

Nothing is known of such a delivery but its genuine token, so its lease goes by when it was first named here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

from timerd.core.dispatch.brought_back import BroughtBack
from timerd.core.dispatch.hand_count import HandCount
from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey, delivery_id_of

# The default attempt_timeout, for want of the task's own.
HELD_MS = 3_600_000
MAX_HELD = 100_000
_FORGOTTEN_AT_ONCE = 100


@dataclass(slots=True)
class HeldTokens:
    """Of tokens that a worker has in hand. `lost`: those of what it no longer has. `until`: delivery id -> lease
    end, of those from before a restart."""

    lost: list[bytes] = field(default_factory=list)
    until: dict[bytes, int] = field(default_factory=dict)


class BeforeRestart:
    """`hand`: what workers have of a queue and limit key; `brought` counts there what they have from before."""

    def __init__(self, hand: Callable[[QueueKey, str], HandCount]) -> None:
        self.brought = BroughtBack(hand)
        # delivery id -> first named at; version of the latest attempt, that first named at
        self._named: dict[bytes, tuple[int, int, int]] = {}

    def hold(self, delivery_id: bytes, version: int, now_ms: int, until_ms: int, *, may_begin: bool) -> int | None:
        """The lease end; None: the worker has lost it. `may_begin`: it may be one that was not named before."""
        first_ms, latest, since_ms = self._named.get(delivery_id, (now_ms, version, now_ms))
        if delivery_id not in self._named and (not may_begin or len(self._named) >= MAX_HELD):
            return None
        self._named[delivery_id] = first_ms, max(version, latest), now_ms if version > latest else since_ms
        return min(until_ms, first_ms + HELD_MS) if now_ms < first_ms + HELD_MS else None

    def give_up(self, delivery_id: bytes, version: int) -> bool:
        """That attempt is over, and any before it. Whether it was held: a later one still is."""
        if delivery_id not in self._named or self.has_later(delivery_id, version):
            return False
        del self._named[delivery_id]
        self.brought.over(delivery_id)
        return True

    def came_since(self, key: RowKey, since_ms: int) -> bool:
        """Whether a worker has that attempt, and named it first since then."""
        _, latest, latest_ms = self._named.get(delivery_id_of(key.digest, key.version), (-1, -1, -1))
        return latest == key.version and latest_ms >= since_ms

    def has_later(self, delivery_id: bytes, version: int) -> bool:
        """Whether a worker has a later attempt: what an older one says counts no more."""
        return delivery_id in self._named and self._named[delivery_id][1] > version

    def end(self, ids: Iterable[bytes]) -> None:
        """Their tasks are over, wherever they were."""
        if self._named:
            for delivery_id in ids:
                if self._named.pop(delivery_id, None) is not None:
                    self.brought.over(delivery_id)

    def forget(self, now_ms: int) -> None:
        """Named first, forgotten first; a few each time."""
        for delivery_id, (first_ms, *_) in [*islice(self._named.items(), _FORGOTTEN_AT_ONCE)]:
            if first_ms + 2 * HELD_MS <= now_ms:
                del self._named[delivery_id]
                self.brought.over(delivery_id)
