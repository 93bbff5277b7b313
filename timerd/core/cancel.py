"""Cancel (protocol section 5): write the mark, *then* look again where the task is, *then* ask the holder of that
place.

CANCELLED is said only when the holder has remembered it, or nobody holds the partition and nothing settled says that
the task fired: then whoever takes the partition reads the mark before it sends anything. A holder that does not answer
may send the task once more before it meets the mark: then PENDING is said.
"""

from __future__ import annotations

from enum import Enum

from timerd.core.holding import Asked
from timerd.core.lookup import Located, locate
from timerd.core.procedures import AskInHand, AskToEnd, Ending, Find, FindSettled, HolderAnswer, Procedure, SetMarks
from timerd.model.identity import RowKey, TaskId, generation_of
from timerd.model.registers import Place
from timerd.model.settle import Outcome
from timerd.model.storage import Found, Mark, MarkKind

KINDS = {Outcome.CANCELLED: MarkKind.CANCELLED, Outcome.PURGED: MarkKind.PURGED, Outcome.ACKED: MarkKind.ACKED}
ONWARD = (Outcome.CARRIED, Outcome.PARKED, Outcome.MOVED, Outcome.FORWARDED)


class Cancelled(Enum):
    """The answers, as the wire says them."""

    CANCELLED = "cancelled"
    ALREADY_CANCELLED = "already cancelled"
    ALREADY_FIRED = "already fired"
    IN_FLIGHT = "in flight"
    NOT_FOUND = "not found"
    PENDING = "pending"


def end_task(task: TaskId, outcome: Outcome, request: bytes, generation: int | None = None) -> Procedure[Cancelled]:
    """Cancels, purges or acknowledges a task that is not open, wherever it lives. `request` names the call: a repeat is
    answered as the first time. `generation`: an ack is of one delivery, so it does not follow the task into the
    life that a move gave it meanwhile, which has not fired."""
    here = yield from locate(task)
    mine = False
    while True:
        if generation is not None and generation_of(here.place.key.version) != generation:
            return Cancelled.ALREADY_FIRED
        if here.rows is None:
            return Cancelled.NOT_FOUND
        if here.ending.outcome is not None and here.ending.outcome not in ONWARD:
            # Once more, because the marks were read before it was known to have ended.
            here = yield from locate(task)
            yield from _mark_here(here)
            if outcome is Outcome.ACKED:
                said = yield from _known_to_holder(here, request, mine)
                if said is not None:
                    return said
                here = yield from locate(task)
                continue
            mine = mine or (yield from _is_marked_at_home(task, here, outcome, request))
            return (yield from _or_in_flight(here, outcome, _ended(here, here.ending.outcome, request, mine)))
        verdict, value = _verdict(here, outcome, request)
        yield SetMarks([Mark(here.place.partition, here.place.key, KINDS[verdict], value)])
        again = yield from locate(task)
        if again.place != here.place:
            mine = mine or (yield from _is_marked(here.place, KINDS[outcome], request))
            here = again
            continue
        lease_ms = again.rows.extra_of(0).lease_until_ms if again.rows is not None else 0
        answer: HolderAnswer = yield AskToEnd(here.place.partition, here.place.key, verdict, value, lease_ms)
        said = yield from _conclude(again, answer, outcome, request, mine)
        if said is not None:
            return (yield from _or_in_flight(again, outcome, said))
        here = yield from locate(task)


def _known_to_holder(here: Located, request: bytes, mine: bool) -> Procedure[Cancelled | None]:
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
    home = Place(task.home, RowKey(task.position_ms, task.digest, 0))
    return (yield from _is_marked(home, KINDS[outcome], request))


def _conclude(
    here: Located, answer: HolderAnswer, outcome: Outcome, request: bytes, mine: bool
) -> Procedure[Cancelled | None]:
    """None: it was carried on meanwhile, look again."""
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
    return None if settled in ONWARD else _ended(here, settled, request, mine)


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
