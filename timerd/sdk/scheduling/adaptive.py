"""Adaptive limits of queues, as callers write them and as they show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from timerd.sdk.values import Span, invalid, span_ms, whole_number
from timerd.v1 import regulation_service_pb2 as pb

_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Adaptive:
    """An adaptive limit finds out how many deliveries of a queue its target bears at a time.

    One more is let go after each window in which as many succeeded, while most of what may be in hand is. Three in ten
    less are let go when a handler raises `Throttled`, an attempt is out of time, or more than one in ten take longer
    than `target`.

    Args:
        floor: how many may be with workers at least, 1 or more; it begins there.
        ceiling: how many at most, up to 1,000,000.
        target: how long nine of ten attempts may take, a timedelta or seconds, a millisecond to a day. Default however
            long.
        limit: as it shows: how many may be with workers now, of the instance that was asked. Given it is left out.

    Raises:
        InvalidTask: the floor is above the ceiling, or a value is of a wrong form; raised by the call that uses it.
    """

    floor: int
    ceiling: int
    target: Span | None = None
    limit: int | None = None

    def to_proto(self) -> pb.Adaptive:
        """The message says what this says. Raises InvalidTask."""
        floor = whole_number(self.floor, "adaptive.floor", 1, _MOST)
        ceiling = whole_number(self.ceiling, "adaptive.ceiling", 1, _MOST)
        if floor > ceiling:
            raise invalid(f"The floor {floor:,} is above the ceiling {ceiling:,}: give no higher one.", "adaptive")
        message = pb.Adaptive(floor=floor, ceiling=ceiling)
        if self.target is not None:
            message.target.FromMilliseconds(span_ms(self.target, "adaptive.target", may_be_none=False))
        return message

    @classmethod
    def of(cls, message: pb.Adaptive) -> Adaptive:
        """It says what the message `message` says."""
        target: timedelta | None = message.target.ToTimedelta() if message.HasField("target") else None
        return cls(message.floor, message.ceiling, target, message.limit)


def adaptive_message(adaptive: Adaptive) -> pb.Adaptive:
    """As a caller gives it. Raises InvalidTask."""
    if not isinstance(adaptive, Adaptive):
        raise invalid(f"`adaptive` is {adaptive!r:.60}: give Adaptive(floor=1, ceiling=100).", "adaptive")
    return adaptive.to_proto()
