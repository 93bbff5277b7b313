"""What is promised of keys, limits, rates and types, each held against the attempts of a run. Each finding is a
sentence.

- G21: the attempts of a key are one at a time, in the order of its tasks, and their fences never go back.
- G21: a key that stands still by a dead letter goes on when an operator says so, and not before.
- G20: of a limit no more are in hand than it allows. What has lost its lease is not counted after that.
- G20: in any w seconds no more start than rate * (w + 1 s) + burst.
- G23: a worker gets what it has offered, and no more at a time than it has slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from tests.chaos.regulated.attempts import Attempt, grouped, is_within
from tests.chaos.regulated.plan import BURST, OFFERS, PASS, RATE_PER_S, Limited, is_doomed, key_of, queue_of
from tests.chaos.regulated.records import Window
from timerd.demo.records import CallRecord

# By which the clocks of two instances may differ on one machine.
CLOCKS_MS = 100
# From an instance to the handler; and while the one, or what lies between them, stands still.
_WAY_S, _STOPPED_WAY_S = 1.0, 12.0


# -- keys -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where a task stands in its key, as far as its callers know: by its time, then by its call."""

    fire_at_ms: int
    asked_ms: float
    answered_ms: float
    number: int

    def is_before(self, other: Place) -> bool:
        """For certain."""
        if self.fire_at_ms != other.fire_at_ms:
            return self.fire_at_ms < other.fire_at_ms
        if self.asked_ms == other.asked_ms:
            return self.number < other.number
        return self.answered_ms + CLOCKS_MS < other.asked_ms


def places_of(calls: Iterable[CallRecord], began_ms: Mapping[int, float]) -> dict[int, Place]:
    """Of tasks that stood in their place before they were due: who came late has a later one. `began_ms`: when a task
    began first; one that was moved after that has two places."""
    places: dict[int, Place] = {}
    unsure = set[int]()
    for call in sorted(calls, key=lambda call: (call.verb != "schedule", call.answered_ms)):
        if call.verb == "cancel" or call.outcome == "UNKNOWN":
            unsure.add(call.number)
        elif call.outcome == "OK":
            if call.answered_ms > call.fire_at_ms or (
                call.verb == "move" and began_ms.get(call.number, call.answered_ms) < call.answered_ms
            ):
                unsure.add(call.number)
            places[call.number] = Place(call.fire_at_ms, call.asked_ms, call.answered_ms, call.number)
    return {number: place for number, place in places.items() if number not in unsure}


def beside(attempts: Sequence[Attempt], windows: Sequence[Window]) -> Iterator[str]:
    """Of one key: two tasks at a time. Where a task was sent once more over a fault, and who had it first has ended it,
    the next one may begin beside the second one, with a larger fence."""
    for at, later in enumerate(attempts):
        for each in attempts[:at]:
            if each.number == later.number or each.given_up_ms <= later.at_ms:
                continue
            if not is_given_up(each, later, attempts[:at], windows):
                yield f"{later} began beside {each}, of the same key"


def is_given_up(each: Attempt, later: Attempt, before: Sequence[Attempt], windows: Sequence[Window]) -> bool:
    first = [
        other
        for other in before
        if other.number == each.number and other.is_done and other.at_ms < each.at_ms and other.end_ms <= later.at_ms
    ]
    is_explained = any(window.explains and window.begun_ms <= later.at_ms for window in windows)
    return bool(first) and is_explained and later.begun.fence > each.begun.fence


def out_of_order(attempts: Sequence[Attempt], places: Mapping[int, Place], queue: str) -> Iterator[str]:
    """Of one key. With PASS a task that has failed is passed by others; what has not been tried is not."""
    last_ms = {each.number: each.at_ms for each in attempts}
    first: dict[int, Attempt] = {}
    for each in attempts:
        first.setdefault(each.number, each)
    for later in first.values():
        for number, one in first.items():
            if number in places and later.number in places and places[number].is_before(places[later.number]):
                is_passed = one.at_ms > later.at_ms and one.begun.attempt == 1
                if is_passed if queue == PASS else last_ms[number] > later.at_ms:
                    yield f"{later} began before the last of {number}, whose turn it was"


def fences_back(attempts: Sequence[Attempt]) -> Iterator[str]:
    for one, other in pairwise(attempts):
        if other.begun.fence < one.begun.fence:
            yield f"the fence {other.begun.fence} of {other} came after {one.begun.fence} of {one}"


def begun_while_halted(
    attempts: Sequence[Attempt], skipped_ms: Mapping[str, float], unsure: Iterable[int]
) -> Iterator[str]:
    """Of one key of a queue that halts: what began after a task that ends as a dead letter. `skipped_ms`: by task, when
    somebody asked that the key go on without it; `unsure`: numbers of tasks that may have ended otherwise."""
    doomed: dict[int, Attempt] = {}
    for each in attempts:
        for number, before in doomed.items():
            if number != each.number and each.at_ms < skipped_ms.get(before.begun.task_id, inf):
                yield f"{each} began, and its key stood still by {number}, which began at {before.at_ms:.0f}"
        if is_doomed(each.number) and each.number not in unsure:
            doomed.setdefault(each.number, each)


def without_fence(attempts: Iterable[Attempt]) -> Iterator[str]:
    yield from (f"{each} has no fence" for each in attempts if not each.begun.fence)


def name_of_key(each: Attempt) -> str:
    return f"{each.begun.queue}/{each.begun.key}" if each.begun.key else ""


# -- limits -----------------------------------------------------------------------------------------------------------


def in_hand(attempts: Iterable[Attempt]) -> list[tuple[Attempt, int]]:
    """How many were in hand when each began, itself with them."""
    found, open_ = [], list[Attempt]()
    for each in attempts:
        open_ = [other for other in open_ if other.given_up_ms > each.at_ms]
        open_.append(each)
        found.append((each, len(open_)))
    return found


def above(attempts: Iterable[Attempt], limit: Limited) -> Iterator[str]:
    for each, count in in_hand(each for each in attempts if each.begun.queue in limit.queues):
        if count > limit.most:
            yield f"{each} was number {count} in hand of {limit.name}, which allows {limit.most}"


def too_many(attempts: Sequence[Attempt], windows: Sequence[Window]) -> Iterator[str]:
    """Of the rate: for each start the windows that end with it."""
    at_s, stops = [each.at_ms / 1000 for each in attempts], [window for window in windows if window.stops]
    for last in range(len(attempts)):
        for first in range(last + 1):
            if last - first + 1 > _allowed(at_s[last] - at_s[first], attempts[last], stops):
                yield f"{last - first + 1} began within {at_s[last] - at_s[first]:.2f} s, up to {attempts[last]}"
                break


def _allowed(span_s: float, last: Attempt, stops: Sequence[Window]) -> float:
    """What was sent in time may begin late."""
    way_s = _STOPPED_WAY_S if is_within(last.at_ms, stops) else _WAY_S
    return RATE_PER_S * (span_s + 1 + way_s) + BURST


# -- types ------------------------------------------------------------------------------------------------------------


def misplaced(attempts: Iterable[Attempt]) -> Iterator[str]:
    """Each is of the queue and the key that its caller has said, and its worker does that."""
    for each in attempts:
        said = queue_of(each.number), key_of(each.number)
        if (each.begun.queue, each.begun.key) != said:
            yield f"{each} came by {each.begun.queue} {each.begun.key}, and is of {' '.join(said)}"
        if each.begun.queue not in OFFERS[each.begun.offer].queues:
            yield f"{each} came of {each.begun.queue}, which its worker does not offer"


def above_slots(attempts: Iterable[Attempt]) -> Iterator[str]:
    """Also what was given up has its slot, as long as its handler runs."""
    for worker, some in grouped(attempts, lambda each: each.begun.worker).items():
        offer = OFFERS[some[0].begun.offer]
        for queues, most in ((offer.types, offer.slots), *(((each,), offer.concurrency) for each in offer.single)):
            mine = [each for each in some if each.begun.queue in queues]
            for at, each in enumerate(mine):
                count = 1 + sum(other.end_ms > each.at_ms for other in mine[:at])
                if count > most:
                    yield f"{each} was number {count} in {worker} of {', '.join(queues)}, where {most} are offered"
