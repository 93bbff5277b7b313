"""While the row of a delivery that was acked is looked for, it does not fire. Nobody extends its lease any more, and
the store may be slow: where it waits with another instance, that one is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from timerd.services.engine.held_back import HeldBack
from timerd.services.engine.verbs import LOOKED_FOR_MS


class Looking:
    """Of one instance. `tell` the others for how long; 0: no longer."""

    def __init__(self, held_back: HeldBack) -> None:
        self.tell: Callable[[bytes, int], None] = lambda _delivery_id, _hold_ms: None
        self._held_back = held_back
        # Looked for here, and by how many acks; of which of them the others know.
        self._looks: Counter[bytes] = Counter()
        self._told: set[bytes] = set()

    @contextmanager
    def for_row_of(self, delivery_id: bytes, now_ms: int, *, is_elsewhere: bool) -> Iterator[None]:
        self._held_back.hold({delivery_id: now_ms + LOOKED_FOR_MS})
        self._looks[delivery_id] += 1
        if is_elsewhere:
            self._tell(delivery_id)
        is_found = False
        try:
            yield
            is_found = True
        finally:
            self._leave(delivery_id, is_found=is_found)

    @contextmanager
    def for_rows_here(self, delivery_ids: Sequence[bytes], now_ms: int) -> Iterator[None]:
        """As `for_row_of`, of many that wait with this instance."""
        self._held_back.hold(dict.fromkeys(delivery_ids, now_ms + LOOKED_FOR_MS))
        self._looks.update(delivery_ids)
        are_found = False
        try:
            yield
            are_found = True
        finally:
            for delivery_id in delivery_ids:
                self._leave(delivery_id, is_found=are_found)

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
            self._held_back.forget(delivery_id)
            if is_told:
                self.tell(delivery_id, 0)

    def is_acked(self, delivery_id: bytes) -> bool:
        """By an ack that is not answered yet."""
        return delivery_id in self._looks

    def gave_away(self) -> None:
        """Rows of this instance are another one's from now on, perhaps some that are looked for."""
        for delivery_id in self._looks.keys() - self._told:
            self._tell(delivery_id)

    def _tell(self, delivery_id: bytes) -> None:
        self._told.add(delivery_id)
        self.tell(delivery_id, LOOKED_FOR_MS)

    def told(self, delivery_id: bytes, hold_ms: int, now_ms: int) -> None:
        """Another instance looks for it, or does so no longer."""
        if hold_ms:
            self._held_back.hold({delivery_id: now_ms + hold_ms})
        else:
            self._held_back.forget(delivery_id)
