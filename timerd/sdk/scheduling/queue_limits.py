"""How much is sent, of a queue, of all that list a limit, or of a limit key: as callers write it, and as it shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from timerd.sdk.values import invalid, whole_number
from timerd.v1 import regulation_service_pb2 as pb

_MOST = 1_000_000
_RATE = re.compile(r"([0-9]{1,7})/([0-9]{0,5})([smhd])")
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """A queue limit says how much is sent, of a queue or of all that list a limit; counted is what starts, retries too.

    Args:
        max_in_hand: how many deliveries workers have at a time; None for any number.
        rate: how many start in each period; None for any number.
        period: how long a period is.
        burst: how many of the rate may start at once.
    """

    max_in_hand: int | None
    rate: int | None
    period: timedelta
    burst: int

    @classmethod
    def of(cls, message: pb.Limit) -> QueueLimit:
        """The limit says what the message `message` says."""
        period = message.period.ToTimedelta() if message.HasField("period") else timedelta(seconds=1)
        return cls(message.max_in_hand or None, message.rate or None, period, message.burst)


def limit_message(rate: str | None, burst: int | None, max_in_hand: int | None) -> pb.Limit:
    """Raises InvalidTask."""
    limit = pb.Limit()
    if max_in_hand is not None:
        limit.max_in_hand = whole_number(max_in_hand, "max_in_hand", 1, _MOST)
    if rate is not None:
        tasks, period_s = _rate(rate)
        limit.rate = tasks
        limit.period.FromSeconds(period_s)
    if burst is not None:
        limit.burst = whole_number(burst, "burst", 1, _MOST)
    return limit


def _rate(text_of_rate: str) -> tuple[int, int]:
    """(tasks, seconds)"""
    found = _RATE.fullmatch(text_of_rate) if isinstance(text_of_rate, str) else None
    tasks, period_s = (int(found[1]), int(found[2] or 1) * _UNITS_S[found[3]]) if found else (0, 0)
    if not tasks or not period_s:
        raise invalid(
            f"`rate` is {text_of_rate!r:.60}: write one or more tasks in a time, as 100/s, 30/m, 1000/h, "
            "20/d or 5/10s.",
            "rate",
        )
    return tasks, period_s
