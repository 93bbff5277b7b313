"""When a zone's offset changes, found by asking the zone: the one thing that differs between wall-clock time and UTC.

A zone is any tzinfo; its offset is taken every few days of a year, and where two differ the change lies between them.
"""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

DAY_MS = 86_400_000
# No zone has changed twice within this since 1970; the nearest two were a week apart (Recife, 2000).
_PROBE_MS = 4 * DAY_MS
EPOCH = datetime(1970, 1, 1)
_MS = timedelta(milliseconds=1)
# Wall-clock times of all zones can be computed up to here.
LAST_MS = (datetime(9999, 1, 1) - EPOCH) // _MS


class OffsetPeriod(NamedTuple):
    """From `start_ms` to before `end_ms` local time is UTC + `offset_ms`; it was UTC + `before_ms` until then and is
    UTC + `after_ms` from then on. Periods end at the latest with a year of UTC, so that each is found by its year."""

    start_ms: int
    end_ms: int
    offset_ms: int
    before_ms: int
    after_ms: int


def wall_time(wall_ms: int) -> datetime:
    """A time without a zone, by its distance from 1970."""
    return EPOCH + timedelta(milliseconds=wall_ms)


def wall_ms_of(wall: datetime) -> int:
    """The inverse of `wall_time`."""
    return (wall - EPOCH) // _MS


def offset_ms_at(zone: tzinfo, at_ms: int) -> int:
    """What is added to UTC there."""
    at = _read_as_utc(zone, at_ms)
    return (zone.fromutc(at) - at) // _MS


def _read_as_utc(zone: tzinfo, at_ms: int) -> datetime:
    """What `tzinfo.fromutc` takes. It differs from what comes out by the offset, for within a zone wall-clock times
    are compared."""
    return (EPOCH + timedelta(milliseconds=at_ms)).replace(tzinfo=zone)


def period_at(zone: tzinfo, at_ms: int) -> OffsetPeriod | None:
    """None beyond `LAST_MS`."""
    if at_ms >= LAST_MS:
        return None
    year = (EPOCH + timedelta(milliseconds=at_ms)).year
    return next(period for period in periods_of(zone, year) if at_ms < period.end_ms)


@lru_cache(maxsize=2048)
def periods_of(zone: tzinfo, year: int) -> tuple[OffsetPeriod, ...]:
    """In order, without holes."""
    start_ms, end_ms = wall_ms_of(datetime(year, 1, 1)), wall_ms_of(datetime(year + 1, 1, 1))
    cuts = [start_ms, *_changes(zone, start_ms, end_ms), end_ms]
    offsets = [offset_ms_at(zone, cut) for cut in cuts]
    befores = [offset_ms_at(zone, start_ms - 1), *offsets]
    return tuple(map(OffsetPeriod, cuts, cuts[1:], offsets, befores, offsets[1:]))


def _changes(zone: tzinfo, start_ms: int, end_ms: int) -> list[int]:
    """The instants within at which another offset begins."""
    start, probes = _read_as_utc(zone, start_ms), _probes(end_ms - start_ms)
    offsets = [zone.fromutc(at) - at for at in (start + probe for _, probe in probes)]
    pairs = zip(probes, probes[1:], offsets, offsets[1:], strict=False)
    return [
        _change(zone, start_ms + low_ms, start_ms + high_ms)
        for (low_ms, _), (high_ms, _), before, after in pairs
        if before != after
    ]


@lru_cache(maxsize=2)
def _probes(length_ms: int) -> tuple[tuple[int, timedelta], ...]:
    """Of a year, from its beginning."""
    probes_ms = (*range(0, length_ms, _PROBE_MS), length_ms - 1)
    return tuple((probe_ms, timedelta(milliseconds=probe_ms)) for probe_ms in probes_ms)


def _change(zone: tzinfo, low_ms: int, high_ms: int) -> int:
    """The offset at `high_ms` is not the one at `low_ms`: where does it begin?"""
    before = offset_ms_at(zone, low_ms)
    while high_ms - low_ms > 1:
        middle_ms = (low_ms + high_ms) // 2
        if offset_ms_at(zone, middle_ms) == before:
            low_ms = middle_ms
        else:
            high_ms = middle_ms
    return high_ms
