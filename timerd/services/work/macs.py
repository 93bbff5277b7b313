"""The MACs of what is delivered: made once for each message and home, for they come again in a later delivery."""

from __future__ import annotations

import struct
from functools import lru_cache

import numpy as np

from timerd.model.identity import PREFIX_BYTES, mac_of
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.rows import PREFIX
from timerd.model.task import Template

# What is the same for all tasks of one message in one bucket.
HOME = np.dtype([("prefix", PREFIX), ("bucket", "<i8"), ("shard", "<u2"), ("priority", "u1")])
_HOME = struct.Struct(f"<{PREFIX_BYTES}sqHB")
# A hundred bytes and more each.
MOST_MACS, MOST_QUEUES = 10_000, 16


@lru_cache(maxsize=MOST_QUEUES)
def known_macs(_secret: bytes, _namespace: str, _scope: int) -> dict[bytes, bytes]:
    """Of one queue, by what it is made of otherwise."""
    return {}


def mac_at(known: dict[bytes, bytes], kind: bytes, secret: bytes, template: Template) -> bytes:
    """`kind`: of HOME."""
    found = known.get(kind)
    if found is not None:
        return found
    prefix, bucket, shard, priority = _HOME.unpack(kind)
    home = Partition(TIME_SCOPE, bucket * BUCKET_MS, shard)
    if len(known) >= MOST_MACS:
        known.clear()
    mac = known[kind] = mac_of(secret, template.namespace, prefix, home, template.scope, priority)
    return mac


def home_of(prefix: bytes, position_ms: int, shard: int, priority: int) -> bytes:
    """One of HOME."""
    return _HOME.pack(prefix, position_ms // BUCKET_MS, shard, priority)
