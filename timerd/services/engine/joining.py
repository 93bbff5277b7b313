"""Rows that say what a worker has by a row of another partition.

A call that is repeated across the end of a bucket stores its tasks in both, and so does one whose holder did not answer
(guarantee G2). Sent beside the first, such a row would make one delivery of two rows, and deliveries are known by their
ids: an ack would end one of them and leave the other open for good. So it ends as carried to where the first one is.
Within one partition core/copies.py does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from timerd.core.carrying import join
from timerd.core.flights import each_delivery_id, part_of
from timerd.core.partition_machine import PartitionMachine
from timerd.core.taken import Taken
from timerd.model.identity import RowKey
from timerd.model.registers import Place
from timerd.model.rows import WRITTEN_BY_HOLDERS

# Of these delivery ids those that workers have, and where their rows are.
InHand = Callable[[Collection[bytes]], Mapping[bytes, Place]]
# What is about to be sent together: delivery id -> row.
Together = dict[bytes, tuple[Taken, int]]


def apart(machine: PartitionMachine, batch: Taken, in_hand: InHand, together: Together) -> Taken | None:
    """The rows that may be sent; they join `together`. The others have ended."""
    ids = each_delivery_id(batch)
    met = {each: place_of(*together[each]) for each in together.keys() & ids} | dict(in_hand(ids))
    # What a holder wrote is no repeat: it may be where that very delivery waits.
    written = batch.rows.columns["flags"] & WRITTEN_BY_HOLDERS
    places = {n: met[each] for n, each in enumerate(ids) if each in met and not written[n]} if met else {}
    over = {n: place for n, place in places.items() if place.partition != batch.partition}
    for n, place in over.items():
        join(machine.rows, machine.log, place_of(batch, n).key, place)
    if over:
        keep = [n for n in range(len(batch)) if n not in over]
        batch, ids = part_of(batch, np.array(keep, dtype=np.intp)), [ids[n] for n in keep]
    together.update((each, (batch, n)) for n, each in enumerate(ids))
    return batch if ids else None


def place_of(batch: Taken, row: int) -> Place:
    columns = batch.rows.columns
    key = RowKey(int(columns["position_ms"][row]), batch.digests[row], int(columns["version"][row]))
    return Place(batch.partition, key)
