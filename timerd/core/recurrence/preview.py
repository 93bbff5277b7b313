"""What a schedule will do, as people read it: UTC, local time, and what a gap or a repeat changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from itertools import islice

from timerd.core.recurrence.offsets import OffsetPeriod, period_at, wall_time
from timerd.core.recurrence.recurrence import Recurrence
from timerd.core.recurrence.wall_clock import Named


class WallTimeChange(StrEnum):
    """What became of the time that the spec names."""

    NONE = "NONE"
    MOVED = "MOVED"  # it is in a gap: the first instant after it
    SHIFTED = "SHIFTED"  # it is in a gap: later by its length
    SKIPPED = "SKIPPED"  # it is in a gap: nothing comes
    FIRST = "FIRST"  # it comes twice: this is the first time
    LAST = "LAST"  # it comes twice: this is the second time


@dataclass(frozen=True, slots=True)
class Foreseen:
    """`named`: the wall-clock time that the spec names; `local`: what clocks show then, with the offset. Where it was
    SKIPPED, nothing comes, and the instant is the end of the gap."""

    instant_ms: int
    utc: str
    local: str
    named: str
    change: WallTimeChange = WallTimeChange.NONE


def preview(recurrence: Recurrence, after_ms: int, count: int) -> list[Foreseen]:
    """The next `count` instants strictly later, and up to the last of them at most `count` times that are skipped.

    One that several times name is there once, by the first of them."""
    named: dict[int, Named] = {}
    for each in recurrence.named_after(after_ms):
        if len(named) == count and each.at_ms not in named:
            break
        named.setdefault(each.at_ms, each)
    coming = [_foreseen(recurrence, each) for each in named.values()]
    last_ms = coming[-1].instant_ms if coming else after_ms
    skipped = islice(_skipped(recurrence, after_ms, last_ms), count)
    return sorted([*coming, *skipped], key=lambda each: (each.instant_ms, each.named))


def _skipped(recurrence: Recurrence, after_ms: int, last_ms: int) -> Iterator[Foreseen]:
    period = period_at(recurrence.zone, after_ms)
    while period is not None and period.end_ms <= last_ms:
        if (period := period_at(recurrence.zone, period.end_ms)) is not None:
            walls = {wall for source in recurrence.sources for wall in source.left_out(period)}
            for wall in sorted(walls):
                yield _shown(Named(period.start_ms, wall), period, WallTimeChange.SKIPPED)


def _foreseen(recurrence: Recurrence, named: Named) -> Foreseen:
    period = period_at(recurrence.zone, named.at_ms)
    if period is None:
        raise ValueError(f"There is no local time at {named.at_ms} ms")
    return _shown(named, period, _change(named, period))


def _change(named: Named, period: OffsetPeriod) -> WallTimeChange:
    at_ms, wall_ms = named
    if wall_ms != at_ms + period.offset_ms:
        return WallTimeChange.MOVED if at_ms == period.start_ms else WallTimeChange.SHIFTED
    if wall_ms < period.start_ms + period.before_ms:
        return WallTimeChange.LAST
    return WallTimeChange.FIRST if wall_ms >= period.end_ms + period.after_ms else WallTimeChange.NONE


def _shown(named: Named, period: OffsetPeriod, change: WallTimeChange) -> Foreseen:
    utc = wall_time(named.at_ms).replace(tzinfo=UTC)
    local = utc.astimezone(timezone(timedelta(milliseconds=period.offset_ms)))
    return Foreseen(
        named.at_ms, _text(utc).replace("+00:00", "Z"), _text(local), _text(wall_time(named.wall_ms)), change
    )


def _text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds" if time.microsecond else "seconds")
