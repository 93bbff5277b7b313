"""When the airport learns what: the reminder of each flight, and the facts that move or cancel it. Pure.

The data says what became of a flight, not when anybody knew. These rules make it up from the data alone, so that every
replay of a day is the same, and so that some facts come too late for the reminder, as they do at an airport:
- The reminder of a flight is due `lead` before its departure as announced so far; at first that is the scheduled one.
- A delay of 15 minutes and more is announced 45 minutes before the departure announced so far, and at most an hour of
  it at a time: a flight that leaves five hours late is moved five times.
- A shorter delay shows at the gate, 20 minutes before the scheduled departure: with a lead of 30 minutes the reminder
  has fired, and the caller, who asks all the same, must be told so.
- A flight that never left is called off (number * 37) mod 240 minutes before its scheduled departure: one in eight
  when the reminder has fired.
- Flights that leave early, or on time, bring no facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from examples.departures.data import MINUTE_MS, Flight

DEFAULT_LEAD_MS = 30 * MINUTE_MS
ANNOUNCED_BEFORE_MS = 45 * MINUTE_MS
STEP_MS = 60 * MINUTE_MS
SHORT_DELAY_MS = 15 * MINUTE_MS
GATE_BEFORE_MS = 20 * MINUTE_MS
CALLED_OFF_WITHIN_MINUTES = 240


@dataclass(frozen=True, slots=True)
class Fact:
    """What becomes known at `known_ms`: the reminder is wanted at `reminder_ms` from now on, or (cancel) not at all."""

    flight_id: str
    verb: Literal["move", "cancel"]
    known_ms: int
    reminder_ms: int = 0


def reminder_ms(flight: Flight, lead_ms: int) -> int:
    return flight.scheduled_ms - lead_ms


def facts_of(flight: Flight, lead_ms: int) -> list[Fact]:
    """In the order in which they become known."""
    if flight.never_left:
        before_ms = flight.number * 37 % CALLED_OFF_WITHIN_MINUTES * MINUTE_MS
        return [Fact(flight.flight_id, "cancel", flight.scheduled_ms - before_ms)]
    if flight.delay_ms <= 0:
        return []
    if flight.delay_ms < SHORT_DELAY_MS:
        known_ms = flight.scheduled_ms - GATE_BEFORE_MS
        return [Fact(flight.flight_id, "move", known_ms, flight.scheduled_ms + flight.delay_ms - lead_ms)]
    return _announcements(flight, lead_ms)


def _announcements(flight: Flight, lead_ms: int) -> list[Fact]:
    facts, announced_ms, departed_ms = [], flight.scheduled_ms, flight.scheduled_ms + flight.delay_ms
    while announced_ms < departed_ms:
        known_ms = announced_ms - ANNOUNCED_BEFORE_MS
        announced_ms = min(announced_ms + STEP_MS, departed_ms)
        facts.append(Fact(flight.flight_id, "move", known_ms, announced_ms - lead_ms))
    return facts


@dataclass(frozen=True, slots=True)
class Pace:
    """Maps the instants of 2013 onto the wall clock of a replay. Never rounds down: a reminder may not come early."""

    data_start_ms: int
    wall_start_ms: int
    speed: int

    def wall_ms(self, data_ms: int) -> int:
        return self.wall_start_ms - (self.data_start_ms - data_ms) // self.speed


def first_instant_ms(flights: Sequence[Flight], lead_ms: int) -> int:
    return min(_instants(flights, lead_ms))


def last_instant_ms(flights: Sequence[Flight], lead_ms: int) -> int:
    return max(_instants(flights, lead_ms))


def _instants(flights: Iterable[Flight], lead_ms: int) -> Iterable[int]:
    """Everything that happens in a replay."""
    for flight in flights:
        yield reminder_ms(flight, lead_ms)
        for fact in facts_of(flight, lead_ms):
            yield fact.known_ms
            yield fact.reminder_ms or fact.known_ms
