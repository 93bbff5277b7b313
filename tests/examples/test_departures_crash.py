"""What the oracle excuses where an instance was killed, and what it does not."""

from __future__ import annotations

from dataclasses import replace

from examples.departures.crash import forgotten
from examples.departures.logs import Call, Crash, Received
from examples.departures.oracle import AFTER_CANCELLED, EARLY, TWICE, WRONG_ANSWER, WRONG_TIME, Verdict, judge
from tests.examples.flights_rig import CALLS, CAME, FLIGHTS, GATE, OFF, PLAN, call, came

# All reminders are due at 970; the gate's fact is asked at 980, that of the flight that is off at 981.
CRASH = Crash(972, 979)
MOVED = [each for each in CALLS if (each.flight_id, each.verb) != (GATE, "move")] + [call(GATE, "move", 980, "OK", 975)]
CALLED_OFF = [*CALLS[:-1], call(OFF, "cancel", 981, "CANCELLED")]


def verdict(calls: list[Call], received: list[Received], *crashes: Crash) -> Verdict:
    return judge(FLIGHTS, PLAN, calls, received, crashes)


def kinds(calls: list[Call], received: list[Received], *crashes: Crash) -> set[str]:
    return {each.kind for each in verdict(calls, received, *crashes).violations}


def test_a_reminder_that_fired_before_the_crash_may_be_moved_after_it() -> None:
    again = [*CAME, came(GATE, 975, 981, "d-again")]
    assert kinds(MOVED, again) == {EARLY, TWICE, WRONG_TIME}
    excused = verdict(MOVED, again, CRASH)
    assert excused.holds, excused.violations
    assert excused.counts["fired before a crash, then moved or cancelled"] == 1
    assert kinds(MOVED, again, replace(CRASH, killed_ms=985, back_ms=990)) == {EARLY, TWICE, WRONG_TIME}
    assert kinds(MOVED, again, Crash(971 + 5_001, 971 + 5_002)) == {EARLY, TWICE, WRONG_TIME}


def test_it_may_be_called_off_as_well_but_does_not_come_after_the_answer() -> None:
    assert kinds(CALLED_OFF, CAME) == {WRONG_ANSWER}
    assert verdict(CALLED_OFF, CAME, CRASH).holds
    late = [replace(each, received_ms=982) if each.flight_id == OFF else each for each in CAME]
    assert kinds(CALLED_OFF, late, CRASH) == {AFTER_CANCELLED}


def test_nothing_early_is_excused_and_nothing_without_a_later_answer() -> None:
    early = [replace(each, received_ms=969.0) if each.flight_id == OFF else each for each in CAME]
    assert forgotten(CALLED_OFF, early, [CRASH]) == set()
    assert forgotten(CALLS[:4], CAME, [CRASH]) == set()
