"""Which instance should hold which partition: rendezvous hashing, so that a change moves only what must move.

Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates", IEEE/ACM ToN 6(1), 1998.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from timerd.model.partition import Partition


def holder_of(partition: Partition, instances: Sequence[str]) -> str:
    """The instance with the highest hash; `instances` must not be empty. Stable over releases and processes."""
    if partition.is_of_keys:
        # Whatever its bucket: who sends the tasks of a key sends all of them (core/ordering/kept_shards.py).
        return placed(b"key shard %d" % partition.shard, instances)
    return placed(b"%d.%d.%d" % partition, instances)


def placed(place: bytes, instances: Sequence[str]) -> str:
    """As `holder_of`, of whatever has a name."""
    return max(instances, key=lambda name: (blake2b(place, digest_size=8, key=name.encode()[:64]).digest(), name))
