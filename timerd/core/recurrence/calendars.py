"""Calendars as wall-clock times: each field by its spans, all of which must match."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime
from functools import lru_cache

from timerd.core.recurrence.errors import SpecError
from timerd.core.recurrence.fields import HORIZON_YEARS, FieldTimes
from timerd.core.recurrence.offsets import wall_ms_of
from timerd.model.recurrence import Calendar, Span

FIRST_YEAR, LAST_YEAR = 1970, 9998
MAX_SPANS = 64
_RANGES = {
    "seconds": (0, 59),
    "minutes": (0, 59),
    "hours": (0, 23),
    "days": (-1, 31),
    "months": (1, 12),
    "years": (FIRST_YEAR, LAST_YEAR),
    "weekdays": (0, 7),
}


@lru_cache(maxsize=1024)
def calendar_times(part: Calendar, field: str) -> FieldTimes:
    """Raises SpecError."""
    seconds, minutes, hours, days, months, years, weekdays = (
        _values(getattr(part, name), name, f"{field}.{name}") for name in _RANGES
    )
    frequent = any(_comes_every_so_often(*each) for each in ((part.minutes, minutes, 60), (part.hours, hours, 24)))
    times = FieldTimes(
        seconds or tuple(range(60)),
        minutes or tuple(range(60)),
        hours or tuple(range(24)),
        frozenset(months or range(1, 13)),
        _day_rule(frozenset(days), frozenset(day % 7 for day in weekdays)),
        frequent,
        frozenset(years),
    )
    if times.next(wall_ms_of(datetime(min(years, default=2000), 1, 1)) - 1) is None:
        raise SpecError(
            field, f"The calendar never matches within {HORIZON_YEARS} years: choose a day that its months have."
        )
    return times


@lru_cache(maxsize=1024)
def _day_rule(days: frozenset[int], weekdays: frozenset[int]) -> Callable[[date], bool]:
    """Sunday is 0."""

    def is_day(day: date) -> bool:
        is_last = -1 in days and day.day == monthrange(day.year, day.month)[1]
        return (not days or day.day in days or is_last) and (not weekdays or day.isoweekday() % 7 in weekdays)

    return is_day


def _values(spans: tuple[Span, ...], name: str, field: str) -> tuple[int, ...]:
    """Ascending. Raises SpecError."""
    if len(spans) > MAX_SPANS:
        raise SpecError(field, f"There are {len(spans)} spans of {name}: at most {MAX_SPANS} are allowed.")
    low, high = _RANGES[name]
    values: set[int] = set()
    for first, last, step in spans:
        if not low <= first <= last <= high or step < 1 or (name == "days" and first < 1 and (first, last) != (-1, -1)):
            raise SpecError(field, _refused(name, Span(first, last, step)))
        values.update(range(first, last + 1, step))
    return tuple(sorted(values))


def _refused(name: str, span: Span) -> str:
    low, high = _RANGES[name]
    allowed = "from 1 to 31, or -1 for the last of the month" if name == "days" else f"from {low} to {high}"
    return (
        f"{name} from {span.first} to {span.last} by {span.step} is no span: values are {allowed}, the first is not "
        "above the last, and the step is 1 or more."
    )


def _comes_every_so_often(spans: tuple[Span, ...], values: tuple[int, ...], of: int) -> bool:
    """As in cron: everything, or a step."""
    return len(values) in (0, of) or (len(values) > 1 and any(span.step > 1 for span in spans))
