"""Who a task is: digest, version, task id, delivery id, ack token (protocol section 2).

All integers are big-endian in ids, so that an id reads the same in every language. A MAC over what never changes within
one message and bucket makes a forged or foreign id NOT_FOUND without a read.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import repeat
from typing import NamedTuple, cast

from timerd.model.partition import TIME_SCOPE, Partition, bucket_of

# Of calls that name none.
DEFAULT_NAMESPACE = "default"
PREFIX_BYTES = 12
DIGEST_BYTES = 16
MAC_BYTES = 8
TASK_ID_BYTES = 44
DELIVERY_ID_BYTES = 20
# What follows the digest in the id of a delivery of the first generation.
FIRST_GENERATION = bytes(4)
ACK_TOKEN_BYTES = 64
FORMAT = 1
_TASK_ID = struct.Struct(">BqHQB12sI8s")
_DIGEST = struct.Struct(">12sI")
ATTEMPT_BITS = 16
ATTEMPT_MASK = (1 << ATTEMPT_BITS) - 1


class RowKey(NamedTuple):
    """One row of one partition. `version` = generation << 16 | attempts used up before it."""

    position_ms: int
    digest: bytes
    version: int


def row_keys(positions_ms: Iterable[int], digests: Iterable[bytes], versions: Iterable[int]) -> Iterator[RowKey]:
    """One for each row, without a call of Python's for each: half the time."""
    parts = zip(positions_ms, digests, versions, strict=True)
    return cast(Iterator[RowKey], map(tuple.__new__, repeat(RowKey), parts))


class TaskId(NamedTuple):
    """The place that the OK spoke of; `scope` is that of the queue's backlog."""

    position_ms: int
    shard: int
    scope: int
    priority: int
    prefix: bytes
    item: int
    mac: bytes

    @property
    def digest(self) -> bytes:
        return _DIGEST.pack(self.prefix, self.item)

    @property
    def home(self) -> Partition:
        return Partition(TIME_SCOPE, bucket_of(self.position_ms), self.shard)

    def to_bytes(self) -> bytes:
        return _TASK_ID.pack(FORMAT, *self)

    @classmethod
    def from_bytes(cls, packed: bytes) -> TaskId:
        """Of one that was packed so."""
        return cls(*_TASK_ID.unpack(packed)[1:])

    def __str__(self) -> str:
        return encode_id(self.to_bytes())


def generation_of(version: int) -> int:
    return version >> ATTEMPT_BITS


def attempt_of(version: int) -> int:
    """The number of the delivery that a row of this version leads to: 1 for the first."""
    return (version & ATTEMPT_MASK) + 1


def next_attempt(version: int) -> int:
    """Version of the row that follows a failed or interrupted attempt; the last attempt number is kept at the limit."""
    return version + 1 if version & ATTEMPT_MASK < ATTEMPT_MASK else version


def message_prefix(namespace: str, request_id: str, canonical_request: bytes) -> bytes:
    """One hash a message: a repeat makes the same ids, other content makes others."""
    head = f"{namespace}\0{request_id}\0".encode()
    return blake2b(head + canonical_request, digest_size=PREFIX_BYTES, person=b"timerd.prefix").digest()


def digest_of(prefix: bytes, index: int) -> bytes:
    return _DIGEST.pack(prefix, index)


def mac_of(secret: bytes, namespace: str, prefix: bytes, home: Partition, scope: int, priority: int) -> bytes:
    """8 bytes, the same for all tasks of one message in one bucket."""
    text = b"%s\0%s%d.%d.%d.%d" % (namespace.encode(), prefix, home.bucket_ms, home.shard, scope, priority)
    return blake2b(text, digest_size=MAC_BYTES, key=secret, person=b"timerd.id").digest()


def macs_of(
    secret: bytes, namespace: str, prefix: bytes, shards: Mapping[int, int], scope: int, priority: int
) -> list[bytes]:
    """As `mac_of` for each of many buckets (start -> shard): what they share is hashed once."""
    if len(shards) == 1:
        home = Partition(TIME_SCOPE, *next(iter(shards.items())))
        return [mac_of(secret, namespace, prefix, home, scope, priority)]
    head = b"%s\0%s" % (namespace.encode(), prefix)
    shared = blake2b(head, digest_size=MAC_BYTES, key=secret, person=b"timerd.id")
    tail = b".%d.%d" % (scope, priority)
    macs: list[bytes] = []
    for bucket_ms, shard in shards.items():
        mac = shared.copy()
        mac.update(b"%d.%d%b" % (bucket_ms, shard, tail))
        macs.append(mac.digest())
    return macs


def macs_of_messages(
    secret: bytes, namespace: str, prefixes: Iterable[bytes], home: Partition, scope: int, priority: int
) -> list[bytes]:
    """As `mac_of` for each of many messages of one place: the secret is taken in once."""
    head = b"%s\0" % namespace.encode()
    tail = b"%d.%d.%d.%d" % (home.bucket_ms, home.shard, scope, priority)
    keyed = blake2b(digest_size=MAC_BYTES, key=secret, person=b"timerd.id")
    macs: list[bytes] = []
    for prefix in prefixes:
        mac = keyed.copy()
        mac.update(head + prefix + tail)
        macs.append(mac.digest())
    return macs


def encode_id(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def parse_task_id(text: str) -> TaskId | None:
    """None where the text is no task id of this format at all; the MAC is checked by `is_genuine`."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(raw) != TASK_ID_BYTES or raw[0] != FORMAT:
        return None
    return TaskId(*_TASK_ID.unpack(raw)[1:])


def is_genuine(task: TaskId, secret: bytes, namespace: str) -> bool:
    return mac_of(secret, namespace, task.prefix, task.home, task.scope, task.priority) == task.mac


def delivery_id_of(digest: bytes, version: int) -> bytes:
    """Stable over all attempts of one generation (G6)."""
    return digest + generation_of(version).to_bytes(4, "big")


def short_id(delivery_id: bytes) -> bytes:
    """One for each delivery id: of a first generation, as nearly all are, the digest; nothing need be put together."""
    return delivery_id[:DIGEST_BYTES] if delivery_id[DIGEST_BYTES:] == FIRST_GENERATION else delivery_id


def long_id(short: bytes) -> bytes:
    """The delivery id of a short one."""
    return short + FIRST_GENERATION if len(short) == DIGEST_BYTES else short
