"""When a task is due: both forms of the wire (fire_time, delay) become milliseconds since the epoch.

A fraction of a millisecond is rounded up for what must not happen early (fire_time) and down for what must not happen
late (expire_time).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from timerd.core.protocol import REQUEST_MEMORY_MS
from timerd.model.errors import Invalid
from timerd.model.instants import LAST_SECOND, shown
from timerd.model.task import EARLIEST_MS, HORIZON_MS

MAX_CLOCK_DIFFERENCE_MS = 60_000
# A proxy may end what is silent for longer.
MAX_WAIT_MS = 60_000
# What a repeat may differ by: it was compared the first time.
ANY_DIFFERENCE_MS = 1 << 62
_LAST_DURATION_SECOND = 315_576_000_000
_NANOS = 1_000_000_000


class HasDue(Protocol):
    """A message with `oneof due {fire_time, delay}`."""

    @property
    def fire_time(self) -> Timestamp: ...

    @property
    def delay(self) -> Duration: ...


class HasUntil(Protocol):
    """A message with `until`, which may be absent."""

    @property
    def until(self) -> Timestamp: ...

    def HasField(self, name: Literal["until"], /) -> bool: ...


def ms_from(stamp: Timestamp, field: str, *, up: bool = True) -> int:
    seconds, nanos = stamp.seconds, stamp.nanos
    if not (-62_135_596_800 <= seconds <= LAST_SECOND and 0 <= nanos < _NANOS):
        raise Invalid(
            f"{field} is not a valid Timestamp: seconds must lie in the years 1 to 9999 and nanos in 0 to 999,999,999.",
            field,
        )
    return seconds * 1000 + ((nanos + 999_999) // 1_000_000 if up else nanos // 1_000_000)


def later_ms(request: HasUntil, now_ms: int) -> int:
    """When a pause ends by itself; 0: never. Of a call that is made for the first time. Raises Invalid."""
    if not request.HasField("until"):
        return 0
    until_ms = ms_from(request.until, "until")
    if until_ms <= now_ms:
        raise Invalid(
            f"until is {shown(until_ms)}, and it is {shown(now_ms)} already: give a later instant, or leave it out.",
            "until",
        )
    return until_ms


def duration_ms(duration: Duration, field: str) -> int:
    """Rounded up, and away from zero where negative."""
    seconds, nanos = duration.seconds, duration.nanos
    if abs(seconds) > _LAST_DURATION_SECOND or abs(nanos) >= _NANOS or seconds * nanos < 0:
        raise Invalid(
            f"{field} is not a valid Duration: seconds and nanos must have the same sign, nanos less than a second.",
            field,
        )
    total = seconds * _NANOS + nanos
    return -(-total // 1_000_000) if total >= 0 else total // 1_000_000


def wait_ms(timeout: Duration) -> int:
    """How long a call waits for an end. Raises Invalid."""
    timeout_ms = duration_ms(timeout, "timeout")
    if not 0 <= timeout_ms <= MAX_WAIT_MS:
        raise Invalid(
            f"timeout is {timeout_ms / 1000:g} s: use 0 to {MAX_WAIT_MS // 1000} s, and call again to wait on.",
            "timeout",
        )
    return timeout_ms


def check_delay(delay_ms: int, field: str) -> None:
    if delay_ms < 0:
        raise Invalid(
            f"The delay of {delay_ms} ms is negative: give 0 or more, or a fire_time in the past to fire at once.",
            field,
        )
    if delay_ms > HORIZON_MS:
        raise Invalid("The delay is longer than 100 years: give a shorter one.", field)


def check_fire_at(fire_at_ms: int, now_ms: int, field: str) -> None:
    """The past is allowed: such a task fires at once and is marked late. What is plainly in another unit is not."""
    if fire_at_ms < EARLIEST_MS:
        raise Invalid(
            f"The fire_time lies before March 1973 ({fire_at_ms} ms since 1970): are these seconds, where milliseconds "
            "are meant? Any later time in the past fires at once.",
            field,
        )
    if fire_at_ms - now_ms > HORIZON_MS:
        raise Invalid(
            f"The fire_time {shown(fire_at_ms)} is more than 100 years ahead of now ({shown(now_ms)}): give an earlier "
            "one.",
            field,
        )


@dataclass(slots=True)
class DueClock:
    """What the due times of one message count from. `request_time` None: not given. `most_apart_ms`: by how much it may
    differ from `now_ms` where a delay counts from it."""

    now_ms: int
    request_time: Timestamp | None = None
    most_apart_ms: int = MAX_CLOCK_DIFFERENCE_MS

    def asked_ms(self) -> int:
        """When the call was made. A clock that is ahead does not make a call later than it came."""
        if self.request_time is None:
            return self.now_ms
        return min(ms_from(self.request_time, "request_time"), self.now_ms)

    def refuse_too_old(self) -> None:
        """Raises TooOld for what can't be told from the repeat of a call that is no longer remembered."""
        if self.request_time is not None and self.asked_ms() < self.now_ms - REQUEST_MEMORY_MS:
            raise TooOld(
                f"The call was made at {shown(self.asked_ms())} by its request_time; calls are remembered for 24 h: "
                "whether it was carried out is not known any more. Look at the tasks, and make a new call if it is "
                "still wanted."
            )

    def origin_ms(self) -> int:
        """What a delay counts from."""
        if self.request_time is None:
            return self.now_ms
        asked_ms = ms_from(self.request_time, "request_time")
        if abs(asked_ms - self.now_ms) > self.most_apart_ms:
            raise Invalid(
                f"The request_time {shown(asked_ms)} (the caller's clock) and {shown(self.now_ms)} (the server's "
                "clock) are more than 60 s apart, so a delay would be wrong: set the caller's clock right, or give a "
                "fire_time instead of a delay.",
                "request_time",
                "CLOCKS_DIFFER",
            )
        return asked_ms

    def fire_at_ms(self, message: HasDue, which: str | None, at: str = "") -> int:
        """`which` field of the oneof is set; `at` is the path of the message in the request."""
        if which == "fire_time":
            field = at + "fire_time"
            fire_at_ms = ms_from(message.fire_time, field)
        elif which == "delay":
            field = at + "delay"
            delay_ms = duration_ms(message.delay, field)
            check_delay(delay_ms, field)
            fire_at_ms = self.origin_ms() + delay_ms
        else:
            raise Invalid(
                "Neither fire_time nor delay is set: give one of them, so that it is known when to fire.",
                at + "fire_time",
            )
        check_fire_at(fire_at_ms, self.now_ms, field)
        return fire_at_ms


class TooOld(Invalid):
    """A call may be a repeat of one that is no longer remembered, which must not be carried out anew."""

    only_this_try = True

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, "request_time", "REQUEST_TOO_OLD")


def refuse_long_past(fire_at_ms: int, now_ms: int) -> None:
    """Of a call that has a request_id and does not say when it was made. Raises TooOld."""
    if fire_at_ms < now_ms - REQUEST_MEMORY_MS:
        raise TooOld(
            f"The fire_time {shown(fire_at_ms)} is more than 24 h ago, and calls are remembered for 24 h: whether this "
            "is the repeat of a call that was carried out is not known. If it is new, say so by its request_time."
        )


def clock_of(request: HasRequestTime, now_ms: int, most_apart_ms: int = MAX_CLOCK_DIFFERENCE_MS) -> DueClock:
    return DueClock(now_ms, request.request_time if request.HasField("request_time") else None, most_apart_ms)


class HasRequestTime(Protocol):
    """A message with a `request_time`."""

    @property
    def request_time(self) -> Timestamp: ...

    def HasField(self, name: str) -> bool: ...
