"""How many shards a bucket has: as many as the cluster records for all, or more where it was found hot.

A count only decides how evenly rows are spread. A writer of a row announces its shard in the catalogue first, and a
reader of a bucket reads every shard that is announced, so no two instances need to know the same count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from timerd.model.codec import dump_json, split_known, with_kept
from timerd.model.partition import BUCKET_MS, shard_of
from timerd.model.registers import RegisterKey, Table

HOT = RegisterKey(Table.BUCKETS, b"hot")
# Of two bytes in a task's id; more than that many instances do not share one bucket.
MOST_SHARDS = 1_024
# All of them are in one register, which must stay small.
MOST_HOT = 2_048


@dataclass(frozen=True, slots=True)
class ShardCounts:
    """`hot`: bucket -> the counts that it was given, each larger than the one before."""

    default: int
    hot: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    # What a later release has added: its names are no numbers.
    kept: str = ""

    def count(self, bucket_ms: int) -> int:
        return max(self.default, *self.hot.get(bucket_ms, (0,)))

    def shard(self, prefix: bytes, bucket_ms: int) -> int:
        return shard_of(prefix, bucket_ms, self.count(bucket_ms))

    def earlier(self, prefix: bytes, bucket_ms: int) -> list[int]:
        """Where a message went while the bucket had fewer shards, smallest count first, if not where it goes now."""
        counts = [self.default, *self.hot.get(bucket_ms, ())]
        shards = dict.fromkeys(shard_of(prefix, bucket_ms, count) for count in sorted(counts))
        return [shard for shard in shards if shard != self.shard(prefix, bucket_ms)]

    def with_more(self, bucket_ms: int, count: int, now_ms: int) -> ShardCounts | None:
        """None: nothing to change. Buckets that are over are left out."""
        open_now = {b: c for b, c in self.hot.items() if b + BUCKET_MS > now_ms}
        wanted = min(count, MOST_SHARDS)
        if wanted <= self.count(bucket_ms) or (len(open_now) >= MOST_HOT and bucket_ms not in open_now):
            return None
        return replace(self, hot={**open_now, bucket_ms: (*self.hot.get(bucket_ms, ()), wanted)})

    def to_bytes(self) -> bytes:
        counts = {str(bucket_ms): list(counts) for bucket_ms, counts in sorted(self.hot.items())}
        return dump_json(with_kept(counts, self.kept))

    @classmethod
    def from_bytes(cls, default: int, stored: bytes | None) -> ShardCounts:
        found = json.loads(stored) if stored is not None else {}
        hot, kept = split_known(found, {name for name in found if name.lstrip("-").isdecimal()})
        return cls(default, {int(bucket_ms): tuple(counts) for bucket_ms, counts in hot.items()}, kept)
