"""Which partitions this instance holds, and when: the bucket that fires, the one that is loaded ahead, missed ones at a
bounded rate, and the backlogs of queues that have workers (protocol section 4 "after an outage", guarantee G14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.model.storage import BucketEntry

# Missed buckets are loaded one after the other beside the current ones, oldest first, and so many are worked off at a
# time. Those with few rows left hold up no other: most of an outage's buckets are small, and each takes seconds to be
# finished.
MISSED_AT_ONCE, MISSED_OPEN = 2, 16
# Buckets that may still be finishing beside the current one without counting as missed.
RECENT_MS = 2 * BUCKET_MS
# So many backlog buckets of a queue are open at a time: a finished one makes room only seconds after its last task.
BACKLOG_AT_ONCE = 16
Mine = Callable[[Partition], bool]


def everything(_: Partition) -> bool:
    """Who is alone holds all there is."""
    return True


def nothing(_: Partition) -> bool:
    """At the start."""
    return False


@dataclass(frozen=True, slots=True)
class InstanceMachine:
    """`look_ahead_ms`: how long before its start a bucket is loaded."""

    look_ahead_ms: int

    def wanted(
        self,
        now_ms: int,
        catalogue: Sequence[BucketEntry],
        scopes: Mapping[int, Sequence[BucketEntry]],
        mine: Mine = everything,
        is_loaded: Mine = nothing,
        is_small: Mine = everything,
    ) -> list[Partition]:
        """`catalogue`: time buckets, oldest first; `scopes`: backlog buckets of each queue that has workers; `mine`:
        what is placed here, and not done yet; `is_loaded`, `is_small`: and has few rows left."""
        open_now = [e for e in catalogue if not e.finished and e.bucket_ms <= now_ms + self.look_ahead_ms]
        recent_ms = bucket_of(now_ms) - RECENT_MS
        missed = [e for e in open_now if e.bucket_ms < recent_ms]
        recent = [p for e in open_now if e.bucket_ms >= recent_ms for p in _own(e, mine)]
        return [*_one_by_one(missed, mine, is_loaded, is_small), *recent, *self.backlog(scopes, mine)]

    def is_near(self, partition: Partition, now_ms: int) -> bool:
        """Whether rows just written there must be held at once."""
        return partition.scope == TIME_SCOPE and partition.bucket_ms <= now_ms + self.look_ahead_ms

    def is_missed(self, partition: Partition, now_ms: int) -> bool:
        """Its load is throttled, so that on-time work keeps its share."""
        return partition.bucket_ms < bucket_of(now_ms) - RECENT_MS

    def expired(self, now_ms: int, history_ms: int, catalogue: Iterable[BucketEntry]) -> list[Partition]:
        """Finished long enough ago to be dropped as a whole, and no earlier time bucket may still carry rows there: a
        carried row that is written again is checked against the settle records of its place (carry.pml, K3)."""
        known = list(catalogue)
        open_ms = min((e.bucket_ms for e in known if e.scope == TIME_SCOPE and not e.finished), default=now_ms)
        last_ms = min(open_ms, now_ms - history_ms - BUCKET_MS + 1)
        return [p for e in known if e.finished and e.bucket_ms < last_ms for p in shards_of(e)]

    def backlog(self, scopes: Mapping[int, Sequence[BucketEntry]], mine: Mine = everything) -> list[Partition]:
        """The oldest buckets of each queue."""
        unfinished = [[e for e in entries if not e.finished] for entries in scopes.values()]
        return [p for entries in unfinished for p in _oldest(entries, BACKLOG_AT_ONCE, mine)]


def _oldest(entries: Iterable[BucketEntry], buckets: int, mine: Mine) -> list[Partition]:
    """Of so many buckets that have something of this instance."""
    return [p for found in islice(_owned(entries, mine), buckets) for p in found]


def _one_by_one(missed: Iterable[BucketEntry], mine: Mine, is_loaded: Mine, is_small: Mine) -> list[Partition]:
    """Up to the first that is not loaded, or the last of as many as are worked off at a time."""
    wanted: list[Partition] = []
    large = 0
    for own in islice(_owned(missed, mine), MISSED_OPEN):
        wanted += own
        large += not all(map(is_small, own))
        if large == MISSED_AT_ONCE or not all(map(is_loaded, own)):
            break
    return wanted


def _owned(entries: Iterable[BucketEntry], mine: Mine) -> Iterator[list[Partition]]:
    return (found for entry in entries if (found := _own(entry, mine)))


def _own(entry: BucketEntry, mine: Mine) -> list[Partition]:
    return [p for p in shards_of(entry) if mine(p)]


def shards_of(entry: BucketEntry) -> list[Partition]:
    shards = (*range(entry.shard_count), *entry.key_shards)
    return [Partition(entry.scope, entry.bucket_ms, shard) for shard in shards]
