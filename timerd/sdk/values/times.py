"""Instants and spans as users write them, turned into whole milliseconds.

Everything is rounded up: a task may fire late by less than a millisecond, never early. A datetime without a zone is
refused, because the machine that guesses the zone is rarely the machine that meant it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from timerd.sdk.values.errors import InvalidTask

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What a datetime can say, and so what ids and replies can: the years 1970 to 9999.
LAST_MS = 253_402_300_799_999
Span = timedelta | float | int
Clock = Callable[[], datetime]
MsClock = Callable[[], int]
_LONGEST = timedelta(days=10_000 * 365)
# Of a span that travels as 32 bits of milliseconds: 49 days and 17 hours.
LONGEST_WIRE_SPAN = timedelta(milliseconds=(1 << 32) - 1)
# More is no deadline for gRPC.
LONGEST_TIMEOUT = timedelta(days=36_500)
_MICROSECOND = timedelta(microseconds=1)
_HOW_TO_WRITE_IT = (
    "Write for example `datetime.now(timezone.utc) + timedelta(minutes=5)`, or "
    '`datetime(2030, 1, 1, 9, 0, tzinfo=ZoneInfo("Europe/Berlin"))`.'
)


class Due(NamedTuple):
    """When a task is wanted: milliseconds since the epoch, or from the request on."""

    ms: int
    is_delay: bool


def now_ms() -> int:
    """Rounded up: what counts from it is never early."""
    return -(-time.time_ns() // 1_000_000)


def ms_clock(clock: Clock | None) -> MsClock:
    """The machine's clock, or the one that the caller brings (a test that turns it)."""
    return now_ms if clock is None else lambda: instant_ms(clock(), "clock")


def instant_ms(moment: datetime, field: str = "at") -> int:
    try:
        since = moment - EPOCH
    except TypeError:
        raise _bad_instant(moment, field) from None
    return (since.days * 86_400 + since.seconds) * 1000 - (-since.microseconds // 1000)


def _bad_instant(moment: object, field: str) -> InvalidTask:
    if not isinstance(moment, datetime):
        wrong = f"`{field}` must be a datetime with a time zone, not {type(moment).__name__}."
    else:
        wrong = f"`{field}` is {moment!r}, which has no time zone, so it names no instant."
    return InvalidTask(f"{wrong} {_HOW_TO_WRITE_IT}", reason="INVALID", field=field)


def span_ms(span: Span, field: str = "delay", *, most: timedelta = _LONGEST, may_be_none: bool = True) -> int:
    """Whole milliseconds, rounded up. Raises InvalidTask for what is no span or longer than `most`, and where it must
    not be none for 0: nothing is cut."""
    try:
        micros = span // _MICROSECOND if isinstance(span, timedelta) else round(span * 1e6)
    except (TypeError, ValueError, OverflowError):
        micros = -1
    if isinstance(span, bool) or not (0 if may_be_none else 1) <= micros <= most // _MICROSECOND:
        least = "0 or more" if may_be_none else "more than 0"
        limit = "below 10,000 years" if most == _LONGEST else f"at most {most.days:,} days"
        raise InvalidTask(
            f"`{field}` must be a timedelta or a number of seconds, {least} and {limit}, not {span!r}. "
            "Write for example `timedelta(minutes=5)` or `300`.",
            reason="INVALID",
            field=field,
        )
    return -(-micros // 1000)


def due_of(at: datetime | None, delay: Span | None) -> Due:
    if (at is None) == (delay is None):
        given = "neither was" if at is None else "both were"
        raise InvalidTask(f"Give either `at` or `delay`; {given} given.", reason="INVALID", field="at")
    if at is not None:
        return Due(instant_ms(at), is_delay=False)
    assert delay is not None
    return Due(span_ms(delay), is_delay=True)


def datetime_of_ms(at_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=at_ms)


def timestamp_of_ms(at_ms: int) -> Timestamp:
    seconds, ms = divmod(at_ms, 1000)
    return Timestamp(seconds=seconds, nanos=ms * 1_000_000)


def duration_of_ms(span: int) -> Duration:
    seconds, ms = divmod(span, 1000)
    return Duration(seconds=seconds, nanos=ms * 1_000_000)


def ms_of_timestamp(stamp: Timestamp) -> int:
    return stamp.seconds * 1000 - (-stamp.nanos // 1_000_000)
