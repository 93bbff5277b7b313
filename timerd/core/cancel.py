"""Cancel (protocol section 5): write the mark, *then* look again where the task is, *then* ask the holder of that
place.

CANCELLED is said only when the holder has remembered it, or nobody holds the partition and nothing settled says that
the task fired: then whoever takes the partition reads the mark before it sends anything. A holder that does not answer
may send the task once more before it meets the mark: then PENDING is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from timerd.core.holding import Asked
from timerd.core.lookup import Located, follow, locate, settled_move
from timerd.core.procedures import AskInHand, AskToEnd, Ending, Find, FindSettled, HolderAnswer, Procedure, SetMarks
from timerd.core.ties import ENDS, anchor_of, end_marks, ended_elsewhere, home_of, tied_to, unwritten
from timerd.model.identity import TaskId, generation_of
from timerd.model.registers import Move, MoveState, Place
from timerd.model.settle import Outcome
from timerd.model.storage import Found, Mark, MarkKind

KINDS = {Outcome.CANCELLED: MarkKind.CANCELLED, Outcome.PURGED: MarkKind.PURGED, Outcome.ACKED: MarkKind.ACKED}
ONWARD = (Outcome.CARRIED, Outcome.PARKED, Outcome.MOVED, Outcome.FORWARDED)
# Of a copy: nothing is sent from there any more, though no mark leads on. Who writes elsewhere what was refused here
# reads the marks after he has pointed there, and takes ours along (core/insert.py); of a move, `moves` tells.
LEFT_FOR_GOOD = (Outcome.FORWARDED, Outcome.MOVED)


class Cancelled(Enum):
    """The answers, as the wire says them."""

    CANCELLED = "cancelled"
    ALREADY_CANCELLED = "already cancelled"
    ALREADY_FIRED = "already fired"
    IN_FLIGHT = "in flight"
    NOT_FOUND = "not found"
    PENDING = "pending"


# Of a task with copies the gravest is said.
GRAVITY = (
    Cancelled.NOT_FOUND,
    Cancelled.CANCELLED,
    Cancelled.ALREADY_CANCELLED,
    Cancelled.ALREADY_FIRED,
    Cancelled.IN_FLIGHT,
    Cancelled.PENDING,
)


def end_task(task: TaskId, outcome: Outcome, request: bytes, generation: int | None = None) -> Procedure[Cancelled]:
    """Cancels, purges or acknowledges a task that is not open, wherever it lives. `request` names the call: a repeat is
    answered as the first time. `generation`: an ack is of one delivery, so it does not follow the task into the
    life that a move gave it meanwhile, which has not fired."""
    said, here, fresh = yield from _end(task, outcome, request, generation)
    if outcome is Outcome.ACKED or said not in (Cancelled.CANCELLED, Cancelled.ALREADY_CANCELLED):
        return said
    if fresh is not None:
        # A store that counts marks knows a repeated call, so its tasks have no copies (core/cancel_many.py likewise).
        return said
    return (yield from _with_copies(task, here, outcome, request, said))


# What was said; what was found after the mark was durable on the task's home as well (None: it may not be); what the
# store said to the mark.
Ended = tuple[Cancelled, Located | None, int | None]


def _end(task: TaskId, outcome: Outcome, request: bytes, generation: int | None) -> Procedure[Ended]:
    here = yield from locate(task)
    mine = False
    while True:
        if generation is not None and generation_of(here.place.key.version) != generation:
            return Cancelled.ALREADY_FIRED, None, None
        if here.rows is None:
            return Cancelled.NOT_FOUND, None, None
        if _is_over(here):
            # Once more, because the marks were read before it was known to have ended.
            here = yield from locate(task)
            if not _is_over(here):
                # Its holder knew of a mark on a place that it has left, or had yet to write the record, and is gone.
                continue
            yield from _mark_here(here)
            if outcome is Outcome.ACKED:
                said = yield from _known_to_holder(here, request, mine)
                if isinstance(said, Cancelled):
                    return said, None, None
                here = yield from locate(task)
                continue
            mine = mine or (yield from _is_marked_at_home(task, here, outcome, request))
            said = _ended(here, here.ending.outcome, request, mine)
            return (yield from _or_in_flight(here, outcome, said)), None, None
        verdict, value = _verdict(here, outcome, request)
        fresh: int | None = yield SetMarks(_marks(task, here, KINDS[verdict], value))
        again = yield from locate(task)
        if again.places != here.places:
            mine = mine or (yield from _is_marked(here.place, KINDS[outcome], request))
            here = again
            continue
        said = yield from _ask(again, verdict, value, outcome, request, mine)
        if said is Outcome.FORWARDED:
            # Whoever writes it elsewhere reads the mark after he has pointed there; he may have died before that.
            is_mine = again.first(KINDS[outcome]) == request
            said = Cancelled.CANCELLED if is_mine else Cancelled.ALREADY_CANCELLED
        if isinstance(said, Cancelled):
            return said, again if again.move is None else None, fresh
        here = yield from locate(task)


def _is_over(here: Located) -> bool:
    return here.ending.outcome is not None and here.ending.outcome not in ONWARD


def _ask(
    here: Located, verdict: Outcome, value: bytes, outcome: Outcome, request: bytes, mine: bool
) -> Procedure[Cancelled | Outcome]:
    """There, where it was carried from as long as no row is there, and where it may live as well."""
    said = yield from _ask_at(here, verdict, value, outcome, request, mine)
    if here.source is not None and isinstance(said, Cancelled):
        there = yield from _ask_at(replace(here, place=here.source), verdict, value, outcome, request, mine)
        said = max(said, there, key=GRAVITY.index) if isinstance(there, Cancelled) else said
    for other in here.others:
        if isinstance(said, Cancelled) or said is Outcome.FORWARDED:
            there = yield from _ask(other, verdict, value, outcome, request, mine)
            said = _graver(said, there)
    return said


def _graver(said: Cancelled | Outcome, there: Cancelled | Outcome) -> Cancelled | Outcome:
    """Where it was carried on meanwhile, it is looked for again; nothing is sent from a place that it left for good."""
    if isinstance(said, Cancelled) and isinstance(there, Cancelled):
        return max(said, there, key=GRAVITY.index)
    return said if there in LEFT_FOR_GOOD else there


def _ask_at(
    here: Located, verdict: Outcome, value: bytes, outcome: Outcome, request: bytes, mine: bool
) -> Procedure[Cancelled | Outcome]:
    lease_ms = here.rows.extra_of(0).lease_until_ms if here.rows is not None else 0
    key = here.place.key if here.rows is not None else unwritten(here.place)
    answer: HolderAnswer = yield AskToEnd(here.place.partition, key, verdict, value, lease_ms)
    said = yield from _conclude(here, answer, outcome, request, mine)
    return (yield from _or_in_flight(here, outcome, said)) if isinstance(said, Cancelled) else said


def _marks(task: TaskId, here: Located, kind: MarkKind, value: bytes) -> list[Mark]:
    """Where it lives; where that is not its home, whoever writes a copy of it later looks at its home."""
    marks = [Mark(place.partition, place.key, kind, value) for place in here.places]
    is_away = here.move is None and here.place != home_of(task) and kind in ENDS
    return [*marks, ended_elsewhere(home_of(task), kind, value)] if is_away else marks


def _with_copies(
    task: TaskId, here: Located | None, outcome: Outcome, request: bytes, said: Cancelled
) -> Procedure[Cancelled]:
    """Rows of the same task in other buckets end as well (core/ties.py). Nothing is asked for a task that came in time
    and was written once."""
    home = home_of(task)
    if here is not None and here.rows is not None:
        rows, marks = here.rows, here.marks
    else:
        found = yield from _marked_at_home(task, outcome, request)
        if found is None:
            return said
        rows, marks = found.rows, found.marks
    anchor = anchor_of(home, int(rows.columns["fire_at_ms"][0])) if len(rows) else None
    met = {home}
    left = [*tied_to(marks), *([anchor] if anchor is not None else [])]
    while left:
        place = left.pop()
        if place not in met:
            met.add(place)
            there, marks = yield from _end_copy(task, place, outcome, request)
            said = max(said, there, key=GRAVITY.index)
            left += tied_to(marks)
    if len(met) > 1 and (yield from _was_moved(task)):
        # By the id of any of its rows, maybe after it was looked for where it lives; no row that was met is that one.
        there, _, _ = yield from _end(task, outcome, request, None)
        said = max(said, there, key=GRAVITY.index)
    return said


def _was_moved(task: TaskId) -> Procedure[bool]:
    stored = yield from settled_move(task.digest)
    return stored is not None and Move.from_bytes(stored).state is MoveState.MOVED


def _marked_at_home(task: TaskId, outcome: Outcome, request: bytes) -> Procedure[Found | None]:
    """Of a task that was over before: what is found at its home after a mark there is durable. None: a store that has
    no copies."""
    home = home_of(task)
    at = Find(home.partition, [(task.position_ms, task.digest)])
    before: Found = (yield at)[0]
    known = (m for m in before.marks if m.kind in ENDS or m.kind is MarkKind.ENDED_ELSEWHERE)
    fresh: int | None = yield SetMarks([next(known, ended_elsewhere(home, KINDS[outcome], request))])
    after: Found | None = (yield at)[0] if fresh is None else None
    return after


def _end_copy(
    task: TaskId, first: Place, outcome: Outcome, request: bytes
) -> Procedure[tuple[Cancelled, Sequence[Mark]]]:
    """As `_end`, of a place where a row of the task may be, or may be written yet; and the marks that are there."""
    places = [first]
    while True:
        yield SetMarks(end_marks([first, *places], KINDS[outcome], request))
        here = yield from follow(task, first)
        if here.rows is None:
            here = replace(here, place=first)
        if _is_over(here):
            return _ended(here, here.ending.outcome, request, True), here.marks
        if here.places != places:
            places = here.places
            continue
        said = yield from _ask(here, outcome, request, outcome, request, True)
        if said in LEFT_FOR_GOOD:
            return Cancelled.CANCELLED, here.marks
        if isinstance(said, Cancelled):
            return said, here.marks


def _known_to_holder(here: Located, request: bytes, mine: bool) -> Procedure[Cancelled | Outcome]:
    """The record that says so may be that of a holder which had a successor by then: he has read the records without
    it, and would send the task again after its ack was confirmed."""
    answer: HolderAnswer = yield AskToEnd(here.place.partition, here.place.key, Outcome.ACKED, request)
    return (yield from _conclude(here, answer, Outcome.ACKED, request, mine))


def _verdict(here: Located, outcome: Outcome, request: bytes) -> tuple[Outcome, bytes]:
    """What was purged is not cancelled as well, nor the other way round: the first of the two stays."""
    other = {Outcome.CANCELLED: Outcome.PURGED, Outcome.PURGED: Outcome.CANCELLED}.get(outcome)
    value = here.mark(KINDS[other]) if other is not None else None
    if other is None or value is None or here.mark(KINDS[outcome]) is not None:
        return outcome, request
    return other, value


def _mark_here(here: Located) -> Procedure[None]:
    """The holder may know the end from a mark on a place that the task was carried from: nobody reads that one again
    once `verified` has passed it, so the end is written where the task lives before it is told. The row that waits
    there is over now, not when its instant comes."""
    outcome = here.ending.outcome
    kind = KINDS.get(outcome) if outcome is not None else None
    value = here.first(kind) if kind is not None else None
    if outcome is not None and kind is not None and value is not None and here.mark(kind) is None:
        yield SetMarks([Mark(here.place.partition, here.place.key, kind, value)])
        yield AskToEnd(here.place.partition, here.place.key, outcome, value)


def _is_marked(place: Place, kind: MarkKind, request: bytes) -> Procedure[bool]:
    """Whether the mark on a place that the task has left meanwhile is ours: it may end the task in its new place."""
    found: Found = (yield Find(place.partition, [(place.key.position_ms, place.key.digest)]))[0]
    return any(m.kind == kind and m.value == request for m in found.marks)


def _is_marked_at_home(task: TaskId, here: Located, outcome: Outcome, request: bytes) -> Procedure[bool]:
    """Of a task that was moved before the mark came, or by a call that was tried before: whoever holds home and the new
    place goes by that mark, if there is no other."""
    is_asked = here.ending.outcome is outcome and outcome is not Outcome.ACKED
    if not is_asked or here.first(KINDS[outcome]) is not None:
        return False
    return (yield from _is_marked(home_of(task), KINDS[outcome], request))


def _conclude(
    here: Located, answer: HolderAnswer, outcome: Outcome, request: bytes, mine: bool
) -> Procedure[Cancelled | Outcome]:
    """One of ONWARD: it was carried on meanwhile, look again."""
    if answer.asked is Asked.SILENT:
        return Cancelled.PENDING
    if answer.asked is Asked.OPEN:
        return Cancelled.IN_FLIGHT
    if answer.asked is Asked.WAITING:
        return Cancelled.CANCELLED if answer.request == request else Cancelled.ALREADY_CANCELLED
    settled = answer.outcome
    if answer.asked is not Asked.ENDED:
        ending: Ending = yield FindSettled(here.place.partition, here.place.key)
        settled = ending.outcome
    if settled is None and answer.in_hand:
        return Cancelled.IN_FLIGHT
    if settled is None:
        return Cancelled.CANCELLED if here.first(KINDS[outcome]) == request else Cancelled.ALREADY_CANCELLED
    return settled if settled in ONWARD else _ended(here, settled, request, mine)


def _or_in_flight(here: Located, outcome: Outcome, said: Cancelled) -> Procedure[Cancelled]:
    """Where a holder gave a delivery away whose retries were stopped, its record says that the task was cancelled; the
    worker goes on with it all the same."""
    if said is not Cancelled.CANCELLED or outcome is Outcome.ACKED:
        return said
    is_in_hand: bool = yield AskInHand(here.place.key)
    return Cancelled.IN_FLIGHT if is_in_hand else said


def _ended(here: Located, settled: Outcome | None, request: bytes, mine: bool) -> Cancelled:
    if settled not in KINDS:
        return Cancelled.ALREADY_FIRED
    if mine or here.first(KINDS[settled]) == request:
        return Cancelled.CANCELLED
    return Cancelled.ALREADY_FIRED if settled is Outcome.ACKED else Cancelled.ALREADY_CANCELLED
