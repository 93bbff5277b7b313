"""Deliveries that were given back unbegun: the same attempt is sent again as it was, and then has a token of its own.

So what is said by the token of before is said of a delivery that is over, not of the one that another worker has now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from timerd.model.ack_token import MOST_SENDINGS, NamedDelivery

# More are not told apart: from then on all that is sent has such a token, which costs more to make and to read.
MOST_KEPT = 100_000


class GivenBack:
    """Goes by short delivery ids."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        # Of those that wait to be sent again: the delivery that is over.
        self._over: dict[bytes, NamedDelivery] = {}
        self._is_full = False
        self._number = 0

    def __bool__(self) -> bool:
        return self._is_full or bool(self._over)

    def add(self, delivery_id: bytes, sending: NamedDelivery) -> None:
        """This delivery is over; its row waits as it was."""
        if len(self._over) >= self._most:
            del self._over[next(iter(self._over))]
            self._is_full = True
        self._over[delivery_id] = sending

    def is_over(self, delivery_id: bytes, sending: NamedDelivery) -> bool:
        """Whether this delivery was given back, and nobody has its row since."""
        over = self._over.get(delivery_id)
        return over is not None and over[:2] == sending[:2]

    def next_number(self, ids: Collection[bytes]) -> int:
        """The number of what is sent together now: one of its own where some of it was given back, else none (0)."""
        if not self._is_full and self._over.keys().isdisjoint(ids):
            return 0
        self.forget(ids)
        self._number = self._number % MOST_SENDINGS + 1
        return self._number

    def forget(self, ids: Iterable[bytes]) -> None:
        """They do not wait any more."""
        for delivery_id in ids:
            self._over.pop(delivery_id, None)
