"""Identity on the client's side: request ids, and task ids composed from what one reply says for its whole batch.

An all-OK reply carries no ids: a client that schedules a million tasks and cancels three of them composes three.
"""

from __future__ import annotations

import base64
import secrets
import struct
from collections.abc import Mapping, Sequence
from functools import cached_property

from timerd.v1 import timer_service_pb2 as pb

_FORMAT = 1
_MAC_BYTES = 8
# Format, position_ms, shard, scope, priority, prefix, index, mac (see the message Placement).
_LAYOUT = struct.Struct(">BqHQB12sI8s")


def new_request_id() -> str:
    return secrets.token_urlsafe(16)


def encode_id(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Composer:
    """Ids of the tasks of one stored message."""

    def __init__(self, placement: pb.Placement, fire_at_ms: Sequence[int]) -> None:
        self._placement = placement
        self._position_ms: Sequence[int] = placement.position_ms or fire_at_ms

    @cached_property
    def _homes(self) -> Mapping[int, tuple[int, bytes]]:
        """Shard and mac of each bucket."""
        macs = self._placement.macs
        places = zip(self._placement.bucket_start_ms, self._placement.shards, strict=True)
        return {start: (shard, macs[i * _MAC_BYTES : (i + 1) * _MAC_BYTES]) for i, (start, shard) in enumerate(places)}

    def task_id(self, index: int) -> str:
        placement, position_ms = self._placement, self._position_ms[index]
        shard, mac = self._homes[position_ms - position_ms % placement.bucket_length_ms]
        raw = _LAYOUT.pack(
            _FORMAT, position_ms, shard, placement.scope, placement.priority, placement.prefix, index, mac
        )
        return encode_id(raw)
