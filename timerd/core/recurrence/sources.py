"""Where instants come from: times of the wall clock through the mapping, or instants that no zone moves; each less what
is excluded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from itertools import takewhile
from typing import Protocol

from timerd.core.recurrence.covers import FOR_EVER_MS, MAX_STEPS, Cover, nothing_left
from timerd.core.recurrence.offsets import OffsetPeriod, period_at
from timerd.core.recurrence.wall_clock import Named, WallClock, WallTimes


class Source(Protocol):
    """The instants of one part."""

    def after(self, after_ms: int) -> Iterator[Named]:
        """Ascending, all strictly later; one comes once for each time that it is named by."""

    def left_out(self, period: OffsetPeriod) -> Iterator[int]:
        """The wall-clock times that the beginning of this period skips, because its gap is to skip them."""


@dataclass(frozen=True, slots=True)
class WallSource:
    """Wall-clock times, up to before `end_ms`."""

    clock: WallClock
    times: WallTimes
    end_ms: int = FOR_EVER_MS

    def after(self, after_ms: int) -> Iterator[Named]:
        """As Source says."""
        found = self.clock.after(self.times, after_ms)
        return found if self.end_ms == FOR_EVER_MS else takewhile(lambda each: each.at_ms < self.end_ms, found)

    def left_out(self, period: OffsetPeriod) -> Iterator[int]:
        """As Source says."""
        return self.clock.left_out(self.times, period)


@dataclass(frozen=True, slots=True)
class InstantSource:
    """Instants, less those whose local time is covered."""

    instants: WallTimes
    zone: tzinfo
    covered: Cover | None

    def after(self, after_ms: int) -> Iterator[Named]:
        """As Source says."""
        at_ms = self.instants.next(after_ms)
        steps = 0
        while at_ms is not None and (period := period_at(self.zone, at_ms)) is not None:
            wall = at_ms + period.offset_ms
            end = self.covered.end(wall) if self.covered else wall
            if end == wall:
                yield Named(at_ms, wall)
                steps = 0
            elif (steps := steps + 1) > MAX_STEPS:
                raise nothing_left()
            past = min(end - period.offset_ms, period.end_ms) - 1
            at_ms = self.instants.next(max(at_ms, past))

    def left_out(self, period: OffsetPeriod) -> Iterator[int]:
        """None: every instant exists."""
        return iter(())


@dataclass(frozen=True, slots=True)
class Barred:
    """A source less the instants that are covered."""

    source: Source
    covered: Cover

    def after(self, after_ms: int) -> Iterator[Named]:
        """As Source says."""
        found, steps = self.source.after(after_ms), 0
        while (each := next(found, None)) is not None:
            end = self.covered.end(each.at_ms)
            if end == each.at_ms:
                yield each
                steps = 0
            elif (steps := steps + 1) > MAX_STEPS:
                raise nothing_left()
            elif end > each.at_ms + 1:
                found = self.source.after(end - 1)

    def left_out(self, period: OffsetPeriod) -> Iterator[int]:
        """As Source says."""
        return self.source.left_out(period)
