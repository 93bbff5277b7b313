"""How do many deliveries stand that are not open where they were sent from? One step of core/protocol/lookup.py for all
of one partition at once. What is out of the ordinary (moved, marked, parked, written again) goes the long way,
each by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from timerd.core.protocol.procedures import Ending, Find, FindSettledMany, LookAt, Procedure
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.settle import Outcome
from timerd.model.storage import Found, Look, Looked

# How else a row may stand is told by more than its record.
PLAIN = frozenset((Outcome.ACKED, Outcome.CARRIED, Outcome.DEAD, Outcome.EXPIRED, Outcome.CANCELLED, Outcome.PURGED))


def look_at_many(partition: Partition, keys: Sequence[RowKey]) -> Procedure[list[Ending | None]]:
    """How each of the rows stands by its record; one without an outcome waits, or is open. None: it goes the long
    way."""
    at = [(key.position_ms, key.digest) for key in keys]
    looked: Looked = yield LookAt(Look([(partition, at)], [key.digest for key in keys]))
    is_plain = [
        bare and not key.version and key.digest not in looked.moved
        for bare, key in zip(looked.bare[0], keys, strict=True)
    ]
    others = [not plain and key.digest not in looked.moved for plain, key in zip(is_plain, keys, strict=True)]
    if any(others):
        found: list[Found] = yield Find(partition, list(compress(at, others)))
        numbers = list(compress(range(len(keys)), others))
        for n, there in zip(numbers, found, strict=True):
            is_plain[n] = not there.marks and keys[n].version in there.rows.columns["version"].tolist()
    endings: list[Ending] = yield FindSettledMany(partition, keys)
    return [
        ending if plain and (ending.outcome is None or ending.outcome in PLAIN) else None
        for plain, ending in zip(is_plain, endings, strict=True)
    ]
