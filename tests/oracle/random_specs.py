"""Specs drawn at random, each text together with what it means: nothing parses it here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random

import numpy as np

from tests.oracle.definition import Asked, Excluded, Named, Rules, among
from tests.oracle.minutes import DAY, Bools, Walls
from timerd.model.recurrence import Between, Calendar, Cron, Dates, Gap, Part, Repeat, Span, Spec

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
# Where zones change their clocks.
NIGHT = (0, 1, 2, 3, 4, 23)


@dataclass(frozen=True)
class Field:
    """Its text, its values, and whether it comes every so often."""

    text: str
    values: set[int]
    every: bool = False


def drawn_field(random: Random, low: int, high: int, likely: Sequence[int] = (), sparse: bool = False) -> Field:
    """Of numbers."""

    def one() -> int:
        return random.choice(likely) if likely and random.random() < 0.7 else random.randint(low, high)

    kind = random.choice("vvvlr" if sparse else "*vvvlrssSs")
    if kind == "*":
        return Field("*", set(range(low, high + 1)), True)
    if kind == "v":
        value = one()
        return Field(str(value), {value})
    if kind == "l":
        values = {one() for _ in range(random.randint(2, 4))}
        return Field(",".join(map(str, values)), values, len(values) == high - low + 1)
    first, last = sorted((one(), one()))
    if kind == "r":
        values = set(range(first, last + 1))
        return Field(f"{first}-{last}", values, len(values) == high - low + 1)
    step = random.choice((2, 3, 5, 7, 10, 15, 20, 30))
    if kind == "S":
        values = set(range(first, last + 1, step))
        return Field(f"{first}-{last}/{step}", values, len(values) > 1)
    values = set(range(low, high + 1, step))
    return Field(f"*/{step}", values, len(values) > 1)


def drawn_days(random: Random) -> tuple[str, str, Callable[[Walls], Bools]]:
    """Day of month and day of week, which both must match where one of them begins with a star."""
    text, of_month = random.choice((_all_days, _all_days, _all_days, _month_days, _last_day, _last_workday))(random)
    other, of_week = random.choice((_all_days, _all_days, _weekdays, _nth_weekday))(random)
    if text.startswith("*") or other.startswith("*"):
        return text, other, lambda walls: of_month(walls) & of_week(walls)
    return text, other, lambda walls: of_month(walls) | of_week(walls)


def _all_days(_: Random) -> tuple[str, Named]:
    return "*", lambda walls: np.ones(len(walls.wall), bool)


def _month_days(random: Random) -> tuple[str, Named]:
    field = drawn_field(random, 1, 31)
    return field.text, lambda walls: among(field.values, 32)[walls.day]


def _last_day(_: Random) -> tuple[str, Named]:
    return "L", lambda walls: walls.day == walls.month_days


def _last_workday(_: Random) -> tuple[str, Named]:
    def is_last(walls: Walls) -> Bools:
        last = (walls.weekday + walls.month_days - walls.day) % 7
        named: Bools = walls.day == walls.month_days - np.where(last == 6, 1, np.where(last == 0, 2, 0))
        return named

    return "LW", is_last


def _weekdays(random: Random) -> tuple[str, Named]:
    values = {random.randrange(7) for _ in range(random.randint(1, 4))}
    text = ",".join(random.choice((str(each), WEEKDAYS[each], "7" if each == 0 else str(each))) for each in values)
    if random.random() < 0.3:
        first, last = sorted(random.sample(range(1, 8), 2))
        text, values = f"{WEEKDAYS[first]}-{WEEKDAYS[last % 7]}", {each % 7 for each in range(first, last + 1)}
    return text, lambda walls: among(values, 7)[walls.weekday]


def _nth_weekday(random: Random) -> tuple[str, Named]:
    weekday, nth = random.randrange(7), random.randint(0, 5)
    if nth:
        return f"{weekday}#{nth}", lambda w: (w.weekday == weekday) & ((w.day - 1) // 7 + 1 == nth)
    return f"{weekday}L", lambda walls: (walls.weekday == weekday) & (walls.day + 7 > walls.month_days)


def drawn_cron(random: Random) -> Asked:
    minute = drawn_field(random, 0, 59, (0, 15, 30, 59))
    hour = drawn_field(random, 0, 23, NIGHT, sparse=minute.every and random.random() < 0.8)
    day, weekday, is_day = drawn_days(random)
    month = Field("*", set(range(1, 13))) if random.random() < 0.7 else drawn_field(random, 1, 12)
    month_text = MONTHS[min(month.values) - 1] if len(month.values) == 1 else month.text
    seconds = drawn_field(random, 0, 59, sparse=True) if not minute.every and random.random() < 0.2 else None
    text = " ".join([*([seconds.text] if seconds else []), minute.text, hour.text, day, month_text, weekday])

    def names(walls: Walls) -> Bools:
        clock = among(minute.values, 60)[walls.minute] & among(hour.values, 24)[walls.hour]
        return clock & among(month.values, 13)[walls.month] & is_day(walls)

    of_minute = sorted(seconds.values) if seconds else [0]
    return Asked(Cron(text), names, of_minute, minute.every or hour.every)


def drawn_calendar(random: Random) -> Asked:
    minutes, hours = _spans(random, 0, 59, 0.2), _spans(random, 0, 23, 0.2)
    days, months, weekdays = _spans(random, 1, 31, 0.6), _spans(random, 1, 12, 0.7), _spans(random, 0, 6, 0.5)
    last = not days and random.random() < 0.2
    part = Calendar(
        minutes=minutes, hours=hours, days=(Span(-1, -1),) if last else days, months=months, weekdays=weekdays
    )

    def names(walls: Walls) -> Bools:
        named = walls.day == walls.month_days if last else np.ones(len(walls.wall), bool)
        of = ((minutes, walls.minute), (hours, walls.hour), (days, walls.day), (months, walls.month))
        for spans, column in (*of, (weekdays, walls.weekday)):
            if spans:
                named = named & among(_values(spans), 61)[column]
        return named

    every = [not s or len(_values(s)) == n or _stepped(s) for s, n in ((minutes, 60), (hours, 24))]
    return Asked(part, names, [0], any(every))


def _spans(random: Random, low: int, high: int, empty: float) -> tuple[Span, ...]:
    if random.random() < empty:
        return ()
    if random.random() < 0.5:
        value = random.choice(NIGHT) if high == 23 else random.randint(low, high)
        return (Span(value, value),)
    pairs = [sorted((random.randint(low, high), random.randint(low, high))) for _ in range(random.randint(1, 2))]
    return tuple(Span(first, last, random.choice((1, 1, 2, 7))) for first, last in pairs)


def _values(spans: Sequence[Span]) -> set[int]:
    return {value for span in spans for value in range(span.first, span.last + 1, span.step)}


def _stepped(spans: Sequence[Span]) -> bool:
    return len(_values(spans)) > 1 and any(span.step > 1 for span in spans)


def drawn_exclusion(random: Random, years: tuple[int, int]) -> Excluded:
    day = date(random.randint(*years), 1, 1) + timedelta(days=random.randrange(360))
    if (kind := random.random()) < 0.3:
        cron = drawn_cron(random)
        while not isinstance(cron.part, Cron) or len(cron.part.expression.split()) != 5:
            cron = drawn_cron(random)
        return Excluded(cron.part, cron.names)
    last = day + timedelta(days=random.choice((0, 0, 3, 40)))
    if kind < 0.6:
        begin, end = (np.datetime64(each, "D") for each in (day, last))
        return Excluded(Dates((f"{day}/{last}",)), lambda walls: (walls.date >= begin) & (walls.date <= end))
    first, length = day.toordinal() - date(1970, 1, 1).toordinal(), random.randint(1, 3 * DAY)
    start = first * DAY + random.randrange(DAY)
    names = [(np.datetime64(0, "s") + np.timedelta64(each, "m")).item().isoformat() for each in (start, start + length)]
    return Excluded(Between(*names), lambda walls: (walls.wall >= start) & (walls.wall < start + length))


def drawn_rules(random: Random, years: tuple[int, int]) -> Rules:
    parts = [drawn_cron(random) if random.random() < 0.8 else drawn_calendar(random)]
    if random.random() < 0.15:
        parts.append(drawn_cron(random))
    exclude = [drawn_exclusion(random, years)] if random.random() < 0.25 else []
    gap, repeat = random.choice([Gap.AUTO, *Gap]), random.choice([Repeat.AUTO, *Repeat])
    return Rules(parts, exclude, gap, repeat)


def spec_of(rules: Rules, zone: str) -> Spec:
    parts: tuple[Part, ...] = tuple(each.part for each in rules.parts)
    return Spec(parts, tuple(each.form for each in rules.exclude), zone, gap=rules.gap, repeat=rules.repeat)
