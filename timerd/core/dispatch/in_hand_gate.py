"""Rows that say what a worker has by a row of another partition.

A call that is repeated across the end of a bucket stores its tasks in both, and so does one whose holder did not answer
(guarantee G2). Sent beside the first, such a row would make one delivery of two rows, and deliveries are known by their
ids: an ack would end one of them and leave the other open for good. So it ends as requeued to where the first one is.
Within one partition core/partition/copies.py does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from timerd.core.dispatch.flights import each_delivery_id
from timerd.core.gates import DueBatch, Fate, Fates, Follow
from timerd.model.registers import Place
from timerd.model.rows import WRITTEN_BY_HOLDERS
from timerd.model.settle import Carry, CarryReason

# Of these delivery ids those that workers have, and where their rows are.
InHand = Callable[[Collection[bytes]], Mapping[bytes, Place]]


class InHandGate:
    """For what is taken together: it knows what of that may be sent. What a holder wrote is no repeat: it may be where
    that very delivery waits. Behind it is the gate of ordering keys alone, for it takes as sent what it lets pass."""

    def __init__(self, in_hand: InHand) -> None:
        self._in_hand = in_hand
        # What is about to be sent, by delivery id.
        self._together: dict[bytes, Place] = {}

    def judge(self, batch: DueBatch, _: int) -> Fates:
        ids = each_delivery_id(batch.due)
        together = self._together
        met = {each: together[each] for each in together.keys() & ids} | dict(self._in_hand(ids))
        fates = self._met(batch, ids, met) if met else {}
        partition = batch.due.partition
        sent = (row for row in batch.left() if row not in fates)
        together.update((ids[row], Place(partition, batch.key(row))) for row in sent)
        return fates

    def _met(self, batch: DueBatch, ids: list[bytes], met: Mapping[bytes, Place]) -> dict[int, Fate]:
        written = batch.due.rows.columns["flags"] & WRITTEN_BY_HOLDERS
        fates: dict[int, Fate] = {}
        for row in batch.left():
            place = met.get(ids[row])
            if place is not None and not written[row] and place.partition != batch.due.partition:
                to = place.partition, place.key.position_ms, place.key.version
                fates[row] = Follow(Carry(batch.key(row), CarryReason.GUARD, *to))
        return fates
