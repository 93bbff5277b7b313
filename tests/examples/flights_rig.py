"""A few flights and what became of them."""

from __future__ import annotations

from datetime import date

from examples.departures.data import MINUTE_MS, Flight
from examples.departures.facts import DEFAULT_LEAD_MS
from examples.departures.logs import Call, Plan, Received

# One replay minute is one wall millisecond, and the data's clock starts at 0.
PLAN = Plan("2013-01-01", DEFAULT_LEAD_MS, MINUTE_MS, 0, 0, "q")
SCHEDULED = 1000
CALM, DELAYED, GATE, OFF = "calm", "delayed", "gate", "off"


def flight(name: str, delay: int | None) -> Flight:
    scheduled_ms = SCHEDULED * MINUTE_MS
    departed_ms = None if delay is None else scheduled_ms + delay * MINUTE_MS
    return Flight(name, date(2013, 1, 1), "UA", 7, "EWR", "IAH", scheduled_ms, departed_ms)


FLIGHTS = [flight(CALM, 0), flight(DELAYED, 90), flight(GATE, 5), flight(OFF, None)]


def call(name: str, verb: str, at: float, outcome: str, fire_at: int = 0, reason: str = "") -> Call:
    answered = fire_at if outcome == "OK" else 0
    return Call(name, verb, at, at + 0.5, outcome, reason, f"id-{name}", fire_at, answered)  # type: ignore[arg-type]


def came(name: str, fire_at: int, at: float, delivery_id: str = "", attempt: int = 1) -> Received:
    return Received(name, f"id-{name}", delivery_id or f"d-{name}", attempt, fire_at, at)


# All reminders are first due at 970. The flight that is off is called off at 981, when its reminder has fired.
CALLS = [
    *(call(name, "schedule", 1, "OK", 970) for name in (CALM, DELAYED, GATE, OFF)),
    call(DELAYED, "move", 955, "OK", 1030),
    call(DELAYED, "move", 1015, "OK", 1060),
    call(GATE, "move", 980, "REFUSED", 975, "FAILED_PRECONDITION"),
    call(OFF, "cancel", 981, "ALREADY_FIRED"),
]
CAME = [came(CALM, 970, 970.25), came(DELAYED, 1060, 1060), came(GATE, 970, 971), came(OFF, 970, 970.5)]
