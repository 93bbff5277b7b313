"""When an entry of Celery's beat comes, as a schedule of timerd has it.

In Celery's crontab all fields must match. In a cron expression day of month and weekday are alternatives, so where both
are given the other weekdays are left out by an expression of their own.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, timedelta, tzinfo
from typing import Any

from celery.schedules import crontab, schedule, solar

from timerd.sdk.values import SpecKeywords

_WEEK = frozenset(range(7))
_SIZES = {"minute": 60, "hour": 24, "day_of_month": 31, "month_of_year": 12}


class NotImported(ValueError):
    """Why an entry has no schedule in timerd: a sentence."""


def spec_of(when: Any) -> SpecKeywords:  # noqa: ANN401 - Celery has no types
    """The keywords of `Schedules.create`.

    Args:
        when: the schedule of an entry, as `celery.schedules.maybe_schedule` gives it.

    Raises:
        NotImported: timerd has no such times.
    """
    if isinstance(when, crontab):
        return _of_crontab(when)
    if isinstance(when, solar):
        raise NotImported("it goes by the sun, and timerd knows no solar times: give it a crontab or a timedelta")
    # One that is made of it may come at other times than it says.
    if type(when) is not schedule:
        raise NotImported(f"timerd does not know when a {type(when).__name__} comes: give it a crontab or a timedelta")
    if when.run_every < timedelta(seconds=1):
        raise NotImported(f"it comes every {when.run_every}, and a schedule of timerd has 1 s at the least")
    return {"every": when.run_every}


def _of_crontab(when: Any) -> SpecKeywords:  # noqa: ANN401 - Celery has no types
    fields = [_field(getattr(when, name), size) for name, size in _SIZES.items()]
    weekdays = frozenset(when.day_of_week)
    spec: SpecKeywords = {"zone": zone_of(when.tz)}
    if weekdays == _WEEK:
        return spec | {"cron": " ".join([*fields, "*"])}
    if fields[2] == "*":
        return spec | {"cron": " ".join([*fields, _list(weekdays)])}
    return spec | {"cron": " ".join([*fields, "*"]), "exclude_cron": f"* * * * {_list(_WEEK - weekdays)}"}


def _field(values: Collection[int], size: int) -> str:
    return "*" if len(values) == size else _list(values)


def _list(values: Collection[int]) -> str:
    return ",".join(map(str, sorted(values)))


def zone_of(zone: tzinfo) -> str:
    """Its IANA name.

    Args:
        zone: the zone of a schedule or an application.

    Raises:
        NotImported: it has none.
    """
    found = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if isinstance(found, str):
        return found
    if zone is UTC or zone.utcoffset(None) == timedelta(0):
        return "UTC"
    raise NotImported("its zone is that of the machine: name one by `app.conf.timezone`, as Europe/Berlin")
