"""Rows that say what another row has said, which is over or with a worker.

Cassandra keeps no request ids, so a call that is repeated after an unknown outcome writes its tasks again, and so does
an insert that the holder did not answer, who may have taken the row in. While the first row is open the second one is
its copy (core/partition/copies.py). When it is met later still it ends as the first one did, where that is remembered:
a task whose ack was confirmed does not come again, and one that is on to its next attempt does not begin anew beside
it.
Memory is bounded, so this makes duplicates rare and not impossible (guarantee G2).
"""

from __future__ import annotations

import numpy as np

from timerd.core.gates import ALL_MAY, KEPT, DueBatch, End, Fate, Fates, Follow
from timerd.core.partition.settle_log import SettleLog
from timerd.model.rows import FLAG_CARRIED, WRITTEN_BY_HOLDERS
from timerd.model.settle import Carry


class WrittenTwiceGate:
    """The very row may have been met twice and sent once: a holder that carries rows on begins anew after an error, and
    a store that only appends has them twice then. Both may wait before either is sent. They all have an extra."""

    def __init__(self, log: SettleLog) -> None:
        self._log = log

    def judge(self, batch: DueBatch, _: int) -> Fates:
        rows = batch.due.rows
        if not rows.extras:
            return ALL_MAY
        carried = np.flatnonzero(rows.columns["flags"] & FLAG_CARRIED)
        if not len(carried):
            return ALL_MAY
        return dict.fromkeys(carried[self._log.settled.known(rows.select(carried))].tolist(), KEPT)


class RepeatGate:
    """A row whose task has ended at another position, or went on from there, ends as that one did. What a holder wrote
    is no repeat."""

    def __init__(self, log: SettleLog) -> None:
        self._log = log

    def judge(self, batch: DueBatch, _: int) -> Fates:
        due, recent_ends = batch.due, self._log.recent_ends
        if not recent_ends.knows_any(due.digests):
            return ALL_MAY
        written = (due.rows.columns["flags"] & WRITTEN_BY_HOLDERS) != 0
        fates: dict[int, Fate] = {}
        for row in batch.left():
            known = None if written[row] else recent_ends.otherwise(batch.key(row))
            if known is not None:
                fates[row] = Follow(known) if isinstance(known, Carry) else End(known)
        return fates
