"""Time is the partition key: which (scope, bucket, shard) a task lives in.

Scope 0 holds the ordinary time partitions; any other scope is the backlog of one queue, with the same buckets.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

BUCKET_MS = 300_000
TIME_SCOPE = 0


class Partition(NamedTuple):
    """The unit of storage, lease, load and firing: half-open interval [bucket_ms, bucket_ms + BUCKET_MS) of one
    shard."""

    scope: int
    bucket_ms: int
    shard: int

    @property
    def end_ms(self) -> int:
        return self.bucket_ms + BUCKET_MS


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
