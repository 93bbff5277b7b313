"""The verdict, from what callers were answered and workers have begun and ended.

The judge of single tasks (tests/chaos/judging.py) says what is early, lost, under a second id, or there after
CANCELLED. Beside it stand the promises of regulation. A task that ends as a dead letter is through when the server says
so; every other one when a handler has done it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from tests.chaos.judging import HandedOver, Judgement
from tests.chaos.judging import judged as judged_singly
from tests.chaos.regulated.attempts import Attempt, attempts_of, grouped, without_stale
from tests.chaos.regulated.plan import HALT, LIMITS, RATED, is_doomed
from tests.chaos.regulated.promises import (
    above,
    above_slots,
    begun_while_halted,
    beside,
    fences_back,
    in_hand,
    is_given_up,
    misplaced,
    name_of_key,
    out_of_order,
    places_of,
    too_many,
    without_fence,
)
from tests.chaos.regulated.records import DONE, FAILED, Logs
from timerd.demo.records import CallRecord, Kill
from timerd.demo.records import Logs as SingleLogs
from timerd.demo.story import stories_of

_CHANGED = {"cancel": ("CANCELLED",), "move": ("OK", "UNKNOWN")}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`wrong`: by promise, what broke it. `keyed`: attempts of ordering keys; `stale`: those of them with a smaller
    fence, over a fault or on their way for longer than a lease; `beside`: that began beside one whose task another
    worker had ended; `halted`: how often an operator let a key go on; `most`: in hand at a time, by limit."""

    acknowledged: int
    arrived: int
    attempts: int
    failed: int
    dead: int
    cancelled: int
    moved: int
    again: int
    keyed: int
    placed: int
    stale: int
    beside: int
    halted: int
    most: Mapping[str, int]
    wrong: Mapping[str, Sequence[str]]

    @property
    def holds(self) -> bool:
        return not any(self.wrong.values())


def judged(logs: Logs) -> Verdict:
    attempts = attempts_of(logs)
    single = singly(logs, attempts)
    wrong: dict[str, list[str]] = {name: list(cases) for name, cases in single.verdict.violations.items()}
    wrong["unfinished"] = list(unfinished(logs, attempts))
    wrong |= of_keys(logs, attempts)
    wrong["G20, in hand"] = [sentence for limit in LIMITS for sentence in above(attempts, limit)]
    wrong["G20, rate"] = list(too_many([each for each in attempts if each.begun.queue == RATED], logs.windows))
    wrong["G23, types"] = [*misplaced(attempts), *above_slots(attempts)]
    return _verdict(logs, attempts, single, wrong)


def _verdict(logs: Logs, attempts: Sequence[Attempt], single: Judgement, wrong: Mapping[str, Sequence[str]]) -> Verdict:
    keys = grouped(attempts, name_of_key)
    kept = {name: without_stale(some, logs.windows) for name, some in keys.items()}
    said = single.verdict
    return Verdict(
        acknowledged=said.scheduled,
        arrived=said.fired,
        attempts=len(attempts),
        failed=sum(each.how == FAILED for each in attempts),
        dead=sum(each.state == "DEAD" for each in logs.seen),
        cancelled=said.cancelled,
        moved=said.moved,
        again=len(attempts) - len({(each.begun.delivery_id, each.begun.attempt) for each in attempts}),
        keyed=sum(map(len, keys.values())),
        placed=sum(1 for number in places_of(logs.calls, _began_ms(attempts)) if number in _keyed(keys)),
        stale=sum(map(len, keys.values())) - sum(map(len, kept.values())),
        beside=sum(_excused(some, logs) for some in kept.values()),
        halted=len(logs.released),
        most={limit.name: _most(attempts, limit.queues) for limit in LIMITS},
        wrong=wrong,
    )


def _keyed(keys: Mapping[str, Sequence[Attempt]]) -> set[int]:
    return {each.number for some in keys.values() for each in some}


def _excused(attempts: Sequence[Attempt], logs: Logs) -> int:
    return sum(
        any(
            each.number != later.number
            and each.given_up_ms > later.at_ms
            and is_given_up(each, later, attempts[:at], logs.windows)
            for each in attempts[:at]
        )
        for at, later in enumerate(attempts)
    )


def _most(attempts: Sequence[Attempt], queues: Sequence[str]) -> int:
    return max((count for _, count in in_hand(each for each in attempts if each.begun.queue in queues)), default=0)


def _began_ms(attempts: Sequence[Attempt]) -> dict[int, float]:
    return {each.number: each.at_ms for each in reversed(attempts)}


# -- single tasks -----------------------------------------------------------------------------------------------------


def singly(logs: Logs, attempts: Sequence[Attempt]) -> Judgement:
    """What had failed before a cancel or a move was answered is over: the task waited for its next attempt. What an
    operator has redriven has had its deliveries before."""
    changed = [call for call in logs.calls if call.outcome in _CHANGED.get(call.verb, ())]
    redriven_ms = _released_ms(logs, redriven=True)
    kept = tuple(
        each.begun.delivery
        for each in attempts
        if not _has_failed_before(each, changed) and each.at_ms < redriven_ms.get(each.begun.task_id, inf)
    )
    explaining = [window for window in logs.windows if window.explains]
    faults = [Kill(window.begun_ms, window.over_ms) for window in explaining]
    stops = [Kill(window.begun_ms, window.over_ms) for window in explaining if window.stops]
    given = [HandedOver(each.scope, each.at_ms) for each in logs.given]
    return judged_singly(SingleLogs(logs.calls, kept), faults, stops, given)


def _has_failed_before(each: Attempt, changed: Sequence[CallRecord]) -> bool:
    return each.how == FAILED and any(
        call.number == each.number and each.end_ms <= call.answered_ms for call in changed
    )


def _released_ms(logs: Logs, *, redriven: bool) -> dict[str, float]:
    """By task, when it was asked for first."""
    asked = sorted(logs.released, key=lambda each: each.asked_ms, reverse=True)
    return {each.task_id: each.asked_ms for each in asked if each.redriven == redriven}


def unfinished(logs: Logs, attempts: Sequence[Attempt]) -> Iterator[str]:
    """Of what was acknowledged and not cancelled."""
    done = {each.number for each in attempts if each.how == DONE}
    seen = {each.number: each.state for each in logs.seen}
    for number, story in stories_of(logs.calls).items():
        if not story.must_arrive:
            continue
        if is_doomed(number):
            if seen.get(number) != "DEAD":
                yield f"task {number} fails each time, and is {seen.get(number, 'unknown')}, no dead letter"
        elif number not in done:
            yield f"task {number} was stored for {story.fire_at_ms[0]}, and no handler has done it"


# -- keys -------------------------------------------------------------------------------------------------------------


def of_keys(logs: Logs, attempts: Sequence[Attempt]) -> dict[str, list[str]]:
    wrong: dict[str, list[str]] = {"G21, one at a time": [], "G21, in order": [], "G21, fences": [], "G21, halts": []}
    places = places_of(logs.calls, _began_ms(attempts))
    skipped_ms, changed = (
        _released_ms(logs, redriven=False),
        {each.number for each in logs.calls if each.verb in _CHANGED},
    )
    for name, some in grouped(attempts, name_of_key).items():
        kept, queue = without_stale(some, logs.windows), name.partition("/")[0]
        wrong["G21, one at a time"] += beside(kept, logs.windows)
        # A redrive that came after the skip puts its task behind what waits.
        in_place = [each for each in kept if each.at_ms < skipped_ms.get(each.begun.task_id, inf)]
        wrong["G21, in order"] += out_of_order(in_place, places, queue)
        if queue == HALT:
            wrong["G21, halts"] += begun_while_halted(kept, skipped_ms, changed)
        wrong["G21, fences"] += [*fences_back(kept), *without_fence(kept)]
    return wrong
