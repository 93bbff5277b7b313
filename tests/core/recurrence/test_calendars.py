"""Calendars: the fields of a cron expression as data, all of which must match."""

from __future__ import annotations

import re

import pytest

from tests.core.recurrence.local import compute, parts, upcoming, utc_ms
from timerd.core.recurrence import SpecError
from timerd.model.recurrence import Calendar, Cron, Span, Spec


def one(value: int) -> tuple[Span, ...]:
    return (Span(value, value),)


def test_an_empty_field_matches_everything_and_a_time_of_day_is_midnight_unless_given() -> None:
    assert upcoming(parts(Calendar()), "2026-01-01", 2) == ["2026-01-02 00:00", "2026-01-03 00:00"]
    assert upcoming(parts(Calendar(minutes=())), "2026-01-01", 2) == ["2026-01-01 00:01", "2026-01-01 00:02"]


def test_day_of_month_and_weekday_must_both_match() -> None:
    """Where cron would have the 13th and each Friday."""
    friday = parts(Calendar(days=one(13), weekdays=one(5)))
    assert upcoming(friday, "2026-01-01", 2) == ["2026-02-13 00:00", "2026-03-13 00:00"]


def test_the_last_day_of_the_month_and_years() -> None:
    last = parts(Calendar(hours=one(22), days=one(-1), months=one(2), years=(Span(2027, 2031, 2),)))
    assert upcoming(last, "2026-01-01", 9) == ["2027-02-28 22:00", "2029-02-28 22:00", "2031-02-28 22:00"]


def test_sunday_is_0_and_7() -> None:
    for weekday in (0, 7):
        assert upcoming(parts(Calendar(weekdays=one(weekday))), "2026-01-01", 1) == ["2026-01-04 00:00"]


@pytest.mark.parametrize(
    ("calendar", "cron"),
    [
        (Calendar(hours=one(2), minutes=one(30)), "30 2 * * *"),
        (Calendar(hours=one(2), minutes=(Span(0, 59, 15),)), "*/15 2 * * *"),
        (Calendar(hours=(), minutes=one(30)), "30 * * * *"),
        (Calendar(hours=one(2), minutes=(Span(0, 59),)), "0-59 2 * * *"),
    ],
)
def test_gaps_and_repeats_are_those_of_cron(calendar: Calendar, cron: str) -> None:
    ours, crons = (compute(Spec((part,), zone="Europe/Berlin")) for part in (calendar, Cron(cron)))
    for after in ("2026-03-28T12:00", "2026-10-24T12:00"):
        assert ours.after(utc_ms(after), 40) == crons.after(utc_ms(after), 40)


@pytest.mark.parametrize(
    ("calendar", "field", "sentence"),
    [
        (Calendar(minutes=one(60)), "minutes", "values are from 0 to 59"),
        (Calendar(hours=(Span(9, 5),)), "hours", "the first is not above the last"),
        (Calendar(hours=(Span(0, 23, 0),)), "hours", "the step is 1 or more"),
        (Calendar(days=one(0)), "days", "from 1 to 31, or -1"),
        (Calendar(days=(Span(-1, 5),)), "days", "from 1 to 31, or -1"),
        (Calendar(minutes=one(1) * 65), "minutes", "at most 64"),
        (Calendar(years=one(1969)), "years", "from 1970"),
    ],
)
def test_what_is_no_span_is_refused(calendar: Calendar, field: str, sentence: str) -> None:
    with pytest.raises(SpecError, match=re.escape(sentence)) as caught:
        parts(calendar)
    assert caught.value.field == f"parts[0].calendar.{field}"


def test_what_never_matches_is_refused() -> None:
    for calendar in (Calendar(days=one(30), months=one(2)), Calendar(days=one(29), months=one(2), years=one(2027))):
        with pytest.raises(SpecError, match="never matches"):
            parts(calendar)
