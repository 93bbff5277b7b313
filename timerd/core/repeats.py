"""Rows that say what another row has said, which is over or with a worker.

Cassandra keeps no request ids, so a call that is repeated after an unknown outcome writes its tasks again, and so does
an insert that the holder did not answer, who may have taken the row in. While the first row is open the second one is
its copy (core/copies.py). When it is met later still it ends as the first one did, where that is remembered: a task
whose ack was confirmed does not come again, and one that is on to its next attempt does not begin anew beside it.
Memory is bounded, so this makes duplicates rare and not impossible (guarantee G2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from timerd.core.copies import Over
from timerd.core.rows_in_hand import RowsInHand
from timerd.core.settle_log import SettleLog
from timerd.model.identity import RowKey, generation_of
from timerd.model.rows import FLAG_CARRIED, WRITTEN_BY_HOLDERS, RowGroup
from timerd.model.settle import Carry


def pass_ended(log: SettleLog, rows: RowGroup, digests: Sequence[bytes], over: Over) -> None:
    """Of rows that are about to be sent those whose task has ended at another position end so too, and join `over`."""
    pass_written_twice(log, rows, digests, over)
    if not log.lately.knows_any(digests):
        return
    written = (rows.columns["flags"] & WRITTEN_BY_HOLDERS) != 0
    for n, key in enumerate(rows.keys()):
        if n not in over and not written[n] and _ends(key, log):
            over[n] = None


def pass_written_twice(log: SettleLog, rows: RowGroup, _digests: Sequence[bytes], over: Over) -> None:
    """The very row may have been met twice and sent once: whoever carries rows on begins anew after an error, and a
    store that only appends has them twice then. Both may wait before either is sent. They all have an extra."""
    if not rows.extras:
        return
    carried = np.flatnonzero(rows.columns["flags"] & FLAG_CARRIED)
    if len(carried):
        over.update(dict.fromkeys(carried[log.settled.known(rows.select(carried))].tolist()))


def _ends(key: RowKey, log: SettleLog) -> bool:
    known = log.lately.otherwise(key)
    if isinstance(known, Carry):
        log.follow([known._replace(source=key)])
    elif known is not None:
        log.end([(key, known)])
    return known is not None


def is_said_by_open(rows: RowsInHand, key: RowKey) -> bool:
    """Whether a worker has the task of a row that is not sent, by another row that says the same."""
    found = rows.open_key(key.digest)
    return found is not None and generation_of(found.version) == generation_of(key.version)
