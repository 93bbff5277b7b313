"""The autoscaler's day: who looks ahead is never short of a worker, who looks back is."""

from __future__ import annotations

from datetime import date

from examples.departures.data import MINUTE_MS, load_day, midnight_ms
from examples.departures.scaling import AHEAD, BACK, MINUTES, PASSENGERS, course_of, load_of

DAY = date(2013, 11, 27)
START_MS = midnight_ms(DAY)


def test_looking_ahead_is_in_time_where_looking_back_is_late() -> None:
    flights = load_day(DAY)
    due = load_of(flights)
    assert sum(due.values()) == PASSENGERS * sum(not flight.never_left for flight in flights)
    ahead, back = course_of(due, START_MS, AHEAD), course_of(due, START_MS, BACK)
    assert ahead.late == 0 < back.late
    assert len(ahead.replicas) == len(back.replicas) == MINUTES


def test_a_wave_is_met_at_its_first_minute() -> None:
    hot_ms = START_MS + 600 * MINUTE_MS
    ahead = course_of({hot_ms: 900}, START_MS, AHEAD)
    assert ahead.replicas[598:607] == [1, 1, 3, 3, 3, 3, 3, 3, 1]
    assert ahead.late == 0
