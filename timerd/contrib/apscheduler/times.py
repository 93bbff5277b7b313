"""When a job of APScheduler comes, as a schedule of timerd has it; and its trigger as JSON, to be made again from it.

In a cron trigger all fields must match. In a cron expression day of month and weekday are alternatives, so where both
are given the other weekdays are left out by an expression of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.cron.expressions import (
    LastDayOfMonthExpression,
    RangeExpression,
    WeekdayPositionExpression,
)
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from timerd.sdk.values import SpecKeywords

_WEEK = frozenset(range(7))
# What timerd has no word for, and what says the same.
_NOT_KEPT_FIELDS = {"year": "start_date and end_date", "week": "day and day_of_week"}
_CRON_FIELDS = ("second", "minute", "hour")
# APScheduler's end belongs to the span, and timerd's does not.
_INSTANT = timedelta(milliseconds=1)


class NotKept(ValueError):
    """Why timerd cannot keep a job: a sentence that says what to do."""


def spec_of(trigger: Any) -> SpecKeywords:  # noqa: ANN401 - APScheduler has no types
    """The keywords of `Schedules.create` for a trigger that comes again.

    Args:
        trigger: a `CronTrigger` or an `IntervalTrigger`.

    Raises:
        NotKept: timerd has no such times.
    """
    # One that is made of it may come at other times than it says.
    if type(trigger) is CronTrigger:
        spec = _of_cron(trigger)
    elif type(trigger) is IntervalTrigger:
        spec = _of_interval(trigger)
    else:
        kind = type(trigger).__name__
        raise NotKept(f"timerd does not know when a {kind} comes: give it `date`, `interval` or `cron`")
    if trigger.end_date is not None:
        spec["end"] = trigger.end_date + _INSTANT
    if trigger.jitter:
        spec["jitter"] = float(trigger.jitter)
    return spec


def _of_interval(trigger: Any) -> SpecKeywords:  # noqa: ANN401 - APScheduler has no types
    if trigger.interval < timedelta(seconds=1):
        raise NotKept(f"it comes every {trigger.interval}, and timerd has 1 s at the least")
    return {"every": trigger.interval, "anchor": trigger.start_date, "start": trigger.start_date}


def _of_cron(trigger: Any) -> SpecKeywords:  # noqa: ANN401 - APScheduler has no types
    fields = {field.name: field for field in trigger.fields}
    for name, instead in _NOT_KEPT_FIELDS.items():
        if str(fields[name]) != "*":
            raise NotKept(f"a cron trigger of timerd has no field `{name}` ({fields[name]}): say it by {instead}")
    lead = " ".join(str(fields[name]) for name in _CRON_FIELDS).removeprefix("0 ")
    month = str(fields["month"])
    weekdays = _weekdays(fields["day_of_week"].expressions)
    positions = [each for each in fields["day"].expressions if isinstance(each, WeekdayPositionExpression)]
    days = ",".join(_day(each) for each in fields["day"].expressions if each not in positions)
    spec: SpecKeywords = {"zone": zone_of(trigger.timezone)}
    if trigger.start_date is not None:
        spec["start"] = trigger.start_date
    if weekdays == _WEEK:
        lines = [f"{lead} {days} {month} *"] if days else []
        by_position = ",".join(map(_position, positions))
        return spec | {"cron": lines + ([f"{lead} * {month} {by_position}"] if positions else [])}
    if positions:
        raise NotKept(f"a day as {positions[0]} cannot be narrowed by day_of_week: give one of the two")
    if days == "*":
        return spec | {"cron": f"{lead} * {month} {_list(weekdays)}"}
    return spec | {"cron": f"{lead} {days} {month} *", "exclude_cron": f"* * * * {_list(_WEEK - weekdays)}"}


def _day(expression: Any) -> str:  # noqa: ANN401 - APScheduler has no types
    return "L" if isinstance(expression, LastDayOfMonthExpression) else str(expression)


def _position(expression: Any) -> str:  # noqa: ANN401 - APScheduler has no types
    """The options of APScheduler are 1st to 5th, and last."""
    weekday = _of_cron_weekday(expression.weekday)
    is_last = expression.option_num == len(expression.options) - 1
    return f"{weekday}L" if is_last else f"{weekday}#{expression.option_num + 1}"


def _weekdays(expressions: Iterable[Any]) -> frozenset[int]:
    """As cron counts them."""
    found: set[int] = set()
    for each in expressions:
        first, last = (each.first, each.last) if isinstance(each, RangeExpression) else (0, None)
        found.update(range(first, (6 if last is None else last) + 1, each.step or 1))
    return frozenset(map(_of_cron_weekday, found))


def _of_cron_weekday(weekday: int) -> int:
    """Monday is 0 in APScheduler, and Sunday in cron."""
    return (weekday + 1) % 7


def _list(values: Iterable[int]) -> str:
    return ",".join(map(str, sorted(values)))


def zone_of(zone: tzinfo) -> str:
    """Its IANA name.

    Args:
        zone: the zone of a trigger.

    Raises:
        NotKept: it has none.
    """
    found = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if isinstance(found, str):
        return found
    if zone is UTC or str(zone) == "UTC":
        return "UTC"
    raise NotKept(f"its zone {zone} has no name: give the scheduler or the trigger one, as timezone='Europe/Berlin'")


def described(trigger: Any) -> dict[str, Any]:  # noqa: ANN401 - APScheduler has no types
    """The trigger as JSON has it.

    Args:
        trigger: a `DateTrigger`, or one that `spec_of` has taken.
    """
    if isinstance(trigger, DateTrigger):
        return {"kind": "date", "run_date": trigger.run_date.isoformat()}
    common = {
        "timezone": zone_of(trigger.timezone),
        "start_date": _text(trigger.start_date),
        "end_date": _text(trigger.end_date),
        "jitter": trigger.jitter,
    }
    if isinstance(trigger, IntervalTrigger):
        return {"kind": "interval", "seconds": trigger.interval.total_seconds(), **common}
    fields = {field.name: str(field) for field in trigger.fields if not field.is_default}
    return {"kind": "cron", "fields": fields, **common}


def trigger_of(description: Mapping[str, Any]) -> Any:  # noqa: ANN401 - APScheduler has no types
    """The trigger that `described` has described.

    Args:
        description: what it returned.

    Raises:
        ValueError: it is of a later release.
    """
    given = dict(description)
    kind = given.pop("kind")
    for name in ("run_date", "start_date", "end_date"):
        if given.get(name):
            given[name] = datetime.fromisoformat(given[name])
    if kind == "date":
        return DateTrigger(**given)
    if kind == "interval":
        return IntervalTrigger(**given)
    if kind == "cron":
        return CronTrigger(**given.pop("fields"), **given)
    raise ValueError(f"This job has a trigger {kind!r}, of a later release: upgrade timerd here.")


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
