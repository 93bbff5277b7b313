"""Which buckets should have more shards, by what one instance has taken in for each of them.

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


@dataclass(slots=True)
class Heat:
    """Bucket -> rows and bytes."""

    rows: dict[int, int] = field(default_factory=dict)
    size_bytes: dict[int, int] = field(default_factory=dict)

    def add(self, bucket_ms: int, rows: int, size_bytes: int) -> None:
        self.rows[bucket_ms] = self.rows.get(bucket_ms, 0) + rows
        self.size_bytes[bucket_ms] = self.size_bytes.get(bucket_ms, 0) + size_bytes
        if len(self.rows) > MOST_COUNTED:
            self._forget(sorted(self.rows, key=self.rows.__getitem__)[:-KEPT])

    def wanted(self, bucket_ms: int, count: int, instances: int) -> int:
        """How many shards the bucket should have; `count` as long as those are enough. Each step at least doubles, so
        that a bucket grows a few times only; a hot one has work for every instance."""
        by_rows = self.rows.get(bucket_ms, 0) * instances / SHARD_ROWS
        by_size = self.size_bytes.get(bucket_ms, 0) * instances / SHARD_BYTES
        if max(by_rows, by_size) <= count:
            return count
        return max(2 * count, 2 * instances, int(max(by_rows, by_size)) + 1)

    def _forget(self, buckets: Iterable[int]) -> None:
        for bucket_ms in buckets:
            del self.rows[bucket_ms], self.size_bytes[bucket_ms]
