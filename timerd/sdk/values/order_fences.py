"""The place of a delivery among all starts of its ordering key."""

from __future__ import annotations

import struct
from typing import NamedTuple

_FENCE = struct.Struct(">QQI")


class OrderFence(NamedTuple):
    """An order fence grows along all starts of an ordering key; fences compare as tuples.

    Args:
        position_ms: the due time of the task, in milliseconds since the epoch.
        order_seq: the number that the task was given when it was accepted.
        version: grows with each attempt, and with each time that the task was moved.
    """

    position_ms: int
    order_seq: int
    version: int

    @classmethod
    def of(cls, said: bytes) -> OrderFence:
        """The order fence says what the 20 bytes `said` of a message say."""
        return cls(*_FENCE.unpack(said))
