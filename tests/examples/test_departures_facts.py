"""What becomes known when, and how 2013 lies on the wall clock and in the future."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.departures.data import FLIGHTS_IN_ALL, MINUTE_MS, Flight, midnight_ms
from examples.departures.facts import DEFAULT_LEAD_MS, Pace, facts_of, first_instant_ms, last_instant_ms
from examples.departures.year import DAY_MS, Future

SCHEDULED_MS = 1_000 * MINUTE_MS


def flight(delay_minutes: int | None, number: int = 7) -> Flight:
    departed_ms = None if delay_minutes is None else SCHEDULED_MS + delay_minutes * MINUTE_MS
    return Flight("F", date(2013, 1, 1), "UA", number, "EWR", "IAH", SCHEDULED_MS, departed_ms)


def told(delay_minutes: int | None, number: int = 7) -> list[tuple[str, int, int]]:
    """Minutes from the scheduled departure: when it is known, and for when the reminder is wanted."""
    facts = facts_of(flight(delay_minutes, number), DEFAULT_LEAD_MS)
    return [
        (
            fact.verb,
            (fact.known_ms - SCHEDULED_MS) // MINUTE_MS,
            (fact.reminder_ms - SCHEDULED_MS) // MINUTE_MS if fact.reminder_ms else 0,
        )
        for fact in facts
    ]


def test_flights_on_time_bring_no_facts() -> None:
    assert told(0) == []
    assert told(-43) == []


def test_a_short_delay_shows_at_the_gate_when_the_reminder_has_fired() -> None:
    assert told(14) == [("move", -20, -16)]


def test_a_long_delay_is_announced_an_hour_at_a_time() -> None:
    assert told(15) == [("move", -45, -15)]
    assert told(60) == [("move", -45, 30)]
    assert told(130) == [("move", -45, 30), ("move", 15, 90), ("move", 75, 100)]


def test_a_cancellation_follows_from_the_flight_number() -> None:
    assert told(None, number=7) == [("cancel", -19, 0)]
    assert told(None, number=1) == [("cancel", -37, 0)]


@given(st.integers(-60, 1500))
def test_the_last_announcement_is_the_departure_and_each_is_known_before_its_reminder(delay_minutes: int) -> None:
    facts = told(delay_minutes)
    assert [fact[2] for fact in facts[-1:]] == ([delay_minutes - 30] if delay_minutes > 0 else [])
    assert all(known < due for verb, known, due in facts if delay_minutes >= 15)
    assert sorted(facts, key=lambda fact: fact[1]) == facts


@given(st.integers(-10_000_000, 10_000_000), st.integers(1, 100_000))
def test_the_pace_never_rounds_down(after_ms: int, speed: int) -> None:
    pace = Pace(data_start_ms=500, wall_start_ms=9_000_000_000_000, speed=speed)
    wall_ms = pace.wall_ms(500 + after_ms) - 9_000_000_000_000
    assert 0 <= wall_ms * speed - after_ms < speed


def test_a_replay_spans_facts_and_reminders() -> None:
    flights = [flight(130), flight(None, number=6)]
    assert first_instant_ms(flights, DEFAULT_LEAD_MS) == SCHEDULED_MS - 222 * MINUTE_MS
    assert last_instant_ms(flights, DEFAULT_LEAD_MS) == SCHEDULED_MS + 100 * MINUTE_MS


def test_a_real_blizzard_brings_every_kind_of_fact(year: list[Flight]) -> None:
    facts = [fact for flight in year if flight.day == date(2013, 2, 8) for fact in facts_of(flight, DEFAULT_LEAD_MS)]
    assert sum(fact.verb == "cancel" for fact in facts) == 472
    moved = {fact.flight_id for fact in facts if fact.verb == "move"}
    assert len(moved) < sum(fact.verb == "move" for fact in facts)


TODAY_MS = 1_800_000_000_123


@pytest.mark.parametrize("lead_ms", [0, DEFAULT_LEAD_MS, 720 * MINUTE_MS])
def test_the_future_holds_the_year_once_between_1_and_366_days_ahead(year: list[Flight], lead_ms: int) -> None:
    future = Future(year, lead_ms, TODAY_MS)
    instants_ms = [each.fire_at_ms for each in future.reminders]
    assert instants_ms[0] >= TODAY_MS + DAY_MS
    assert instants_ms[-1] <= TODAY_MS + 366 * DAY_MS
    assert sum(len(future.within(month)) for month in future.months()) == FLIGHTS_IN_ALL


def test_months_and_days_of_the_future_are_those_of_the_data(year: list[Flight]) -> None:
    future = Future(year, DEFAULT_LEAD_MS, TODAY_MS)
    months = [len(future.within(month)) for month in future.months()]
    assert months == [sum(flight.day.month == month for flight in year) for month in range(1, 13)]
    day = date(2013, 3, 10)
    expected = {flight.flight_id: flight.scheduled_ms for flight in year if flight.day == day}
    found = {each.flight_id: each.fire_at_ms for each in future.within(future.day(day))}
    assert found.keys() == expected.keys()
    assert {found[name] - ms for name, ms in expected.items()} == {future.shift_ms - DEFAULT_LEAD_MS}


def test_a_day_in_spring_has_23_hours_and_one_in_autumn_25(year: list[Flight]) -> None:
    future = Future(year[:1], DEFAULT_LEAD_MS, TODAY_MS)
    spans = [future.day(day) for day in (date(2013, 3, 10), date(2013, 6, 1), date(2013, 11, 3))]
    assert [(span.end_ms - span.start_ms) // (60 * MINUTE_MS) for span in spans] == [23, 24, 25]
    assert spans[0].start_ms == midnight_ms(date(2013, 3, 10)) + future.shift_ms
