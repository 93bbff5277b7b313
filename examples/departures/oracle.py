"""The oracle of a replay: the data, the caller's answers and the worker's log, flight by flight. Pure; asks no server.

It folds the answers of a flight into what may still happen to its reminder, and holds the worker's log against that.
What was answered binds; an answer that never came leaves both possibilities open. A delivery that came again with the
same delivery_id is what "at least once" allows, so it is counted apart and breaks nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from examples.departures.crash import forgotten
from examples.departures.data import Flight
from examples.departures.facts import Pace, facts_of, reminder_ms
from examples.departures.logs import Call, Crash, Plan, Received

LOST = "lost"
EARLY = "early"
TWICE = "fired twice"
WRONG_TIME = "not at its final time"
AFTER_CANCELLED = "after CANCELLED"
WRONG_ANSWER = "untrue answer"
WRONG_ID = "another task_id"
NOT_ASKED = "asked otherwise than the data says"
STRANGER = "of no flight of the day"
KINDS = (LOST, EARLY, TWICE, WRONG_TIME, AFTER_CANCELLED, WRONG_ANSWER, WRONG_ID, NOT_ASKED, STRANGER)

Asked = TypeVar("Asked", Call, Received)
_TOO_LATE = frozenset({"ALREADY_FIRED", "IN_FLIGHT"})
_OPEN = frozenset({"PENDING", "UNKNOWN"})
_FIRED_REASON = "FAILED_PRECONDITION"


@dataclass(frozen=True, slots=True)
class Violation:
    kind: str
    flight_id: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Verdict:
    # What happened, by name; in reading order.
    counts: Mapping[str, int]
    violations: Sequence[Violation]
    # Of the first delivery of each flight, ascending.
    lateness_ms: Sequence[float]

    @property
    def holds(self) -> bool:
        return not self.violations


@dataclass(slots=True)
class Story:
    """What the answers so far allow: the reminder fires at one of `fire_at_ms`, and has to unless `must` is off."""

    fire_at_ms: list[int] = field(default_factory=list)
    must: bool = False
    task_id: str = ""
    cancelled_ms: float | None = None
    told: Counter[str] = field(default_factory=Counter)
    untrue: list[str] = field(default_factory=list)


def judge(
    flights: Sequence[Flight],
    plan: Plan,
    calls: Sequence[Call],
    received: Sequence[Received],
    crashes: Sequence[Crash] = (),
) -> Verdict:
    excused = forgotten(calls, received, crashes)
    asked, arrived = _by_flight(calls), _by_flight(each for each in received if each not in excused)
    known = {flight.flight_id for flight in flights}
    told: Counter[str] = Counter()
    violations = list(_strangers(known, asked, arrived))
    for flight in flights:
        mine, runs = asked.get(flight.flight_id, []), arrived.get(flight.flight_id, [])
        story = story_of(mine)
        told += story.told
        found = chain(_asked_otherwise(flight, plan, mine), _wrong_answers(flight, story), _arrivals(story, runs))
        violations += found
        violations += _missing(flight, story, runs)
    counts = _counts(flights, told, arrived, known)
    if crashes:
        counts["fired before a crash, then moved or cancelled"] = len(excused)
    return Verdict(counts, violations, _lateness(arrived))


def _by_flight(lines: Iterable[Asked]) -> dict[str, list[Asked]]:
    groups: dict[str, list[Asked]] = defaultdict(list)
    for line in lines:
        groups[line.flight_id].append(line)
    return groups


def story_of(calls: Iterable[Call]) -> Story:
    """In the order of the log: the caller asks nothing about a flight before its last question is answered."""
    story = Story()
    for call in calls:
        {"schedule": _scheduled, "move": _moved, "cancel": _cancelled}[call.verb](story, call)
    return story


def _scheduled(story: Story, call: Call) -> None:
    story.told[f"schedule {call.outcome}"] += 1
    story.task_id = call.task_id
    if call.outcome == "OK":
        story.fire_at_ms, story.must = [call.fire_at_ms], True
        _check_time(story, call)
    elif call.outcome == "UNKNOWN":
        story.fire_at_ms = [call.asked_fire_at_ms]
    else:
        story.untrue.append(f"its reminder was not stored ({call.outcome} {call.reason})")


def _moved(story: Story, call: Call) -> None:
    fired = call.outcome == "REFUSED" and call.reason == _FIRED_REASON
    story.told["move too late" if fired else f"move {call.outcome}"] += 1
    if call.outcome == "OK":
        story.fire_at_ms = [call.fire_at_ms]
        _check_time(story, call)
    elif call.outcome == "UNKNOWN":
        story.fire_at_ms.append(call.asked_fire_at_ms)
    elif not fired:
        story.untrue.append(f"a move was refused ({call.outcome} {call.reason}) though nothing stood against it")
    else:
        _check_fired(story, call)


def _cancelled(story: Story, call: Call) -> None:
    too_late = call.outcome in _TOO_LATE
    story.told["cancel too late" if too_late else f"cancel {call.outcome}"] += 1
    if call.outcome == "CANCELLED":
        story.cancelled_ms, story.must = call.answered_ms, False
    elif call.outcome in _OPEN:
        story.must = False
    elif too_late:
        _check_fired(story, call)
    else:
        story.untrue.append(f"a cancel was answered {call.outcome} {call.reason}")


def _check_time(story: Story, call: Call) -> None:
    if call.fire_at_ms != call.asked_fire_at_ms:
        story.untrue.append(f"a {call.verb} for {call.asked_fire_at_ms} was answered with {call.fire_at_ms}")


def _check_fired(story: Story, call: Call) -> None:
    """That it has fired cannot be true before the earliest instant that was agreed."""
    due_ms = min(story.fire_at_ms, default=0)
    if call.answered_ms < due_ms:
        ahead_ms = due_ms - call.answered_ms
        story.untrue.append(
            f"a {call.verb} was answered {call.outcome} (has fired) {ahead_ms:.3f} ms before it was due"
        )


def _wrong_answers(flight: Flight, story: Story) -> Iterator[Violation]:
    return (Violation(WRONG_ANSWER, flight.flight_id, sentence) for sentence in story.untrue)


def _asked_otherwise(flight: Flight, plan: Plan, calls: Sequence[Call]) -> Iterator[Violation]:
    """Without a stored reminder there is no id to ask with, so nothing more is expected then."""
    pace = Pace(plan.data_start_ms, plan.wall_start_ms, plan.speed)
    wanted = [("schedule", pace.wall_ms(reminder_ms(flight, plan.lead_ms)))]
    if calls and calls[0].outcome == "OK":
        facts = facts_of(flight, plan.lead_ms)
        wanted += [(fact.verb, pace.wall_ms(fact.reminder_ms) if fact.verb == "move" else 0) for fact in facts]
    asked = [(call.verb, call.asked_fire_at_ms) for call in calls]
    if asked != wanted:
        yield Violation(NOT_ASKED, flight.flight_id, f"the data says {wanted}, the caller asked {asked}")


def _arrivals(story: Story, runs: Sequence[Received]) -> Iterator[Violation]:
    for each in runs:
        if story.cancelled_ms is not None:
            yield _despite_cancel(each, each.received_ms - story.cancelled_ms)
        if each.fire_at_ms not in story.fire_at_ms:
            agreed = " or ".join(map(str, story.fire_at_ms)) or "nothing"
            yield Violation(WRONG_TIME, each.flight_id, f"it fired for {each.fire_at_ms}; agreed was {agreed}")
        due_ms = max(each.fire_at_ms, min(story.fire_at_ms, default=0))
        if each.received_ms < due_ms:
            yield Violation(EARLY, each.flight_id, f"it arrived {due_ms - each.received_ms:.3f} ms before its time")
        if story.task_id and each.task_id != story.task_id:
            yield Violation(WRONG_ID, each.flight_id, f"{each.task_id} arrived, {story.task_id} was answered")
    ids = {each.delivery_id for each in runs}
    if len(ids) > 1:
        yield Violation(TWICE, runs[0].flight_id, f"it arrived with {len(ids)} different delivery_ids")


def _despite_cancel(each: Received, after_ms: float) -> Violation:
    if after_ms > 0:
        return Violation(AFTER_CANCELLED, each.flight_id, f"it arrived {after_ms:.3f} ms after the answer CANCELLED")
    return Violation(
        WRONG_ANSWER, each.flight_id, f"it was with the worker {-after_ms:.3f} ms before the answer CANCELLED"
    )


def _missing(flight: Flight, story: Story, runs: Sequence[Received]) -> Iterator[Violation]:
    if story.must and not runs:
        yield Violation(LOST, flight.flight_id, f"its reminder for {story.fire_at_ms[-1]} never arrived")


def _strangers(
    known: set[str], asked: Mapping[str, Sequence[Call]], arrived: Mapping[str, Sequence[Received]]
) -> Iterator[Violation]:
    for flight_id in sorted({*asked, *arrived} - known):
        where = "a call names it" if flight_id in asked else "a delivery names it"
        yield Violation(STRANGER, flight_id, f"{where}, the data does not")


def _counts(
    flights: Sequence[Flight], told: Mapping[str, int], arrived: Mapping[str, Sequence[Received]], known: set[str]
) -> dict[str, int]:
    runs = [run for flight_id, run in arrived.items() if flight_id in known]
    return {
        "flights": len(flights),
        "reminders stored": told.get("schedule OK", 0),
        "moves done": told.get("move OK", 0),
        "moves too late": told.get("move too late", 0),
        "cancelled": told.get("cancel CANCELLED", 0),
        "cancels too late": told.get("cancel too late", 0),
        "answers that never came": sum(
            count for name, count in told.items() if name.endswith((" UNKNOWN", " PENDING"))
        ),
        "reminders fired": len(runs),
        "duplicates (same delivery_id)": sum(len(run) - len({each.delivery_id for each in run}) for run in runs),
    }


def _lateness(arrived: Mapping[str, Sequence[Received]]) -> list[float]:
    first = (min(run, key=lambda each: each.received_ms) for run in arrived.values())
    return sorted(each.received_ms - each.fire_at_ms for each in first)
