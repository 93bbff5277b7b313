"""A trigger of APScheduler and the schedule that it becomes come at the same instants, as long as no clock changes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

import timerd.testing
from timerd.contrib.apscheduler import NotKept
from timerd.contrib.apscheduler.times import described, spec_of, trigger_of

START = datetime(2030, 1, 5, 11, 7, 13, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture(scope="module")
def server() -> Iterator[timerd.testing.SyncServer]:
    with timerd.testing.server(start=START) as server:
        yield server


def of_apscheduler(trigger: Any, count: int, after: datetime = START) -> list[datetime]:  # noqa: ANN401 - without types
    """The next runs, as a scheduler finds them: each from the run before."""
    found: list[datetime] = []
    last, now = None, after
    for _ in range(count):
        last = trigger.get_next_fire_time(last, now)
        now = last
        found.append(last.astimezone(UTC))
    return found


def of_timerd(server: timerd.testing.SyncServer, trigger: Any, count: int, after: datetime = START) -> list[datetime]:  # noqa: ANN401
    spec = spec_of(trigger)
    return [each.instant for each in server.client.schedules.preview(count=count, after=after, **spec)]


def drawn(rng: Random) -> dict[str, str]:
    """Fields of a cron trigger, in any of the forms that it takes."""
    forms: dict[str, list[str]] = {
        "second": ["0", "0", "30", "*/20"],
        "minute": ["0", "*", "*/15", "5-10", "7,31", "5/20"],
        "hour": ["*", "9", "*/6", "8-18/2", "0,12"],
        "day": ["*", "*", "1", "last", "*/10", "1-7", "2nd fri", "last mon", "3,last"],
        "month": ["*", "*", "jan-mar", "6,12", "*/5"],
        "day_of_week": ["*", "*", "mon-fri", "sat,sun", "6", "0", "*/3"],
    }
    fields = {name: rng.choice(values) for name, values in forms.items()}
    if any(word in fields["day"] for word in ("fri", "mon")):
        fields["day_of_week"] = "*"
    return fields


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Bogota"])
def test_a_cron_trigger_comes_when_apscheduler_says(zone: str, server: timerd.testing.SyncServer) -> None:
    rng = Random(zone)
    for _ in range(40):
        trigger = CronTrigger(**drawn(rng), timezone=zone)
        assert of_timerd(server, trigger, 4) == of_apscheduler(trigger, 4), trigger


def test_weekdays_and_days_of_the_month_must_both_match(server: timerd.testing.SyncServer) -> None:
    """In a cron expression either would be enough."""
    trigger = CronTrigger(day=13, day_of_week="fri", hour=9, timezone="UTC")
    first, second = of_timerd(server, trigger, 2)
    assert (first, second) == (datetime(2030, 9, 13, 9, tzinfo=UTC), datetime(2030, 12, 13, 9, tzinfo=UTC))


def test_an_interval_counts_from_its_start(server: timerd.testing.SyncServer) -> None:
    trigger = IntervalTrigger(minutes=7, start_date=START + timedelta(seconds=11), timezone="UTC")
    assert of_timerd(server, trigger, 5) == of_apscheduler(trigger, 5)


def test_an_end_belongs_to_the_span(server: timerd.testing.SyncServer) -> None:
    begin, end = START.replace(minute=30, second=0), START.replace(hour=12, minute=0, second=0)
    trigger = CronTrigger(minute="*/30", start_date=begin, end_date=end, timezone="UTC")
    assert of_timerd(server, trigger, 5) == [begin, end] == of_apscheduler(trigger, 2)


def test_where_the_clock_changes_each_day_has_its_run(server: timerd.testing.SyncServer) -> None:
    """APScheduler has none on the day without 02:30, and two on the day that has it twice."""
    trigger = CronTrigger(hour=2, minute=30, timezone=BERLIN)
    for change in (datetime(2030, 3, 31, tzinfo=BERLIN), datetime(2030, 10, 27, tzinfo=BERLIN)):
        after = change - timedelta(hours=12)
        days = [each.astimezone(BERLIN).date() for each in of_timerd(server, trigger, 3, after)]
        assert days == [change.date() + timedelta(days=number) for number in range(3)]


def test_each_quarter_of_an_hour_goes_on_over_a_change_of_the_clock(server: timerd.testing.SyncServer) -> None:
    trigger = CronTrigger(minute="*/15", timezone=BERLIN)
    found = of_timerd(server, trigger, 12, datetime(2030, 10, 26, 23, 59, tzinfo=UTC))
    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(minutes=15)}


@pytest.mark.parametrize(
    "trigger",
    [
        DateTrigger(START),
        IntervalTrigger(hours=3, start_date=START, end_date=START + timedelta(days=3), timezone=BERLIN, jitter=5),
        CronTrigger(day="2nd fri", hour="9-17/2", start_date=START, timezone=BERLIN, jitter=30),
        CronTrigger(second="*/10", timezone="UTC"),
    ],
)
def test_a_trigger_comes_back_from_json(trigger: Any) -> None:  # noqa: ANN401 - APScheduler has no types
    back = trigger_of(described(trigger))
    assert repr(back) == repr(trigger)
    assert described(back) == described(trigger)


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        (CronTrigger(year=2031, timezone="UTC"), "no field `year` .2031.: say it by start_date and end_date"),
        (CronTrigger(week="*/2", timezone="UTC"), "no field `week`"),
        (CronTrigger(day="1st mon", day_of_week="mon-fri", timezone="UTC"), "cannot be narrowed by day_of_week"),
        (CronTrigger(timezone=timezone(timedelta(hours=2))), "has no name: give .* timezone='Europe/Berlin'"),
        (IntervalTrigger(seconds=0.5, timezone="UTC"), "1 s at the least"),
        (OrTrigger([DateTrigger(START)]), "does not know when a OrTrigger comes"),
        (CalendarIntervalTrigger(months=1, timezone="UTC"), "does not know when a CalendarIntervalTrigger comes"),
    ],
)
def test_what_timerd_has_no_times_for_is_refused(trigger: Any, said: str) -> None:  # noqa: ANN401 - as above
    with pytest.raises(NotKept, match=said):
        spec_of(trigger)
