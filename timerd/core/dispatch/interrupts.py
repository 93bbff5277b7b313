"""Deliveries on which the work is for nothing: their workers are told at once, and again with each sign of life.

So one message that is lost costs no more than the time to the next. What a worker says of such a delivery means what it
always does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum

import numpy as np

from timerd.core.dispatch.flights import Batch, Flights
from timerd.core.taken import Taken
from timerd.model.identity import RowKey, delivery_id_of, short_id

# More that were stopped are not kept in mind: the first of them are told once.
MOST_KEPT = 100_000
FAILED, INTERRUPTED = "failed", "interrupted"


class InterruptReason(IntEnum):
    """As in the proto."""

    CANCELLED = 1
    EXPIRED = 2
    LOST = 3


# The worker, what it has, and why it is to end.
Told = Callable[[int, Taken, InterruptReason], None]


def nobody_is_told(_: int, __: Taken, ___: InterruptReason) -> None:
    """Of an instance that serves no workers."""


class Interrupts:
    """Of one instance, by short delivery ids. Those in it were cancelled while a worker had them."""

    def __init__(self, flights: Flights) -> None:
        self._flights = flights
        self._stopped: dict[bytes, InterruptReason] = {}
        self._tell: Told = nobody_is_told

    def __bool__(self) -> bool:
        return bool(self._stopped)

    def __contains__(self, delivery_id: object) -> bool:
        return delivery_id in self._stopped

    def listen(self, tell: Told) -> None:
        """`tell` hears of each once."""
        self._tell = tell

    def cancelled(self, key: RowKey) -> None:
        """The task of this row was, and a worker has a delivery of it, or may come back with it."""
        delivery_id = delivery_id_of(key.digest, key.version)
        if self.note(delivery_id, InterruptReason.CANCELLED) and (found := self._flights.find(delivery_id)) is not None:
            self._tell_of(found[0], [found[1]], InterruptReason.CANCELLED)

    def note(self, delivery_id: bytes, reason: InterruptReason) -> bool:
        """It is told with the next sign of life. False: it was noted before."""
        if (short := short_id(delivery_id)) in self._stopped:
            return False
        if len(self._stopped) >= MOST_KEPT:
            del self._stopped[next(iter(self._stopped))]
        self._stopped[short] = reason
        return True

    def over(self, batch: Batch, rows: Sequence[int], now_ms: int) -> None:
        """These attempts were ended from here: nobody spoke for them, or their time was over. Of what was cancelled
        their worker knows."""
        others = [row for row in rows if batch.ids[row] not in self._stopped]
        expired = {row for row in others if 0 < batch.taken.rows.deadline_ms(row) <= now_ms}
        self._tell_of(batch, sorted(expired), InterruptReason.EXPIRED)
        self._tell_of(batch, [row for row in others if row not in expired], InterruptReason.LOST)

    def among(self, delivery_ids: Collection[bytes]) -> dict[bytes, InterruptReason]:
        """Those of them that are to end, and why."""
        if not self._stopped:
            return {}
        return {each: self._stopped[short] for each in delivery_ids if (short := short_id(each)) in self._stopped}

    def failed_as(self, batch: Batch, row: int) -> str:
        """How the attempt is counted: one that was for nothing says nothing about its queue."""
        return INTERRUPTED if batch.ids[row] in self._stopped else FAILED

    def forget(self, ids: Iterable[bytes]) -> None:
        """They are settled."""
        for short in ids:
            self._stopped.pop(short, None)

    def _tell_of(self, batch: Batch, rows: Sequence[int], reason: InterruptReason) -> None:
        if rows:
            self._tell(batch.worker, batch.taken.part(np.array(rows, dtype=np.intp)), reason)
