"""Which buckets should have more shards, by what was announced for them or what one instance has taken in.

The others take in about as much: a bucket's writers are spread over all instances.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

# Of one shard: a few seconds of loading, and what one partition of the store should have.
SHARD_BYTES = 64 << 20
SHARD_ROWS = 50_000
# Buckets that are counted; beyond it the coldest are forgotten.
MOST_COUNTED = 20_000
KEPT = 10_000


def shards_for(rows: int, size_bytes: int, count: int, instances: int) -> int:
    """`count` as long as those are enough. Each step at least doubles, so that a bucket grows a few times only; a hot
    one has work for every instance."""
    least = max(rows / SHARD_ROWS, size_bytes / SHARD_BYTES)
    return count if least <= count else max(2 * count, 2 * instances, int(least) + 1)


@dataclass(slots=True)
class LoadEstimate:
    """Bucket -> rows and bytes."""

    rows: dict[int, int] = field(default_factory=dict)
    size_bytes: dict[int, int] = field(default_factory=dict)

    def add(self, bucket_ms: int, rows: int, size_bytes: int) -> None:
        self.rows[bucket_ms] = self.rows.get(bucket_ms, 0) + rows
        self.size_bytes[bucket_ms] = self.size_bytes.get(bucket_ms, 0) + size_bytes
        if len(self.rows) > MOST_COUNTED:
            self._forget(sorted(self.rows, key=self.rows.__getitem__)[:-KEPT])

    def wanted(self, bucket_ms: int, count: int, instances: int) -> int:
        """How many shards the bucket should have."""
        rows, size_bytes = self.rows.get(bucket_ms, 0), self.size_bytes.get(bucket_ms, 0)
        return shards_for(rows * instances, size_bytes * instances, count, instances)

    def _forget(self, buckets: Iterable[int]) -> None:
        for bucket_ms in buckets:
            del self.rows[bucket_ms], self.size_bytes[bucket_ms]
