"""Limits of queues: from the wire, checked in full, and back."""

from __future__ import annotations

from timerd.model.errors import Invalid
from timerd.model.regulations import QueueLimit
from timerd.services.calls.due_times import duration_ms
from timerd.services.calls.replies import duration
from timerd.v1 import regulation_service_pb2 as wire

MOST = 1_000_000
SECOND_MS, DAY_MS = 1_000, 86_400_000
# What the rate gives in so long may come at once, where nobody says how much.
BURST_MS = 100
# A turn of a busy loop takes a few of these: a smaller burst would be lower than the rate.
LEAST_BURST_MS = 10


def limit_of(given: wire.Limit) -> QueueLimit:
    """Raises Invalid."""
    if not given.max_in_hand and not given.rate:
        raise Invalid("The limit limits nothing: give max_in_hand, or a rate, or leave the limit out.", "limit")
    for name in ("max_in_hand", "rate", "burst"):
        if (value := getattr(given, name)) > MOST:
            raise Invalid(f"{name} is {value:,}: at most {MOST:,} are allowed.", f"limit.{name}")
    period_ms = duration_ms(given.period, "limit.period") if given.HasField("period") else SECOND_MS
    if not given.rate:
        if given.burst or given.HasField("period"):
            raise Invalid("burst and period belong to a rate: give one, or leave them out.", "limit.rate")
        return QueueLimit(given.max_in_hand)
    if not SECOND_MS <= period_ms <= DAY_MS:
        raise Invalid(f"The period is {period_ms:,} ms: give a second to a day.", "limit.period")
    return QueueLimit(given.max_in_hand, given.rate, period_ms, _burst(given, period_ms))


def _burst(given: wire.Limit, period_ms: int) -> int:
    least = max(1, -(-given.rate * LEAST_BURST_MS // period_ms))
    if not given.burst:
        return max(least, given.rate * BURST_MS // period_ms)
    if given.burst < least:
        raise Invalid(
            f"With a burst of {given.burst} a rate of {given.rate:,} in {period_ms:,} ms would not be reached: give "
            f"{least} or more.",
            "limit.burst",
        )
    return given.burst


def wire_of_limit(limit: QueueLimit) -> wire.Limit:
    shown = wire.Limit(max_in_hand=limit.max_in_hand)
    if limit.rate:
        shown.rate, shown.burst = limit.rate, limit.burst
        shown.period.CopyFrom(duration(limit.period_ms))
    return shown
