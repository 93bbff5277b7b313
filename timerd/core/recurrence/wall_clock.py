"""The one mapping from wall-clock times to instants, with what becomes of times that do not exist or come twice.

It goes through the periods of one offset in their order. Within one, a wall-clock time is its instant plus the offset;
what a gap or a repeat changes happens at the seams alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from heapq import merge
from typing import NamedTuple, Protocol

from timerd.core.recurrence.offsets import OffsetPeriod, period_at
from timerd.model.recurrence import Gap, Repeat
from timerd.model.task import HORIZON_MS

# No two offsets of a zone are further apart (Apia, 2011: a day).
_WIDEST_MS = 48 * 3_600_000


class WallTimes(Protocol):
    """A set of wall-clock times, in ms since 1970 by the wall clock. Immutable."""

    @property
    def frequent(self) -> bool:
        """Whether they come every so often within an hour or a day, rather than at a fixed hour and minute."""

    def next(self, wall_ms: int) -> int | None:
        """The first one strictly later."""


class Named(NamedTuple):
    """An instant, and the wall-clock time that a spec names it by."""

    at_ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class WallClock:
    """A zone with the policies for one kind of times: none of them is AUTO."""

    zone: tzinfo
    gap: Gap
    repeat: Repeat

    @classmethod
    def of(cls, zone: tzinfo, gap: Gap, repeat: Repeat, frequent: bool) -> WallClock:
        """AUTO is cron's own rule: a daily job runs once on both days, a frequent one keeps its pace."""
        if gap == Gap.AUTO:
            gap = Gap.SKIP if frequent else Gap.NEXT
        if repeat == Repeat.AUTO:
            repeat = Repeat.BOTH if frequent else Repeat.FIRST
        return cls(zone, gap, repeat)

    def after(self, times: WallTimes, after_ms: int) -> Iterator[Named]:
        """Ascending by instant, all strictly later; an instant comes once for each time that it is named by. Ends where
        all times of `HORIZON_MS` lie in gaps that are skipped."""
        period, last_ms = period_at(self.zone, after_ms), after_ms + HORIZON_MS
        while period is not None and period.start_ms <= last_ms:
            for each in self._within(period, times, after_ms):
                if each.at_ms > after_ms:
                    yield each
                    last_ms = each.at_ms + HORIZON_MS
            period = self._following(period, times)

    def left_out(self, times: WallTimes, period: OffsetPeriod) -> Iterator[int]:
        """The times that its beginning leaves out, where such are skipped."""
        if self.gap == Gap.SKIP:
            yield from _gap_walls(period, times)

    def _following(self, period: OffsetPeriod, times: WallTimes) -> OffsetPeriod | None:
        """The next one that may have any of the times."""
        upcoming = times.next(period.end_ms + min(period.offset_ms, period.after_ms) - 1)
        if upcoming is None:
            return None
        return period_at(self.zone, max(period.end_ms, upcoming - _WIDEST_MS))

    def _within(self, period: OffsetPeriod, times: WallTimes, after_ms: int) -> Iterator[Named]:
        start_ms, end_ms, offset_ms, before_ms, again_ms = period
        first, end = start_ms + offset_ms, end_ms + offset_ms
        if self.repeat == Repeat.FIRST and before_ms > offset_ms:
            first = start_ms + before_ms
        elif self.repeat == Repeat.LAST and again_ms < offset_ms:
            end = end_ms + again_ms
        plain = (Named(wall - offset_ms, wall) for wall in _walls(times, max(first - 1, after_ms + offset_ms), end))
        if before_ms >= offset_ms or self.gap == Gap.SKIP or after_ms >= start_ms + offset_ms - before_ms:
            return plain
        return merge(self._of_gap(period, times), plain)

    def _of_gap(self, period: OffsetPeriod, times: WallTimes) -> Iterator[Named]:
        """The times that the beginning of the period leaves out."""
        for wall in _gap_walls(period, times):
            yield Named(period.start_ms if self.gap == Gap.NEXT else wall - period.before_ms, wall)


def _gap_walls(period: OffsetPeriod, times: WallTimes) -> Iterator[int]:
    return _walls(times, period.start_ms + period.before_ms - 1, period.start_ms + period.offset_ms)


def _walls(times: WallTimes, after_ms: int, end_ms: int) -> Iterator[int]:
    wall = times.next(after_ms)
    while wall is not None and wall < end_ms:
        yield wall
        wall = times.next(wall)
