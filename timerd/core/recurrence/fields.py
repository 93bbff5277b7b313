"""Wall-clock times by their fields, as cron expressions and calendars name them.

Stepping is by tables: the matching days of a month depend on its length and the weekday of its first only, and the
times of a day on none of both. A step costs about a microsecond; cronsim's own, an hour or a second at a time, twenty.
"""

from __future__ import annotations

from bisect import bisect_left
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from timerd.core.recurrence.offsets import EPOCH

# So long may nothing match; then nothing ever does.
HORIZON_YEARS = 50
_EPOCH_DAY = EPOCH.toordinal()
_DAY_S = 86_400
_LAST_YEAR = 9998


@dataclass(frozen=True, slots=True)
class FieldTimes:
    """Ascending values of each field, none of them empty but `years`, where that means all. `is_day` sees no month
    and no year but through length and weekdays. `frequent`: minutes or hours come every so often."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: frozenset[int]
    is_day: Callable[[date], bool]
    frequent: bool
    years: frozenset[int] = frozenset()

    def next(self, wall_ms: int) -> int | None:
        """The first one strictly later, if it is within `HORIZON_YEARS`."""
        day, second = divmod(wall_ms // 1000 + 1, _DAY_S)
        if self._has_day(day):
            found = self._in_day(second)
            if found is not None:
                return (day * _DAY_S + found) * 1000
        later = self._day_after(day)
        return None if later is None else (later * _DAY_S + self._first_in_day()) * 1000

    def end(self, wall_ms: int) -> int:
        """As a cover (covers.py): a second, or the minute, hour or day that is matched as a whole."""
        day, second = divmod(wall_ms // 1000, _DAY_S)
        if not self._has_day(day) or self._in_day(second) != second:
            return wall_ms
        whole = 1
        for values, full in ((self.seconds, 60), (self.minutes, 60), (self.hours, 24)):
            if len(values) < full:
                break
            whole *= full
        return (day * _DAY_S + second - second % whole + whole) * 1000

    def _first_in_day(self) -> int:
        return self.hours[0] * 3600 + self.minutes[0] * 60 + self.seconds[0]

    def _in_day(self, second: int) -> int | None:
        """The first second of a day from this one on."""
        minute, s = divmod(second, 60)
        h, m = divmod(minute, 60)
        hour = _from(self.hours, h)
        if hour == h:
            minute_ = _from(self.minutes, m)
            if minute_ == m and (found := _from(self.seconds, s)) is not None:
                return h * 3600 + m * 60 + found
            if minute_ == m:
                minute_ = _from(self.minutes, m + 1)
            if minute_ is not None:
                return h * 3600 + minute_ * 60 + self.seconds[0]
            hour = _from(self.hours, h + 1)
        return None if hour is None else hour * 3600 + self.minutes[0] * 60 + self.seconds[0]

    def _has_day(self, day: int) -> bool:
        at = date.fromordinal(day + _EPOCH_DAY)
        return at.day in self._days_of(at.year, at.month)

    def _day_after(self, day: int) -> int | None:
        at = date.fromordinal(day + _EPOCH_DAY)
        year, month, past = at.year, at.month, at.day
        for _ in range(12 * HORIZON_YEARS + 1):
            later = _from(self._days_of(year, month), past + 1)
            if later is not None:
                return date(year, month, later).toordinal() - _EPOCH_DAY
            year, month, past = (year, month + 1, 0) if month < 12 else (year + 1, 1, 0)
            if year > _LAST_YEAR:
                break
        return None

    def _days_of(self, year: int, month: int) -> tuple[int, ...]:
        if month not in self.months or (self.years and year not in self.years):
            return ()
        return _matching_days(self.is_day, *_month_range(year, month))


def _from(values: tuple[int, ...], value: int) -> int | None:
    """The first of ascending values that is not below this one."""
    place = bisect_left(values, value)
    return values[place] if place < len(values) else None


@lru_cache(maxsize=2048)
def _month_range(year: int, month: int) -> tuple[int, int]:
    return monthrange(year, month)


@lru_cache(maxsize=4096)
def _matching_days(is_day: Callable[[date], bool], first_weekday: int, length: int) -> tuple[int, ...]:
    """Of any month of this shape."""
    year, month = _month_like(first_weekday, length)
    return tuple(day for day in range(1, length + 1) if is_day(date(year, month, day)))


@lru_cache(maxsize=28)
def _month_like(first_weekday: int, length: int) -> tuple[int, int]:
    months = ((year, month) for year in range(2000, 2029) for month in range(1, 13))
    return next(each for each in months if _month_range(*each) == (first_weekday, length))
