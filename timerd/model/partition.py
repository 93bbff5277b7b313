"""Time is the partition key: which (scope, bucket, shard) a task lives in.

Scope 0 holds the ordinary time partitions; any other scope is the backlog of one queue, with the same buckets.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

BUCKET_MS = 300_000
TIME_SCOPE = 0
# Shards of a number from here on are key shards: each has the tasks of some ordering keys and of nothing else, in every
# bucket. Tasks without a key never have so many shards (model/shard_counts.py).
FIRST_KEY_SHARD = 1_024
KEY_SHARDS = 16


class Partition(NamedTuple):
    """The unit of storage, lease, load and firing: half-open interval [bucket_ms, bucket_ms + BUCKET_MS) of one
    shard."""

    scope: int
    bucket_ms: int
    shard: int

    @property
    def end_ms(self) -> int:
        return self.bucket_ms + BUCKET_MS

    @property
    def is_of_keys(self) -> bool:
        """Whether it is a part of a key shard."""
        return self.shard >= FIRST_KEY_SHARD


def bucket_of(position_ms: int) -> int:
    """Start of the bucket that holds `position_ms`."""
    return position_ms - position_ms % BUCKET_MS


def scope_of(namespace: str, queue: str) -> int:
    """Scope of a queue's backlog: 63 bits, never TIME_SCOPE. A wire contract (it is part of the task id)."""
    digest = blake2b(f"{namespace}\0{queue}".encode(), digest_size=8, person=b"timerd.scope").digest()
    return int.from_bytes(digest, "big") >> 1 or 1


def shard_of(prefix: bytes, bucket_ms: int, shard_count: int) -> int:
    """Shard of a message's tasks in one bucket; stable over releases."""
    if shard_count == 1:
        return 0
    digest = blake2b(prefix, digest_size=8, salt=bucket_ms.to_bytes(8, "big"), person=b"timerd.shard").digest()
    return int.from_bytes(digest, "big") % shard_count


def key_shard_of(namespace: str, queue: str, ordering_key: str) -> int:
    """The key shard of an ordering key, the same in every bucket; stable over releases."""
    text = f"{namespace}\0{queue}\0{ordering_key}".encode()
    digest = blake2b(text, digest_size=8, person=b"timerd.keyshard").digest()
    return FIRST_KEY_SHARD + int.from_bytes(digest, "big") % KEY_SHARDS
