"""The text of an RFC 5545 rule, checked: what is left of it is a rule that ends nowhere, beside its limits.

dateutil takes much that never ends or never matches, so each value is looked at here first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

MAX_TEXT = 4_096
FIRST_YEAR, LAST_YEAR = 1900, 2500
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY, SECONDLY = range(7)
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MAX_COUNT = 10_000
# 50 years at most.
_MAX_INTERVALS = (50, 600, 2_600, *[10_000] * 4)
OfDtstart = Callable[[datetime], str]
_UNANCHORED = datetime(1970, 1, 1)
# Lowest and highest value, and whether it may be counted from the end by a minus.
_NUMBERS = {
    "BYSECOND": (0, 59, False),
    "BYMINUTE": (0, 59, False),
    "BYHOUR": (0, 23, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 53, True),
    "BYMONTH": (1, 12, False),
    "BYSETPOS": (1, 366, True),
}
_KNOWN = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_NUMBERS}
_BYDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_TIME = re.compile(r"(\d{8})(T\d{6})?(Z?)")


@dataclass(frozen=True, slots=True)
class RuleText:
    """`by` holds all that dateutil would otherwise take from DTSTART, so that this may be moved. `until` is the
    last wall-clock time; `until_utc` the last instant."""

    frequency: int
    interval: int
    dtstart: datetime
    by: tuple[tuple[str, str], ...]
    count: int = 0
    until: datetime | None = None
    until_utc: datetime | None = None
    rdates: tuple[datetime, ...] = ()
    exdates: tuple[datetime, ...] = ()
    frequent: bool = False

    @property
    def rule(self) -> str:
        by = "".join(f";{name}={value}" for name, value in self.by)
        return f"RRULE:FREQ={FREQUENCIES[self.frequency]};INTERVAL={self.interval}{by}"


def read_rule(text: str) -> RuleText:
    """Raises ValueError with what follows the rule in a sentence."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"has {len(text)} characters: at most {MAX_TEXT} are allowed.")
    lines = [_line(each) for each in text.upper().split()]
    rules = [value for name, value in lines if name == "RRULE"]
    starts = [_times(value) for name, value in lines if name == "DTSTART"]
    if len(rules) != 1 or len(starts) > 1 or any(len(each) != 1 for each in starts):
        raise ValueError("has not exactly one RRULE and at most one DTSTART: make several parts of it.")
    values = _values(rules[0])
    dates = {each: tuple(t for name, v in lines if name == each for t in _times(v)) for each in ("RDATE", "EXDATE")}
    return _joined(values, starts[0][0] if starts else None, dates)


def _line(line: str) -> tuple[str, str]:
    """Name and value."""
    head, colon, value = line.rpartition(":")
    name, *parameters = head.split(";") if colon else ["RRULE"]
    if name not in ("RRULE", "DTSTART", "RDATE", "EXDATE"):
        raise ValueError(f"has the line {name[:32]}: allowed are RRULE, DTSTART, RDATE and EXDATE.")
    if any(each not in ("VALUE=DATE", "VALUE=DATE-TIME") for each in parameters):
        raise ValueError(f"has {';'.join(parameters)[:64]}: its times are those of the schedule's `zone`.")
    return name, value


def _times(value: str) -> list[datetime]:
    """Of the wall clock."""
    times = [_time(each) for each in value.split(",")]
    if any(is_utc for _, is_utc, _ in times):
        raise ValueError(f"has {value[:64]} in UTC: give times of the schedule's `zone`, without Z.")
    return [time for time, _, _ in times]


def _time(text: str) -> tuple[datetime, bool, bool]:
    """Whether it is of UTC, and whether it is a day."""
    if not (found := _TIME.fullmatch(text)):
        raise ValueError(f"has {text[:32]!r} as a time: write 20261025T023000.")
    try:
        time = datetime.fromisoformat(found[1] + (found[2] or ""))
    except ValueError:
        raise ValueError(f"has {text[:32]!r} as a time, which there is not: give one of the calendar.") from None
    if not FIRST_YEAR <= time.year <= LAST_YEAR:
        raise ValueError(f"has a time of the year {time.year}: give years from {FIRST_YEAR} to {LAST_YEAR}.")
    return time, bool(found[3]), not found[2]


def _values(rule: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for each in rule.split(";"):
        name, _, value = each.partition("=")
        if name not in _KNOWN or name in values or not value:
            raise ValueError(f"has {each[:32]!r}: give each of {', '.join(sorted(_KNOWN))} once at most, with a value.")
        values[name] = value
    if values.get("FREQ") not in FREQUENCIES:
        raise ValueError(f"needs FREQ, one of {', '.join(FREQUENCIES)}.")
    for name in values.keys() & _NUMBERS.keys():
        _check_numbers(name, values[name])
    if "COUNT" in values and "UNTIL" in values:
        raise ValueError("has COUNT and UNTIL: give one of them.")
    if values.get("WKST", "MO") not in WEEKDAYS:
        raise ValueError(f"has WKST={values['WKST'][:16]}: give one of {', '.join(WEEKDAYS)}.")
    return values


def _check_numbers(name: str, value: str) -> None:
    low, high, signed = _NUMBERS[name]
    for each in value.split(","):
        digits = each.lstrip("+-") if signed and len(each) - len(each.lstrip("+-")) < 2 else each
        if not (digits.isascii() and digits.isdigit() and len(digits) < 4 and low <= int(digits) <= high):
            raise ValueError(f"has {name}={value[:32]}: give values from {low} to {high}{' or -1 down' * signed}.")


def _natural(values: dict[str, str], name: str, high: int) -> int:
    text = values.get(name, "1")
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= high):
        raise ValueError(f"has {name}={text[:16]}: give a number from 1 to {high}.")
    return int(text)


def _joined(values: dict[str, str], dtstart: datetime | None, dates: dict[str, tuple[datetime, ...]]) -> RuleText:
    frequency = FREQUENCIES.index(values["FREQ"])
    interval = _natural(values, "INTERVAL", _MAX_INTERVALS[frequency])
    count = _natural(values, "COUNT", MAX_COUNT) if "COUNT" in values else 0
    _check_days(values.get("BYDAY"), frequency)
    if dtstart is None and (interval > 1 or count or _taken_from_dtstart(values, frequency).keys() & _DAYS):
        raise ValueError("takes its day, INTERVAL or COUNT from DTSTART: give one, or name the day (BYDAY=MO).")
    begin = dtstart or _UNANCHORED
    by = {name: values[name] for name in ("WKST", "BYDAY", *_NUMBERS) if name in values}
    by |= {name: of(begin) for name, of in _taken_from_dtstart(values, frequency).items()}
    until, until_utc = _until(values.get("UNTIL"))
    return RuleText(
        frequency, interval, begin, tuple(by.items()), count, until, until_utc,
        dates["RDATE"], dates["EXDATE"], _comes_every_so_often(values, frequency),
    )  # fmt: skip


def _check_days(days: str | None, frequency: int) -> None:
    for each in days.split(",") if days else ():
        found = _BYDAY.fullmatch(each)
        if not found or (found[1] and not 1 <= abs(int(found[1])) <= 53):
            raise ValueError(f"has BYDAY={days}: give weekdays such as MO, or 1MO and -1FR of a month or year.")
        if found[1] and frequency > MONTHLY:
            raise ValueError(f"has BYDAY={days}: a number needs FREQ=MONTHLY or YEARLY.")


_DAYS = {"BYMONTH", "BYMONTHDAY", "BYDAY"}


def _taken_from_dtstart(values: dict[str, str], frequency: int) -> dict[str, OfDtstart]:
    """What the rule leaves open, as RFC 5545 has it."""
    taken: dict[str, OfDtstart] = {}
    if not values.keys() & {"BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY"}:
        if frequency <= MONTHLY:
            taken["BYMONTHDAY"] = lambda dtstart: str(dtstart.day)
        if frequency == YEARLY and "BYMONTH" not in values:
            taken["BYMONTH"] = lambda dtstart: str(dtstart.month)
        if frequency == WEEKLY:
            taken["BYDAY"] = lambda dtstart: WEEKDAYS[dtstart.weekday()]
    clock = (("BYHOUR", HOURLY, "%H"), ("BYMINUTE", MINUTELY, "%M"), ("BYSECOND", SECONDLY, "%S"))
    return taken | {name: _shown(form) for name, of, form in clock if frequency < of and name not in values}


def _shown(form: str) -> OfDtstart:
    return lambda dtstart: dtstart.strftime(form)


def _until(text: str | None) -> tuple[datetime | None, datetime | None]:
    """A day is included as a whole."""
    if text is None:
        return None, None
    time, is_utc, is_day = _time(text)
    last = time + timedelta(days=1, milliseconds=-1) if is_day else time
    return (None, last) if is_utc else (last, None)


def _comes_every_so_often(values: dict[str, str], frequency: int) -> bool:
    """As in cron: neither its hour nor its minute is open, or takes all values."""

    def is_open(name: str, last: int, of: int) -> bool:
        return frequency > last if name not in values else len(set(values[name].split(","))) == of

    return is_open("BYHOUR", DAILY, 24) or is_open("BYMINUTE", HOURLY, 60)
