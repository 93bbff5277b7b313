"""While an ack has no answer, and while the row of its delivery is looked for, that row does not fire. Nobody extends
its lease any more, and the store may be slow: where it waits with another instance, that one is told.

It is held back for a while at a time, and anew as long as that lasts: an instance that dies holds nothing back for
longer than it last said, and no row waits for ever for an ack that was lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from timerd.core.dispatch import RedeliveryGuard
from timerd.services.engine.peer_deliveries import PeerDeliveries
from timerd.services.engine.verbs import LOOKED_FOR_MS

# What is still looked for, or not answered, is held back anew so often.
RENEWED_EVERY_S = LOOKED_FOR_MS / 2_000


class Looking:
    """Of one instance. `peers` hear of it, where there are any."""

    def __init__(
        self, redelivery_guard: RedeliveryGuard, clock_ms: Callable[[], int], peers: PeerDeliveries | None = None
    ) -> None:
        self._peers = peers
        self._clock_ms = clock_ms
        self._redelivery_guard = redelivery_guard
        # Acks that have no answer, by delivery id: they wait for their turn, or for others of their message.
        self._unanswered: Counter[bytes] = Counter()
        # Looked for here, and by how many acks; of which of them the others know.
        self._looks: Counter[bytes] = Counter()
        self._told: set[bytes] = set()
        self._is_renewing = False

    def acked(self, delivery_ids: Collection[bytes]) -> None:
        """They are held back until they are `answered`, whether or not they are looked for by then."""
        self._begin(self._unanswered, delivery_ids)

    def answered(self, delivery_ids: Collection[bytes]) -> None:
        """Or nobody waits for the answer any more."""
        self._unanswered.subtract(delivery_ids)
        for delivery_id in delivery_ids:
            if not self._unanswered[delivery_id]:
                del self._unanswered[delivery_id]

    @contextmanager
    def for_row_of(self, delivery_id: bytes, *, is_elsewhere: bool) -> Iterator[None]:
        self._begin(self._looks, (delivery_id,))
        if is_elsewhere:
            self._tell(delivery_id)
        is_found = False
        try:
            yield
            is_found = True
        finally:
            self._leave(delivery_id, is_found=is_found)

    @contextmanager
    def for_rows_here(self, delivery_ids: Sequence[bytes]) -> Iterator[set[bytes]]:
        """As `for_row_of`, of many, of which most wait with this instance. Gives the set of those that are not found
        after all."""
        self._begin(self._looks, delivery_ids)
        missed: set[bytes] = set()
        are_found = False
        try:
            yield missed
            are_found = True
        finally:
            for delivery_id in delivery_ids:
                self._leave(delivery_id, is_found=are_found and delivery_id not in missed)

    def _begin(self, acks: Counter[bytes], delivery_ids: Collection[bytes]) -> None:
        acks.update(delivery_ids)
        self._hold(delivery_ids)
        if not self._is_renewing:
            self._renew_later()

    def _hold(self, delivery_ids: Collection[bytes]) -> None:
        self._redelivery_guard.hold(dict.fromkeys(delivery_ids, self._clock_ms() + LOOKED_FOR_MS))

    def _renew_later(self) -> None:
        self._is_renewing = bool(self._looks or self._unanswered)
        if self._is_renewing:
            asyncio.get_running_loop().call_later(RENEWED_EVERY_S, self._renew)

    def _renew(self) -> None:
        self._hold(self._looks.keys() | self._unanswered.keys())
        for delivery_id in list(self._told):
            self._tell(delivery_id)
        self._renew_later()

    def _leave(self, delivery_id: bytes, *, is_found: bool) -> None:
        """An ack may be said again by another stream while it is looked for: the last one ends it."""
        self._looks[delivery_id] -= 1
        if self._looks[delivery_id]:
            return
        del self._looks[delivery_id]
        is_told = delivery_id in self._told
        self._told.discard(delivery_id)
        # After an error of the store the row still waits, for the worker says it once more.
        if is_found:
            self._redelivery_guard.forget(delivery_id)
            if is_told and self._peers is not None:
                self._peers.look_for(delivery_id, 0)

    def is_acked(self, delivery_id: bytes) -> bool:
        """By an ack that is not answered yet."""
        return delivery_id in self._looks or delivery_id in self._unanswered

    def gave_away(self) -> None:
        """Rows of this instance are another one's from now on, perhaps some that are looked for."""
        for delivery_id in self._looks.keys() - self._told:
            self._tell(delivery_id)

    def _tell(self, delivery_id: bytes) -> None:
        self._told.add(delivery_id)
        if self._peers is not None:
            self._peers.look_for(delivery_id, LOOKED_FOR_MS)

    def told(self, delivery_id: bytes, hold_ms: int, now_ms: int) -> None:
        """Another instance looks for it, or does so no longer."""
        if hold_ms:
            self._redelivery_guard.hold({delivery_id: now_ms + hold_ms})
        else:
            self._redelivery_guard.forget(delivery_id)
