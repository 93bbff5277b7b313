"""What is taken out of a schedule: by any form, by days and by ranges."""

from __future__ import annotations

import re

import pytest

from tests.core.recurrence.local import compute, upcoming, utc_ms
from timerd.core.recurrence import SpecError
from timerd.model.recurrence import At, Between, Calendar, Cron, Dates, Every, Exclusion, Part, RRule, Span, Spec

NINE = Cron("0 9 * * *")


def spec(part: Part, *exclude: Exclusion, zone: str = "UTC") -> Spec:
    return Spec((part,), exclude, zone)


@pytest.mark.parametrize(
    "exclude",
    [
        Cron("* * 2 1 *"),
        Cron("0 9 2 1 *"),
        Every(365 * 86_400_000, anchor_ms=utc_ms("2026-01-02T09:00")),
        Calendar(hours=(Span(9, 9),), days=(Span(2, 2),), months=(Span(1, 1),)),
        RRule("DTSTART:20260102T090000\nRRULE:FREQ=YEARLY"),
        RRule("DTSTART:20260102T090000\nRRULE:FREQ=DAILY;UNTIL=20260102T090000Z"),
        At(("2026-01-02T09:00:00",)),
        At(("2026-01-02T10:00:00+01:00",)),
        Dates(("2026-01-02",)),
        Between("2026-01-02T09:00:00", "2026-01-02T09:00:01"),
        Between("2026-01-02T09:00:00Z", "2026-01-02T09:00:01Z"),
    ],
    ids=repr,
)
def test_each_form_takes_out_what_it_names(exclude: Exclusion) -> None:
    left = upcoming(compute(spec(NINE, exclude)), "2026-01-01", 3)
    assert left == ["2026-01-01 09:00", "2026-01-03 09:00", "2026-01-04 09:00"]


def test_days_are_those_of_the_zone_and_a_range_of_days_includes_both() -> None:
    holidays = spec(NINE, Dates(("2026-12-24/2026-12-26",)), zone="America/New_York")
    assert upcoming(compute(holidays), "2026-12-23", 2) == ["2026-12-23 14:00", "2026-12-27 14:00"]


def test_days_also_take_out_what_comes_by_a_period() -> None:
    hourly = spec(Every(3_600_000), Dates(("2026-06-01",)), zone="Asia/Tokyo")
    assert upcoming(compute(hourly), "2026-05-31T14:00", 1) == ["2026-06-01 15:00"]


def test_five_fields_take_out_whole_minutes() -> None:
    seconds = spec(Cron("*/20 * * * * *"), Cron("0 * * * *"))
    assert upcoming(compute(seconds), "2026-01-01T00:59:40", 1) == ["2026-01-01 01:01"]


def test_a_time_of_a_gap_is_taken_out_by_the_name_that_it_has() -> None:
    """So the job of that night does not come at 03:00 either."""
    nightly = spec(Cron("30 2 * * *"), Cron("* 2 29 3 *"), zone="Europe/Berlin")
    assert upcoming(compute(nightly), "2026-03-28T12:00", 1) == ["2026-03-30 00:30"]
    two = Spec((Cron("30 2 * * *"), Cron("0 3 * * *")), (Cron("* 2 * 3 *"),), "Europe/Berlin")
    assert upcoming(compute(two), "2026-03-28T12:00", 1) == ["2026-03-29 01:00"]


def test_a_range_ends_before_its_end() -> None:
    pause = spec(NINE, Between("2026-01-02", "2026-01-04T09:00:00"))
    assert upcoming(compute(pause), "2026-01-01T12:00", 1) == ["2026-01-04 09:00"]


def test_years_of_seconds_are_passed_in_a_few_steps() -> None:
    every_second = spec(Cron("* * * * * *"), Cron("* * * 1-11 *"), Dates(("2026-12-01/2026-12-30",)))
    assert upcoming(compute(every_second), "2026-01-01", 1) == ["2026-12-31 00:00"]
    by_period = spec(Every(1_000), Between("2026-01-01T00:00:00Z", "2056-01-01T00:00:00Z"))
    assert upcoming(compute(by_period), "2026-01-01", 1) == ["2056-01-01 00:00"]


def test_exclusions_that_leave_nothing_are_refused() -> None:
    with pytest.raises(SpecError, match=re.escape("leave nothing of parts[0].cron")):
        compute(spec(NINE, Cron("* 9 * * *")))
    with pytest.raises(SpecError, match=re.escape("leave nothing of parts[1].at")):
        compute(Spec((NINE, At(("2026-01-02T12:00:00",))), (Dates(("2026-01-02",)),)))
    with pytest.raises(SpecError, match="in a row are excluded"):
        compute(spec(Every(1_000), Every(1_000)))
    with pytest.raises(SpecError, match="in a row are excluded"):
        compute(spec(Cron("* * * * * *"), Cron("*/2 * * * *"), Cron("1/2 * * * *")))


@pytest.mark.parametrize(
    ("exclude", "field", "sentence"),
    [
        (Dates(("25.12.2026",)), "exclude[0].dates.days[0]", "write 2026-12-24"),
        (Dates(("2026-12-26/2026-12-24",)), "exclude[0].dates.days[0]", "is no day"),
        (Dates(()), "exclude[0].dates.days", "give 1 to 1000"),
        (Between("2026-01-02", "2026-01-02"), "exclude[0].between", "The range is empty"),
        (Between("2026-01-02", "2026-01-03T00:00:00Z"), "exclude[0].between", "both have an offset or none"),
        (Cron("61 * * * *"), "exclude[0].cron.expression", "has '61' as minute"),
    ],
)
def test_what_is_wrong_with_an_exclusion_is_said(exclude: Exclusion, field: str, sentence: str) -> None:
    with pytest.raises(SpecError, match=re.escape(sentence)) as caught:
        compute(spec(NINE, exclude))
    assert caught.value.field == field
