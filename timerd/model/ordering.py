"""The order of the tasks of one ordering key: (position, order_seq), and the fence that each delivery of one carries.

`order_seq` is drawn once, in the step that accepts the task: a task that was accepted later has a larger one. The tasks
of one message share the number before it (`Extra.order_base`), and differ by their place in the message.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from timerd.model.codec import KEY_SHARDS, ORDERING_KEY, needing
from timerd.model.partition import key_shard_of
from timerd.model.rows import FLAG_ORDERED, RowGroup
from timerd.model.task import Extra

# So many may be drawn in a millisecond.
DRAWN_BITS = 20
FENCE_BYTES = 20
NO_FENCE = bytes(FENCE_BYTES)
_FENCE = struct.Struct(">QQI")
# A release that does not know the key would send its tasks side by side.
_NEEDS = needing(ORDERING_KEY)
# Nor does one that knows nothing of key shards keep their order in a cluster.
_NEEDS_IN_CLUSTER = needing(KEY_SHARDS, ORDERING_KEY)


class OnFailure(StrEnum):
    """What becomes of the others of a key when a task of it fails."""

    # They wait for its retries, and go on after the dead letter.
    HOLD = "hold"
    # They wait for its retries. A dead letter halts the key until somebody resumes it.
    HALT = "halt"
    # They pass it while it waits for its next attempt, which has its place by its new time.
    PASS = "pass"


class OrderPlace(NamedTuple):
    """Where a task stands among those of its key."""

    position_ms: int
    order_seq: int


class OrderFence(NamedTuple):
    """It grows along all starts of a key."""

    position_ms: int
    order_seq: int
    version: int

    def to_bytes(self) -> bytes:
        """Big-endian: bytes compare as the numbers do."""
        return _FENCE.pack(*self)


def ordered_extra(ordering_key: str, key: str = "") -> Extra:
    """Of a task that has this ordering key."""
    return Extra(key=key, ordering_key=ordering_key, kept=_NEEDS)


def numbered(extra: Extra, base: int, *, in_cluster: bool) -> Extra:
    """Of a task that was accepted: `base` is the number before those of its message."""
    if not extra.ordering_key:
        return extra
    return replace(extra, order_base=base, kept=_NEEDS_IN_CLUSTER if in_cluster else extra.kept)


def key_shards_of(rows: RowGroup) -> dict[int, int]:
    """Row -> key shard, of those that have an ordering key."""
    found: dict[int, int] = {}
    for row in (
        i for i, extra in enumerate(rows.columns["extra"].tolist()) if extra and rows.extras[extra - 1].ordering_key
    ):
        template = rows.template_of(row)
        found[row] = key_shard_of(template.namespace, template.queue, rows.extra_of(row).ordering_key)
    return found


def first_of(now_ms: int) -> int:
    """The first number that may be drawn in that millisecond."""
    return now_ms << DRAWN_BITS


def last_of(now_ms: int) -> int:
    """Above all that were drawn until then, and below all that are drawn in a later millisecond."""
    return first_of(now_ms + 1) - 1


def order_seq(rows: RowGroup, row: int) -> int:
    return rows.extra_of(row).order_base + int(rows.columns["index"][row])


def place_of(rows: RowGroup, row: int) -> OrderPlace:
    """A task that was redriven to the head of its key keeps its place, wherever its row stands."""
    kept_ms = rows.extra_of(row).order_position_ms
    position_ms = kept_ms if kept_ms >= 0 else int(rows.columns["position_ms"][row])
    return OrderPlace(position_ms, order_seq(rows, row))


def at_place(extra: Extra, place: OrderPlace, index: int) -> Extra:
    """Of the task with that index in its message."""
    return replace(extra, order_position_ms=place.position_ms, order_base=place.order_seq - index)


def fence_of(rows: RowGroup, row: int) -> OrderFence:
    return OrderFence(*place_of(rows, row), int(rows.columns["version"][row]))


def is_ordered(rows: RowGroup, row: int) -> bool:
    return bool(int(rows.columns["flags"][row]) & FLAG_ORDERED)
