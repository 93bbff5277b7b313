"""RFC 5545 rules as wall-clock times: dateutil steps, from a DTSTART that is brought near first.

dateutil begins at DTSTART each time, and looks for a match up to the year 9999. So a rule is stepped in blocks, each
from a DTSTART of the same phase; and within the last cycle of 400 years, in which the calendar repeats to the day.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice

from dateutil.rrule import rrulestr

from timerd.core.recurrence.errors import SpecError
from timerd.core.recurrence.offsets import LAST_MS, wall_ms_of, wall_time
from timerd.core.recurrence.rule_text import (
    DAILY,
    HOURLY,
    MINUTELY,
    MONTHLY,
    SECONDLY,
    WEEKDAYS,
    WEEKLY,
    YEARLY,
    RuleText,
    read_rule,
)  # fmt: skip
from timerd.core.recurrence.times import ListedTimes

# More times than that in one year, month, week or day of a rule are skipped too slowly.
MAX_IN_PERIOD = 1_440
_IN_BLOCK = 64
# With as much again to look for the time after it, before dateutil ends with the year 9999.
_LONGEST_BLOCK = timedelta(days=50 * 365)
_CYCLE_YEARS, _CYCLE = 400, timedelta(days=146_097)
_LAST_BEGIN, _LAST_YEAR = 9_849, 9_998
_PERIODS = {
    YEARLY: timedelta(days=365), MONTHLY: timedelta(days=30), WEEKLY: timedelta(weeks=1), DAILY: timedelta(days=1),
    HOURLY: timedelta(hours=1), MINUTELY: timedelta(minutes=1), SECONDLY: timedelta(seconds=1),
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class RuleTimes:
    """The wall-clock times of a rule, of [DTSTART, until]. There is one for each text, so it is told by identity."""

    text: RuleText
    block_ms: int

    @property
    def frequent(self) -> bool:
        return self.text.frequent

    def next(self, wall_ms: int) -> int | None:
        """The first one strictly later."""
        wall_ms = max(wall_ms, wall_ms_of(self.text.dtstart) - 1)
        found = self._of_rule(wall_ms)
        if self.text.until is not None and found is not None and found > wall_ms_of(self.text.until):
            return None
        return found

    def _of_rule(self, wall_ms: int) -> int | None:
        block = _block(self, wall_ms // self.block_ms)
        place = bisect_right(block, wall_ms)
        return block[place] if place < len(block) else None


@lru_cache(maxsize=1024)
def _block(times: RuleTimes, number: int) -> tuple[int, ...]:
    """The times of one stretch of the wall clock, and the first one after it."""
    begin, end = (wall_time(min(each * times.block_ms, LAST_MS)) for each in (number, number + 1))
    found: list[int] = []
    for time in _from(times.text, begin):
        if time >= begin:
            found.append(wall_ms_of(time))
        if time >= end:
            break
    return tuple(found)


def _from(text: RuleText, wall: datetime) -> Iterator[datetime]:
    """From at the latest this time on, as dateutil steps it 400 years later, or several times as many."""
    begin = _near_dtstart(text, wall)
    cycles = (_LAST_BEGIN - begin.year) // _CYCLE_YEARS
    for time in rrulestr(text.rule, dtstart=begin + cycles * _CYCLE):
        if not isinstance(time, datetime) or time.year - cycles * _CYCLE_YEARS > _LAST_YEAR:
            return
        yield time - cycles * _CYCLE


def _near_dtstart(text: RuleText, wall: datetime) -> datetime:
    """The last beginning of a period of the rule that is not after `wall`; DTSTART itself in its own period."""
    dtstart, step = text.dtstart, text.interval
    if text.frequency <= MONTHLY:
        size = 12 if text.frequency == YEARLY else 1
        first = dtstart.year * 12 + dtstart.month - 1 if size == 1 else dtstart.year * 12
        passed = (wall.year * 12 + wall.month - 1 - first) // (size * step)
        month = first + passed * size * step
        return datetime(month // 12, month % 12 + 1, 1) if passed > 0 else dtstart
    begin = _period_begin(text)
    passed = (wall - begin) // (step * _PERIODS[text.frequency])
    return begin + passed * step * _PERIODS[text.frequency] if passed > 0 else dtstart


def _period_begin(text: RuleText) -> datetime:
    """Of DTSTART's own week, day, hour, minute or second."""
    dtstart, frequency = text.dtstart, text.frequency
    if frequency == WEEKLY:
        first = WEEKDAYS.index(dict(text.by).get("WKST", "MO"))
        dtstart -= timedelta(days=(dtstart.weekday() - first) % 7)
    kept = (dtstart.hour, dtstart.minute, dtstart.second)[: max(0, frequency - DAILY)]
    return datetime(dtstart.year, dtstart.month, dtstart.day) + timedelta(
        seconds=sum(value * unit for value, unit in zip(kept, (3600, 60, 1), strict=False))
    )


@dataclass(frozen=True, slots=True)
class RuleSet:
    """A rule with the times that are added and left out one by one."""

    rule: RuleTimes | ListedTimes
    added: ListedTimes
    left_out: frozenset[int]
    frequent: bool

    def next(self, wall_ms: int) -> int | None:
        """The first one strictly later."""
        while True:
            found = [each for each in (self.rule.next(wall_ms), self.added.next(wall_ms)) if each is not None]
            if not found:
                return None
            if (wall_ms := min(found)) not in self.left_out:
                return wall_ms


def rule_times(text: str, field: str) -> tuple[RuleSet, int | None]:
    """With the last instant that its UNTIL allows. Raises SpecError."""
    try:
        return _compiled(text)
    except ValueError as error:
        raise SpecError(field, f"The rule {text[:128]!r} {error}") from None


@lru_cache(maxsize=1024)
def _compiled(text: str) -> tuple[RuleSet, int | None]:
    """Raises ValueError."""
    read = read_rule(text)
    times, first = _first(read) if _has_days(read) else (None, None)
    if times is None or first is None:
        raise ValueError("never matches: choose a day that its months have, at a phase that its INTERVAL meets.")
    rule = ListedTimes(tuple(islice(_all(times), read.count))) if read.count else times
    added, left_out = (tuple(sorted(set(map(wall_ms_of, each)))) for each in (read.rdates, read.exdates))
    until_ms = wall_ms_of(read.until_utc) if read.until_utc else None
    return RuleSet(rule, ListedTimes(added), frozenset(left_out), read.frequent), until_ms


def _has_days(read: RuleText) -> bool:
    """Whether its days exist at all. By the year that is found out at once, by the second it takes a second."""
    named = [f"{name}={value}" for name, value in read.by if name in ("BYMONTH", "BYMONTHDAY", "BYYEARDAY")]
    if read.frequency <= MONTHLY or not named:
        return True
    yearly = rrulestr(f"RRULE:FREQ=YEARLY;{';'.join(named)}", dtstart=datetime(_LAST_BEGIN, 1, 1))
    return next(iter(yearly), None) is not None


def _first(read: RuleText) -> tuple[RuleTimes, int | None]:
    try:
        times = RuleTimes(read, _block_ms(read))
        return times, times.next(wall_ms_of(read.dtstart) - 1)
    except ValueError as error:
        raise ValueError(f"cannot be stepped ({error}): change INTERVAL or what it is combined with.") from None


def _all(times: RuleTimes) -> Iterator[int]:
    found = times.next(wall_ms_of(times.text.dtstart) - 1)
    while found is not None:
        yield found
        found = times.next(found)


def _block_ms(text: RuleText) -> int:
    """Long enough for some tens of times."""
    period = _PERIODS[text.frequency]
    end = _near_dtstart(text, text.dtstart) + period
    in_period = sum(1 for _ in islice(_while_before(_from(text, text.dtstart), end), MAX_IN_PERIOD + 1))
    if in_period > MAX_IN_PERIOD:
        raise ValueError(f"more than {MAX_IN_PERIOD} times in one period of FREQ")
    block = min(period * text.interval * max(1, _IN_BLOCK // max(1, in_period)), _LONGEST_BLOCK)
    return block // timedelta(milliseconds=1)


def _while_before(times: Iterator[datetime], end: datetime) -> Iterator[datetime]:
    for time in times:
        if time >= end:
            return
        yield time
