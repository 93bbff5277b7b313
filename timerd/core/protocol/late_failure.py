"""A delivery that fails after its row was carried on (at the lag limit, at a stop): the row that waits in its place
for the lease to end goes on as the next attempt or ends, as the row that was sent would have done.
"""

from __future__ import annotations

from timerd.core.protocol.lookup import Located
from timerd.core.protocol.procedures import Find, Procedure
from timerd.core.taken import Again
from timerd.model.identity import RowKey, next_attempt
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.storage import Found


def waits_for(here: Located, sent: RowKey) -> bool:
    """Whether the row that was found stands for this delivery. The row of a later attempt has no lease, so what an
    older attempt says, or says twice, finds nothing."""
    if here.rows is None or here.ending.outcome is not None:
        return False
    version = here.place.key.version
    is_leased = here.rows.extra_of(0).lease_until_ms > 0
    return version == sent.version or (is_leased and version == next_attempt(sent.version))


def free_position(place: Partition, again: Again) -> Procedure[int]:
    """Where the next attempt may live: the row may have waited at that very instant before, and has ended there. Nor
    in an earlier bucket than the waiting row's: from there it might be carried to a lease's end in this one, which only
    the holder of this one knows it has waited for before."""
    position_ms, version = max(again.position_ms, place.bucket_ms), next_attempt(again.key.version)
    while True:
        target = Partition(TIME_SCOPE, bucket_of(position_ms), place.shard)
        found: Found = (yield Find(target, [(position_ms, again.key.digest)]))[0]
        if version not in found.rows.columns["version"].tolist():
            return position_ms
        position_ms += 1
