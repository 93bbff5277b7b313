"""What exclusions cover, on the wall clock or on the line of UTC: asked for the end of what covers a moment, so that a
whole day is passed in one step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from timerd.core.recurrence.errors import SpecError
from timerd.core.recurrence.fields import HORIZON_YEARS
from timerd.core.recurrence.offsets import DAY_MS

# So many steps may lie between two times that remain.
MAX_STEPS = 20_000
# 50 years, as cron has it.
HORIZON_MS = HORIZON_YEARS * 366 * DAY_MS
# Beyond the times that there are.
FOR_EVER_MS = 1 << 60


class Cover(Protocol):
    """A set of moments in ms. Immutable."""

    def end(self, at_ms: int) -> int:
        """The moment itself where it is not covered; else a later one, up to which everything is."""


class TimesToStep(Protocol):
    """A set of times that is stepped through."""

    @property
    def frequent(self) -> bool:
        """Whether they come every so often."""

    def next(self, at_ms: int) -> int | None:
        """The first one strictly later."""


@dataclass(frozen=True, slots=True)
class Points:
    """Covers each of `times`, and nothing between them."""

    times: TimesToStep

    def end(self, at_ms: int) -> int:
        return at_ms + (self.times.next(at_ms - 1) == at_ms)


@dataclass(frozen=True, slots=True)
class Spans:
    """Half-open, in order, apart from each other."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, spans: Iterable[tuple[int, int]]) -> Spans:
        """Joins those that touch."""
        joined: list[list[int]] = []
        for start, end in sorted(spans):
            if joined and start <= joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], end)
            else:
                joined.append([start, end])
        return cls(tuple(each[0] for each in joined), tuple(each[1] for each in joined))

    def end(self, at_ms: int) -> int:
        place = bisect_right(self.starts, at_ms) - 1
        return max(at_ms, self.ends[place]) if place >= 0 else at_ms


@dataclass(frozen=True, slots=True)
class CoveredTogether:
    """All that one of them covers."""

    covers: Sequence[Cover]

    def end(self, at_ms: int) -> int:
        """Raises SpecError where nothing is left for too long."""
        for _ in range(MAX_STEPS):
            end = at_ms
            for cover in self.covers:
                end = cover.end(end)
            if end == at_ms:
                return end
            at_ms = end
        raise nothing_left()


@dataclass(frozen=True, slots=True)
class Uncovered:
    """The times that a cover leaves."""

    times: TimesToStep
    cover: Cover

    @property
    def frequent(self) -> bool:
        return self.times.frequent

    def next(self, at_ms: int) -> int | None:
        """The first one strictly later, if less than `HORIZON_MS` are excluded until then. Raises SpecError where it
        takes too many steps."""
        last_ms = at_ms + HORIZON_MS
        for _ in range(MAX_STEPS):
            found = self.times.next(at_ms)
            if found is None or (end := self.cover.end(found)) == found:
                return found
            if end > last_ms:
                return None
            at_ms = end - 1
        raise nothing_left()


def nothing_left() -> SpecError:
    return SpecError(
        "exclude", f"More than {MAX_STEPS:,} times in a row are excluded: leave some, or exclude whole days or ranges."
    )
