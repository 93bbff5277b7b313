"""Cancel (protocol section 5): write the mark, *then* look again where the task is, *then* ask the holder of that
place.

CANCELLED is said only when the holder has remembered it, or nobody holds the partition and nothing settled says that
the task fired: then the next holder of the partition reads the mark before it sends anything. A holder that does not
answer may send the task once more before it meets the mark: then PENDING is said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from hashlib import blake2b

from timerd.core.partition import Asked
from timerd.core.protocol.lookup import ENDS, Located, home_of, locate, unwritten
from timerd.core.protocol.procedures import (
    AskInHand,
    AskToEnd,
    AskToMove,
    Ending,
    Find,
    FindSettled,
    HolderAnswer,
    Procedure,
    SetMarks,
)
from timerd.core.protocol.request_memory import recall, remember
from timerd.model.errors import Unavailable
from timerd.model.identity import TaskId, generation_of
from timerd.model.outcomes import BY_EXPIRY, MARK_OF_OUTCOME, mark_kind, outcome_of
from timerd.model.registers import Place
from timerd.model.settle import Outcome
from timerd.model.storage import Found, Mark, MarkKind

ONWARD = (Outcome.CARRIED, Outcome.PARKED, Outcome.MOVED, Outcome.FORWARDED)
# Of a copy: nothing is sent from there any more, though no mark leads on. Who writes elsewhere what was refused here
# reads the marks after it has pointed there, and takes ours along (core/protocol/insertion.py); of a move, `moves`
# tells.
LEFT_FOR_GOOD = (Outcome.FORWARDED, Outcome.MOVED)


SILENT = "The instance that holds the task does not answer. The cancel is stored: ask again in a moment how it ended."
ASK_AGAIN_MS = 500


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


# Of what has expired: how its holder answered. Whatever else it says, it is over.
_EXPIRED_AS = {Cancelled.PENDING: Asked.SILENT, Cancelled.IN_FLIGHT: Asked.OPEN}


def end_task(
    task: TaskId,
    outcome: Outcome,
    request: bytes,
    generation: int | None = None,
    *,
    now_ms: int = 0,
    is_marked: bool = False,
) -> Procedure[Cancelled]:
    """Cancels, purges or acknowledges a task that is not open, wherever it lives. `request` names the call: a repeat is
    answered as the first time. `generation`: an ack is of one delivery, so it does not follow the task into the
    life that a move gave it meanwhile, which has not fired. `now_ms`: what is said of a dead letter is remembered, for
    the task may live again when the call is repeated, and IN_FLIGHT, for the worker may be gone by then; 0: it is
    not. `is_marked`: this very try has marked the task before, which no earlier one had, so it is no repeat."""
    here = yield from _located(task, outcome, now_ms)
    mine, is_repeat = False, not is_marked and _is_marked_by(here, outcome, request)
    if is_repeat and (before := (yield from _said_before(task, request, now_ms))) is not None:
        return before
    while True:
        if generation is not None and generation_of(here.place.key.version) != generation:
            return Cancelled.ALREADY_FIRED
        if here.rows is None:
            return Cancelled.NOT_FOUND
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
                    return said
                here = yield from locate(task)
                continue
            mine = mine or (yield from _is_marked_at_home(task, here, outcome, request))
            return (yield from _said_of_ended(task, here, _Try(outcome, request, mine, is_repeat), now_ms))
        if (before := (yield from _said_of_earlier_life(task, here, request, now_ms))) is not None:
            return before
        pending, value = _pending_outcome(here, outcome, request)
        yield _marks(here, pending, value)
        again = yield from locate(task)
        if again.places != here.places:
            mine = mine or (yield from _is_marked(here.place, MARK_OF_OUTCOME[outcome], request))
            here = again
            continue
        said = yield from _ask(again, pending, value, _Try(outcome, request, mine, is_repeat))
        if said is Outcome.FORWARDED:
            # A call that writes it elsewhere reads the mark after it has pointed there; it may have died before that.
            said = _by_mark(again, outcome, request)
        if isinstance(said, Cancelled):
            # Two tries that marked it at once have both met no mark, so this may be no repeat and yet not the first.
            said = yield from _said_by_all_tries(task, again, request, said, now_ms)
            return (yield from said_for_good(task, request, said, now_ms, is_repeat=is_repeat))
        here = yield from locate(task)


def tell_mark(here: Located) -> Procedure[Cancelled | Outcome | None]:
    """Of a task of which only a mark says that a call has ended it: the caller may have died before the holder was
    asked, who would send it. It goes by the mark from now on. PENDING: it does not answer. None: there is none."""
    mark = next((mark for mark in here.marks if mark.key == here.place.key and mark.kind in ENDS), None)
    outcome = outcome_of(mark) if mark is not None else None
    if mark is None or outcome is None or outcome is Outcome.EXPIRED or here.ending.outcome is not None:
        return None
    return (yield from _ask(here, outcome, mark.value, _Try(outcome, mark.value, mine=False, is_repeat=True)))


def _located(task: TaskId, outcome: Outcome, now_ms: int) -> Procedure[Located]:
    """Of a cancel: what has expired by then has ended."""
    here = yield from locate(task)
    if outcome is Outcome.CANCELLED and now_ms and here.has_expired(now_ms):
        yield from end_expired(task, here)
        here = yield from locate(task)
    return here


def end_expired(task: TaskId, here: Located) -> Procedure[Asked]:
    """What `has_expired` by one clock is over for all: the steps of a cancel, so that no instance whose clock is behind
    sends it after that, nor one that starts with another clock. ENDED: nothing of it starts any more. OPEN: a worker
    has it, or it lives again, or who holds it does not say so, and nothing was done. SILENT: it is marked, and its
    holder did not answer. It is asked first, for the mark would end the row of what a worker has, too."""
    for place in here.places:
        answer: HolderAnswer = yield AskToMove(place.partition, place.key)
        if answer.asked in (Asked.OPEN, Asked.SILENT):
            return Asked.OPEN
    life = generation_of(here.place.key.version)
    while here.rows is not None and not _is_over(here):
        if generation_of(here.place.key.version) != life:
            return Asked.OPEN
        yield _marks(here, Outcome.EXPIRED, BY_EXPIRY)
        again = yield from locate(task)
        if again.places == here.places:
            said = yield from _ask(again, Outcome.EXPIRED, BY_EXPIRY, _Try(Outcome.EXPIRED, BY_EXPIRY, mine=False))
            if isinstance(said, Cancelled) or said is Outcome.FORWARDED:
                return _EXPIRED_AS.get(said, Asked.ENDED) if isinstance(said, Cancelled) else Asked.ENDED
            again = yield from locate(task)
        here = again
    return Asked.ENDED


def _said_of_ended(task: TaskId, here: Located, asked: _Try, now_ms: int) -> Procedure[Cancelled]:
    ended, request = here.ending.outcome, asked.request
    said = _ended(here, ended, request, mine=asked.mine and ended is asked.outcome)
    yield from _remember_of_dead(task, here, request, said, now_ms)
    # Who came back with a delivery after CANCELLED was said changes nothing of it.
    said = said if asked.is_repeat else (yield from _or_in_flight(here, asked.outcome, said))
    # It was our mark, so another try may be about to say how it found the task before it ended.
    said = yield from _said_by_all_tries(task, here, request, said, now_ms)
    return (yield from said_for_good(task, request, said, now_ms))


def _is_marked_by(here: Located, outcome: Outcome, request: bytes) -> bool:
    return outcome is not Outcome.ACKED and here.first(MARK_OF_OUTCOME[outcome]) == request


def said_for_good(
    task: TaskId, request: bytes, said: Cancelled, now_ms: int, *, is_repeat: bool = False
) -> Procedure[Cancelled]:
    """IN_FLIGHT is remembered before it is said. Of CANCELLED the record tells, or else the mark. PENDING is said by no
    repeat, for CANCELLED was perhaps said before: it is to be made again until the holder answers."""
    if said is Cancelled.PENDING and is_repeat and now_ms:
        raise Unavailable(SILENT, "HOLDER_SILENT", retry_after_ms=ASK_AGAIN_MS)
    return (yield from set_for_all_tries(task, request, said, now_ms)) if said is Cancelled.IN_FLIGHT else said


def set_for_all_tries(task: TaskId, request: bytes, said: Cancelled, now_ms: int) -> Procedure[Cancelled]:
    """This answer, or that of another try of the call which was faster."""
    if not now_ms:
        return said
    return Cancelled((yield from remember(_name(task, request), said.value.encode(), now_ms)).decode())


def _said_by_all_tries(
    task: TaskId, here: Located, request: bytes, said: Cancelled, now_ms: int
) -> Procedure[Cancelled]:
    """CANCELLED: set, for another try may have found the task with a worker, and be about to say so. What was never
    due was with nobody."""
    if said is not Cancelled.CANCELLED or (not here.place.key.version and task.position_ms > now_ms):
        return said
    return (yield from set_for_all_tries(task, request, said, now_ms))


def _said_before(task: TaskId, request: bytes, now_ms: int) -> Procedure[Cancelled | None]:
    """What a try of this call was answered, where that is remembered."""
    said = (yield from recall(_name(task, request))) if now_ms else None
    return Cancelled(said.decode()) if said is not None else None


def _remember_of_dead(task: TaskId, here: Located, request: bytes, said: Cancelled, now_ms: int) -> Procedure[None]:
    """What is said of a dead letter, before it is said."""
    if now_ms and here.ending.outcome is Outcome.DEAD:
        yield from remember(_name(task, request), said.value.encode(), now_ms)


def _said_of_earlier_life(task: TaskId, here: Located, request: bytes, now_ms: int) -> Procedure[Cancelled | None]:
    """What this call was answered when the task was a dead letter, which lives again since."""
    return (yield from _said_before(task, request, now_ms)) if generation_of(here.place.key.version) else None


def _name(task: TaskId, request: bytes) -> bytes:
    """Of what a call was answered about one task."""
    return blake2b(request + task.digest, digest_size=16, person=b"timerd.cancel").digest()


def _is_over(here: Located) -> bool:
    return here.ending.outcome is not None and here.ending.outcome not in ONWARD


@dataclass(frozen=True, slots=True)
class _Try:
    """Of the call. `mine`: its mark stands on a place that the task has left. `is_repeat`: its mark was there when the
    try began, so CANCELLED may have been said: what a worker came back with since then changes nothing of that."""

    outcome: Outcome
    request: bytes
    mine: bool
    is_repeat: bool = False


def _ask(here: Located, pending: Outcome, value: bytes, asked: _Try) -> Procedure[Cancelled | Outcome]:
    """There, where it was carried from as long as no row is there, and where it may live as well."""
    said = yield from _ask_at(here, pending, value, asked)
    if here.source is not None and isinstance(said, Cancelled):
        there = yield from _ask_at(replace(here, place=here.source), pending, value, asked)
        said = max(said, there, key=GRAVITY.index) if isinstance(there, Cancelled) else said
    for other in here.others:
        if isinstance(said, Cancelled) or said is Outcome.FORWARDED:
            there = yield from _ask(other, pending, value, asked)
            said = _graver(said, there)
    return said


def _graver(said: Cancelled | Outcome, there: Cancelled | Outcome) -> Cancelled | Outcome:
    """Where it was carried on meanwhile, it is looked for again; nothing is sent from a place that it left for good."""
    if isinstance(said, Cancelled) and isinstance(there, Cancelled):
        return max(said, there, key=GRAVITY.index)
    return said if there in LEFT_FOR_GOOD else there


def _ask_at(here: Located, pending: Outcome, value: bytes, asked: _Try) -> Procedure[Cancelled | Outcome]:
    key = here.place.key if here.rows is not None else unwritten(here.place)
    answer: HolderAnswer = yield AskToEnd(here.place.partition, key, pending, value, _lease_of(here))
    said = yield from _conclude(here, answer, asked)
    if asked.is_repeat or not isinstance(said, Cancelled):
        return said
    return (yield from _or_in_flight(here, asked.outcome, said))


def _lease_of(here: Located) -> int:
    """Of the delivery that the row waits for."""
    return here.rows.extra_of(0).lease_until_ms if here.rows is not None else 0


def _known_to_holder(here: Located, request: bytes, mine: bool) -> Procedure[Cancelled | Outcome]:
    """The record that says so may be that of a holder which had a successor by then: it has read the records without
    it, and would send the task again after its ack was confirmed."""
    answer: HolderAnswer = yield AskToEnd(here.place.partition, here.place.key, Outcome.ACKED, request)
    return (yield from _conclude(here, answer, _Try(Outcome.ACKED, request, mine)))


def _marks(here: Located, outcome: Outcome, value: bytes) -> SetMarks:
    kind = mark_kind(outcome)
    assert kind is not None
    return SetMarks([Mark(place.partition, place.key, kind, value) for place in here.places])


def _pending_outcome(here: Located, outcome: Outcome, request: bytes) -> tuple[Outcome, bytes]:
    """What was purged is not cancelled as well, nor the other way round: the first of the two stays. So does what has
    expired."""
    if outcome in (Outcome.CANCELLED, Outcome.PURGED) and here.mark(MarkKind.CANCELLED) == BY_EXPIRY:
        return Outcome.EXPIRED, BY_EXPIRY
    other = {Outcome.CANCELLED: Outcome.PURGED, Outcome.PURGED: Outcome.CANCELLED}.get(outcome)
    value = here.mark(MARK_OF_OUTCOME[other]) if other is not None else None
    if other is None or value is None or here.mark(MARK_OF_OUTCOME[outcome]) is not None:
        return outcome, request
    return other, value


def _mark_here(here: Located) -> Procedure[None]:
    """The holder may know the end from a mark on a place that the task was carried from: nobody reads that one again
    once `verified` has passed it, so the end is written where the task lives before it is told. The row that waits
    there is over now, not when its instant comes."""
    outcome = here.ending.outcome
    mark = next((m for m in here.marks if outcome is not None and outcome_of(m) is outcome), None)
    if outcome is not None and mark is not None and here.mark(mark.kind) is None:
        yield SetMarks([Mark(here.place.partition, here.place.key, mark.kind, mark.value)])
        yield AskToEnd(here.place.partition, here.place.key, outcome, mark.value)


def _is_marked(place: Place, kind: MarkKind, request: bytes) -> Procedure[bool]:
    """Whether the mark on a place that the task has left meanwhile is ours: it may end the task in its new place."""
    found: Found = (yield Find(place.partition, [(place.key.position_ms, place.key.digest)]))[0]
    return any(m.kind == kind and m.value == request for m in found.marks)


def _is_marked_at_home(task: TaskId, here: Located, outcome: Outcome, request: bytes) -> Procedure[bool]:
    """Of a task that was moved before the mark came, or by a call that was tried before: the holder of home and of the
    new place goes by that mark, if there is no other."""
    is_asked = here.ending.outcome is outcome and outcome is not Outcome.ACKED
    if not is_asked or here.first(MARK_OF_OUTCOME[outcome]) is not None:
        return False
    return (yield from _is_marked(home_of(task), MARK_OF_OUTCOME[outcome], request))


def _conclude(here: Located, answer: HolderAnswer, asked: _Try) -> Procedure[Cancelled | Outcome]:
    """One of ONWARD: it was carried on meanwhile, look again."""
    outcome, request = asked.outcome, asked.request
    if answer.asked is Asked.SILENT:
        return Cancelled.PENDING
    if answer.asked is Asked.OPEN:
        return Cancelled.IN_FLIGHT
    if answer.asked is Asked.WAITING:
        # Whose cancel it was the marks say, which stay: the holder may not have heard of one that came before.
        if outcome is not Outcome.ACKED:
            return _by_mark(here, outcome, request)
        return Cancelled.CANCELLED if answer.request == request else Cancelled.ALREADY_CANCELLED
    settled = answer.outcome
    if answer.asked is not Asked.ENDED:
        ending: Ending = yield FindSettled(here.place.partition, here.place.key)
        settled = ending.outcome
    if settled is None and answer.in_hand and not asked.is_repeat:
        return Cancelled.IN_FLIGHT
    if settled is None and (before := _marked_otherwise(here, outcome)) is not None:
        return before
    if settled is None:
        return _by_mark(here, outcome, request)
    return settled if settled in ONWARD else _ended(here, settled, request, mine=asked.mine and settled is outcome)


def _by_mark(here: Located, outcome: Outcome, request: bytes) -> Cancelled:
    """Of a row that ends by its first mark of that kind."""
    kind = mark_kind(outcome)
    first = here.first(kind) if kind is not None else None
    if first == request:
        return Cancelled.CANCELLED
    has_expired = here.first(MarkKind.CANCELLED) == BY_EXPIRY
    return Cancelled.ALREADY_FIRED if has_expired else Cancelled.ALREADY_CANCELLED


def _marked_otherwise(here: Located, outcome: Outcome) -> Cancelled | None:
    """Of a row that is not known to have ended: a late ack was told that it counts, or a cancel that it stands, and
    only the mark says so as long as nobody has read the row."""
    if outcome is not Outcome.ACKED:
        return Cancelled.ALREADY_FIRED if here.mark(MarkKind.ACKED) is not None else None
    if here.mark(MarkKind.CANCELLED) == BY_EXPIRY:
        return Cancelled.ALREADY_FIRED
    is_cancelled = here.mark(MarkKind.CANCELLED) is not None or here.mark(MarkKind.PURGED) is not None
    return Cancelled.ALREADY_CANCELLED if is_cancelled else None


def _or_in_flight(here: Located, outcome: Outcome, said: Cancelled) -> Procedure[Cancelled]:
    """Where a holder gave a delivery away whose retries were stopped, its record says that the task was cancelled; the
    worker goes on with it all the same. So it is where the mark came with the row that was handed over."""
    if said is not Cancelled.CANCELLED or outcome is Outcome.ACKED:
        return said
    is_in_hand: bool = yield AskInHand(here.place.key, _lease_of(here))
    return Cancelled.IN_FLIGHT if is_in_hand else said


def _ended(here: Located, settled: Outcome | None, request: bytes, *, mine: bool) -> Cancelled:
    """`mine`: it ended so by our mark, which stands on a place that it has left, where no mark on its way says more: by
    that one all tries go, also those that have not met ours."""
    if settled not in MARK_OF_OUTCOME:
        return Cancelled.ALREADY_FIRED
    first = here.first(MARK_OF_OUTCOME[settled])
    if first == request or (mine and first is None):
        return Cancelled.CANCELLED
    return Cancelled.ALREADY_FIRED if settled is Outcome.ACKED else Cancelled.ALREADY_CANCELLED
