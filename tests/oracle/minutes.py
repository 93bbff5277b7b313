"""Every minute of UTC in some windows of a zone, with the wall-clock time that it has there.

Whether a minute is named is asked of its wall-clock time; which minutes have one twice, and which wall-clock times no
minute has, is seen by looking at all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib.resources import files
from random import Random
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = 1_440
# More than any offset changes by, so that a wall-clock time is seen twice if it comes twice.
_MARGIN = 26 * 60


def tz(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def minute_of(time: datetime) -> int:
    return (time - EPOCH) // MINUTE


def wall_of(minute: int, zone: ZoneInfo) -> int:
    """In minutes since 1970 by the wall clock."""
    local = (EPOCH + minute * MINUTE).astimezone(zone).replace(tzinfo=UTC)
    return (local - EPOCH) // MINUTE


@dataclass(frozen=True)
class Walls:
    """The fields of some wall-clock times, as columns."""

    wall: Ints

    @cached_property
    def minute(self) -> Ints:
        return self.wall % 60

    @cached_property
    def hour(self) -> Ints:
        return self.wall // 60 % 24

    @cached_property
    def date(self) -> npt.NDArray[np.datetime64]:
        return (self.wall // DAY).astype("datetime64[D]")

    @cached_property
    def weekday(self) -> Ints:
        """Sunday is 0: 1970 began on a Thursday."""
        return (self.wall // DAY + 4) % 7

    @cached_property
    def month(self) -> Ints:
        months: Ints = self.date.astype("datetime64[M]").astype(np.int64) % 12 + 1
        return months

    @cached_property
    def year(self) -> Ints:
        years: Ints = self.date.astype("datetime64[Y]").astype(np.int64) + 1970
        return years

    @cached_property
    def day(self) -> Ints:
        first = self.date.astype("datetime64[M]").astype("datetime64[D]")
        days: Ints = (self.date - first).astype(np.int64) + 1
        return days

    @cached_property
    def month_days(self) -> Ints:
        months = self.date.astype("datetime64[M]")
        days: Ints = ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(np.int64)
        return days


@dataclass(frozen=True)
class Gap:
    """`minute` is the first one after it, `missing` the wall-clock times that no minute has."""

    minute: int
    missing: Walls


@dataclass(frozen=True)
class Window:
    """[begin, end) in minutes of UTC since 1970; the columns go beyond both."""

    begin: int
    end: int
    minute: Ints
    walls: Walls
    is_first: Bools
    is_last: Bools
    gaps: Sequence[Gap]

    @classmethod
    def of(cls, begin: int, end: int, zone: ZoneInfo) -> Window:
        minute = np.arange(begin - _MARGIN, end + _MARGIN)
        wall = np.array([wall_of(int(each), zone) for each in minute])
        is_first, is_last = np.zeros(len(wall), bool), np.zeros(len(wall), bool)
        is_first[np.unique(wall, return_index=True)[1]] = True
        is_last[len(wall) - 1 - np.unique(wall[::-1], return_index=True)[1]] = True
        jumps = np.flatnonzero(np.diff(wall) > 1)
        gaps = [Gap(int(minute[j + 1]), Walls(np.arange(wall[j] + 1, wall[j + 1]))) for j in jumps]
        return cls(begin, end, minute, Walls(wall), is_first, is_last, gaps)


def changes(zone: ZoneInfo, first_year: int, last_year: int) -> Iterator[int]:
    """The days, by their first minute, within which the offset changes."""
    begin, end = (minute_of(datetime(year, 1, 1, tzinfo=UTC)) for year in (first_year, last_year + 1))
    for minute in range(begin, end, DAY):
        if wall_of(minute + DAY, zone) - wall_of(minute, zone) != DAY:
            yield minute


def windows(zone: ZoneInfo, years: tuple[int, int], random: Random, weeks: int) -> list[Window]:
    """Three days before and after each change, and so many weeks of each year."""
    found = [Window.of(day - 3 * DAY, day + 4 * DAY, zone) for day in changes(zone, *years)]
    for year in range(years[0], years[1] + 1):
        for _ in range(weeks):
            begin = minute_of(datetime(year, 1, 1, tzinfo=UTC)) + random.randrange(51 * 7 * DAY)
            found.append(Window.of(begin, begin + 7 * DAY, zone))
    return found
