"""Spans and instants as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from timerd.commands.failures import WrongInput
from timerd.commands.times import (
    iso_of,
    parse_due,
    parse_instant,
    parse_moment,
    parse_span,
    relative,
    short_iso,
    shown_span,
)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("10s", 10_000),
        ("5m", 300_000),
        ("2h30m", 9_000_000),
        ("1d", 86_400_000),
        ("1w", 604_800_000),
        ("250ms", 250),
        ("1.5h", 5_400_000),
        ("0s", 0),
        ("1D 2H", 93_600_000),
    ],
)
def test_a_span_is_numbers_with_units(text: str, ms: int) -> None:
    assert parse_span(text) == timedelta(milliseconds=ms)


@pytest.mark.parametrize("text", ["", "10", "s", "10x", "-5m", "5m!", "1e3s", "٣s x"])
def test_anything_else_is_no_span(text: str) -> None:
    with pytest.raises(WrongInput, match="is not a span of time"):
        parse_span(text)


@pytest.mark.parametrize(
    "text", ["2030-01-31T09:00Z", "2030-01-31T10:00+01:00", "20300131T090000Z", "2030-01-31 09:00Z"]
)
def test_an_instant_has_an_offset(text: str) -> None:
    assert parse_instant(text) == datetime(2030, 1, 31, 9, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2030-01-31T09:00", "2030-01-31", "9999-12-31T23:59:59", "0001-01-01"])
def test_without_an_offset_it_is_refused(text: str) -> None:
    with pytest.raises(WrongInput, match=r"has no offset.*local time.*Z if you mean UTC"):
        parse_instant(text)


def test_a_moment_may_count_from_now() -> None:
    before = datetime.now(UTC)
    first, second = parse_moment("now"), parse_moment("2h")
    assert before <= first <= second - timedelta(hours=2) <= datetime.now(UTC)


def test_due_is_an_instant_or_a_span() -> None:
    assert parse_due("5m", None) == (None, timedelta(minutes=5))
    assert parse_due(None, "2030-01-31T09:00Z") == (datetime(2030, 1, 31, 9, tzinfo=UTC), None)


def test_times_are_printed_in_utc_with_milliseconds() -> None:
    assert iso_of(datetime(2030, 1, 31, 9, 0, 0, 5000, tzinfo=UTC)) == "2030-01-31T09:00:00.005Z"


@pytest.mark.parametrize(("ms", "text"), [(250, "0.25s"), (10_000, "10s"), (9_000_000, "2h30m"), (90_061_000, "1d1h")])
def test_spans_are_printed_with_two_units(ms: int, text: str) -> None:
    assert shown_span(timedelta(milliseconds=ms)) == text


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        ({"hours": 3, "minutes": 20, "seconds": 40}, "in 3 h 20 m"),
        ({"seconds": 125}, "in 2 m 5 s"),
        ({"minutes": -2}, "2 m ago"),
        ({"days": 10}, "in 10 d"),
        ({"days": 2, "minutes": 5}, "in 2 d"),
        ({"milliseconds": 400}, "now"),
        ({"days": 1_000}, "2032-09-27"),
        ({"days": -100}, "2029-09-23"),
    ],
)
def test_an_instant_is_told_from_now_in_two_units(ahead: dict[str, int], told: str) -> None:
    now = datetime(2030, 1, 1, 12, tzinfo=UTC)
    assert relative(now + timedelta(**ahead), now) == told


def test_a_short_iso_time_is_the_same_instant() -> None:
    for moment in (datetime(2030, 1, 1, 9, tzinfo=UTC), datetime(2030, 1, 1, 9, 0, 7, 5_000, tzinfo=UTC)):
        assert parse_instant(short_iso(moment)) == moment
    assert short_iso(datetime(2030, 1, 1, 9, tzinfo=UTC)) == "2030-01-01T09:00Z"
    assert short_iso(datetime(2030, 1, 1, 9, 0, 7, tzinfo=UTC)) == "2030-01-01T09:00:07Z"
