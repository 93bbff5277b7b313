"""Cron expressions as wall-clock times: cronsim parses them and says which days match, always without a zone.

What cronsim does not know is put into its words first: `H`, `@daily`, `?`, ranges of weekdays that end with Sunday.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from functools import lru_cache
from hashlib import blake2b

from cronsim import CronSim, CronSimError

from timerd.core.recurrence.errors import SpecError
from timerd.core.recurrence.fields import HORIZON_YEARS, FieldTimes

MAX_EXPRESSION = 256
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = ("second", "minute", "hour", "day of month", "month", "day of week")
_VALUES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_COUNTS = (60, 60, 24, 31, 12, 7)
# What `H` chooses from: days that every month has, and Sunday once.
_HASHED = ((0, 59), (0, 59), (0, 23), (1, 28), (1, 12), (0, 6))
_H = re.compile(r"(?<![\w-])H(?:\((\d{1,4})-(\d{1,4})\))?(?:/(\d{1,4}))?(?![\w(/-])")
_TO_SUNDAY = re.compile(r"\b(MON|TUE|WED|THU|FRI|SAT|[1-6])-SUN\b")
# cronsim takes 30-30/10 for 30/10, which goes on to 59.
_RANGE_OF_ONE = re.compile(r"\b(\w+)-\1/0*[1-9]\d*")
_STEP = re.compile(r"/0*(\d{1,9})")
_NEVER = f"never matches within {HORIZON_YEARS} years: choose a day that its months have."
_YEAR_2000 = datetime(2000, 1, 1)
_YEAR_2000_MS = 946_684_800_000


def cron_times(expression: str, field: str, seed: bytes) -> FieldTimes:
    """Raises SpecError."""
    return _times(expression, field, seed, "0")


def cron_cover(expression: str, field: str, seed: bytes) -> FieldTimes:
    """As an exclusion, in which five fields stand for whole minutes. Raises SpecError."""
    return _times(expression, field, seed, "*")


def refuse_long_steps(expression: str, field: str) -> None:
    """A step beyond its field, as `*/90` of minutes, names its first value alone: that comes every hour, which nobody
    means. So it is refused where it is asked for; what is stored goes on. Raises SpecError."""
    fields = expression.strip().upper().split()
    fields = ["0", *fields] if len(fields) == 5 else fields
    for name, values, text in zip(_FIELDS, _COUNTS, fields, strict=False):
        for step in (int(found[1]) for found in _STEP.finditer(text)):
            if step > values:
                raise SpecError(
                    field,
                    f"The cron expression {expression[:MAX_EXPRESSION]!r} has {text!r} as {name}, of which there are "
                    f"only {values}: give a step from 1 to {values}. A longer period is a part of the form `every`.",
                )


def is_hashed(expression: str) -> bool:
    """Whether it depends on the seed."""
    return _H.search(expression.upper()) is not None


def _times(expression: str, field: str, seed: bytes, seconds: str) -> FieldTimes:
    try:
        return _hashed_times(expression, seed, seconds) if is_hashed(expression) else _plain_times(expression, seconds)
    except ValueError as error:
        raise SpecError(field, f"The cron expression {expression[:MAX_EXPRESSION]!r} {error}") from None


def _hashed_times(expression: str, seed: bytes, seconds: str) -> FieldTimes:
    return _compiled(resolved(expression, seed, seconds))


@lru_cache(maxsize=1024)
def _plain_times(expression: str, seconds: str) -> FieldTimes:
    return _compiled(resolved(expression, b"", seconds))


def resolved(expression: str, seed: bytes, seconds: str = "0") -> str:
    """In six fields, of which the first is `seconds` where it is not given; without `H`, `@...` and `?`. Raises
    ValueError with what follows the expression in a sentence."""
    text = expression.strip()
    if len(text) > MAX_EXPRESSION:
        raise ValueError(f"has {len(text)} characters: at most {MAX_EXPRESSION} are allowed, so make several of it.")
    if "TZ=" in text:
        raise ValueError("names a zone: give it in `zone`, where it holds for all parts.")
    fields = _NAMED.get(text.lower(), text).upper().split()
    if text.startswith("@") and text.lower() not in _NAMED:
        raise ValueError(f"is none of {', '.join(_NAMED)}. A fixed period is a part of the form `every`.")
    if len(fields) not in (5, 6):
        raise ValueError(f"has {len(fields)} fields: give five, or six with the seconds first.")
    if len(fields) == 5:
        fields.insert(0, seconds)
    return " ".join(_resolved(place, each, seed) for place, each in enumerate(fields))


def _resolved(place: int, text: str, seed: bytes) -> str:
    if place == 5 and "SUN" in text:
        text = _TO_SUNDAY.sub(r"\1-7", text)
    if text == "?" and place in (3, 5):
        return "*"
    if "H" in text:
        text = _H.sub(lambda found: _hashed(place, found, seed), text)
    return _RANGE_OF_ONE.sub(r"\1", text) if "-" in text else text


def _hashed(place: int, found: re.Match[str], seed: bytes) -> str:
    first, last = _HASHED[place]
    if found[1]:
        low, high = _VALUES[place]
        first, last = int(found[1]), int(found[2])
        if not low <= first <= last <= high:
            raise ValueError(f"has {found[0]} as {_FIELDS[place]}: give a range within {low} to {high}.")
    chosen = int.from_bytes(blake2b(seed, digest_size=8, person=b"timerd.cron.%d" % place).digest(), "big")
    if not found[3]:
        return str(first + chosen % (last - first + 1))
    if not 0 < (step := int(found[3])) <= last - first + 1:
        raise ValueError(f"has {found[0]} as {_FIELDS[place]}: the step is from 1 to {last - first + 1}.")
    return f"{first + chosen % step}-{last}/{step}"


def _parsed(text: str) -> CronSim:
    try:
        return CronSim(text, _YEAR_2000)
    except CronSimError as error:
        fields = text.split()
        if fields[4] != "*" and str(error) == "Bad day-of-month":
            _parsed(" ".join([*fields[:4], "*", fields[5]]))
            raise ValueError(_NEVER) from None
        raise ValueError(_refused(str(error), fields)) from None


@lru_cache(maxsize=1024)
def _day_rule(day: str, weekday: str) -> Callable[[date], bool]:
    """One for all expressions with these two fields, so that its months are looked at once."""
    return _parsed(f"0 0 0 {day} * {weekday}").match_day


@lru_cache(maxsize=4096)
def _compiled(text: str) -> FieldTimes:
    """Raises ValueError."""
    _, minute, hour, day, _, weekday = text.split()
    compiled = _parsed(text)
    frequent = comes_every_so_often(minute, len(compiled.minutes), 60)
    frequent = frequent or comes_every_so_often(hour, len(compiled.hours), 24)
    seconds, minutes, hours = (tuple(sorted(each)) for each in (compiled.seconds, compiled.minutes, compiled.hours))
    months = _months(tuple(sorted(compiled.months)))
    times = FieldTimes(seconds, minutes, hours, months, _day_rule(day, weekday), frequent)
    if times.next(_YEAR_2000_MS) is None:
        raise ValueError(_NEVER)
    return times


@lru_cache(maxsize=256)
def _months(months: tuple[int, ...]) -> frozenset[int]:
    """One set for all expressions of the same ones."""
    return frozenset(months)


def comes_every_so_often(field: str, values: int, of: int) -> bool:
    """`*`, a step, or all values one by one."""
    return values > 1 and ("*" in field or "/" in field or values == of)


def _refused(error: str, fields: list[str]) -> str:
    """cronsim names the field."""
    name = error.removeprefix("Bad ").replace("-", " ")
    place = _FIELDS.index(name)
    low, high = _VALUES[place]
    return (
        f"has {fields[place]!r} as {name}, which is none: give values from {low} to {high}, ranges that ascend, and "
        "steps from 1 up, parted by commas."
    )
