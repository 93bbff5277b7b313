"""Times that are listed one by one, in ISO form: wall-clock times, or instants where an offset or `Z` follows."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from timerd.core.recurrence.errors import SpecError
from timerd.core.recurrence.offsets import wall_ms_of
from timerd.model.recurrence import MAX_TIMES, At


@dataclass(frozen=True, slots=True)
class ListedTimes:
    """Sorted, in ms. They are wall-clock times or instants: the part that made them knows."""

    at_ms: tuple[int, ...]
    frequent: bool = False

    def next(self, at_ms: int) -> int | None:
        """The first one strictly later."""
        place = bisect_right(self.at_ms, at_ms)
        return self.at_ms[place] if place < len(self.at_ms) else None


@lru_cache(maxsize=1024)
def listed(part: At, field: str) -> tuple[ListedTimes, ListedTimes]:
    """The wall-clock times, and the instants. Raises SpecError."""
    if not 0 < len(part.times) <= MAX_TIMES:
        raise SpecError(
            f"{field}.times", f"There are {len(part.times)} times: give 1 to {MAX_TIMES}, and more parts for more."
        )
    walls: set[int] = set()
    instants: set[int] = set()
    for place, text in enumerate(part.times):
        at_ms, is_instant = iso_time(text, f"{field}.times[{place}]")
        (instants if is_instant else walls).add(at_ms)
    return ListedTimes(tuple(sorted(walls))), ListedTimes(tuple(sorted(instants)))


def iso_time(text: str, field: str) -> tuple[int, bool]:
    """In ms, and whether it is an instant. Raises SpecError."""
    try:
        time = datetime.fromisoformat(text)
        is_instant = time.tzinfo is not None
        return wall_ms_of(time.astimezone(UTC).replace(tzinfo=None) if is_instant else time), is_instant
    except (ValueError, OverflowError):
        raise SpecError(
            field, f"{text[:64]!r} is no time: write 2026-10-25T02:30:00 for the zone's, 2026-10-25T00:30:00Z for UTC."
        ) from None
