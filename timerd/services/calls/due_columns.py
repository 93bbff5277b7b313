"""When the tasks of many calls are due, as columns: what `due_times.py` says of each, without its words. What is not
good here may be so for any of its reasons."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.core.protocol import REQUEST_MEMORY_MS
from timerd.model.instants import LAST_SECOND
from timerd.model.task import EARLIEST_MS, HORIZON_MS
from timerd.services.calls.due_times import MAX_CLOCK_DIFFERENCE_MS
from timerd.services.calls.expiries import Int64s

Bools = npt.NDArray[np.bool_]
_FIRST_SECOND = -62_135_596_800
_NANOS = 1_000_000_000


class Dues(NamedTuple):
    """`is_good`: of which there is nothing to say. `request_times_ms`: 0 where a call does not say when it was made."""

    fire_at_ms: Int64s
    request_times_ms: Int64s
    is_good: Bools


class GivenDues(NamedTuple):
    """(n,) each, as calls gave them: the seconds and nanoseconds of fire_time or delay, and of request_time."""

    is_delay: Bools
    seconds: Int64s
    nanos: Int64s
    has_request_time: Bools
    request_seconds: Int64s
    request_nanos: Int64s


def dues_of(given: GivenDues, now_ms: int) -> Dues:
    """Of calls that are made for the first time."""
    due_ms, is_due = _in_ms(given.seconds, given.nanos)
    made_ms, is_instant = _in_ms(given.request_seconds, given.request_nanos)
    has_made, is_delay = given.has_request_time, given.is_delay
    fire_at_ms = np.where(is_delay, np.where(has_made, made_ms, now_ms) + due_ms, due_ms)
    is_good = is_due & (fire_at_ms >= EARLIEST_MS) & (fire_at_ms <= now_ms + HORIZON_MS)
    is_good &= ~is_delay | ((due_ms >= 0) & (due_ms <= HORIZON_MS))
    is_good &= ~has_made | (is_instant & (made_ms >= now_ms - REQUEST_MEMORY_MS))
    is_good &= ~(has_made & is_delay) | (np.abs(made_ms - now_ms) <= MAX_CLOCK_DIFFERENCE_MS)
    return Dues(fire_at_ms, np.where(has_made, made_ms, 0), is_good)


def _in_ms(seconds: Int64s, nanos: Int64s) -> tuple[Int64s, Bools]:
    """Rounded up, as instants and delays are; and which are neither out of range nor of two signs."""
    is_valid = (seconds >= _FIRST_SECOND) & (seconds <= LAST_SECOND) & (nanos >= 0) & (nanos < _NANOS)
    return np.where(is_valid, seconds, 0) * 1000 + (nanos + 999_999) // 1_000_000, is_valid
