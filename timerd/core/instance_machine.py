"""Which partitions this instance holds, and when: the bucket that fires, the one that is loaded ahead, missed ones at a
bounded rate, and the backlogs of queues that have workers (protocol section 4 "after an outage", guarantee G14).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.model.storage import BucketEntry

# Missed buckets are worked off this many at a time beside the current ones, oldest first.
MISSED_AT_ONCE = 2
# Buckets that may still be finishing beside the current one without counting as missed.
RECENT_MS = 2 * BUCKET_MS
# So many backlog buckets of a queue are open at a time: a finished one makes room only seconds after its last task.
BACKLOG_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class InstanceMachine:
    """`look_ahead_ms`: how long before its start a bucket is loaded."""

    look_ahead_ms: int

    def wanted(
        self, now_ms: int, catalogue: Sequence[BucketEntry], scopes: Mapping[int, Sequence[BucketEntry]]
    ) -> list[Partition]:
        """`catalogue`: time buckets, oldest first; `scopes`: backlog buckets of each queue that has workers."""
        open_now = [e for e in catalogue if not e.finished and e.bucket_ms <= now_ms + self.look_ahead_ms]
        recent_ms = bucket_of(now_ms) - RECENT_MS
        missed = [e for e in open_now if e.bucket_ms < recent_ms][:MISSED_AT_ONCE]
        recent = [e for e in open_now if e.bucket_ms >= recent_ms]
        return [*_shards(missed), *_shards(recent), *self.backlog(scopes)]

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
        return _shards(e for e in known if e.finished and e.bucket_ms < last_ms)

    def backlog(self, scopes: Mapping[int, Sequence[BucketEntry]]) -> list[Partition]:
        """The oldest buckets of each queue."""
        oldest = [[e for e in entries if not e.finished][:BACKLOG_AT_ONCE] for entries in scopes.values()]
        return [p for entries in oldest for p in _shards(entries)]


def _shards(entries: Iterable[BucketEntry]) -> list[Partition]:
    return [Partition(e.scope, e.bucket_ms, shard) for e in entries for shard in range(e.shard_count)]
