"""Reschedule (protocol section 5, rules M1-M6; tests/models/moves.pml): one compare-and-set decides which of two rows
fires.

The new row is durable before the old one is dropped; a holder that meets either while the move is undecided waits.
FireNow and Redrive are moves as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from timerd.core.partition import Asked, Offered
from timerd.core.protocol.cancel import LEFT_FOR_GOOD, ONWARD
from timerd.core.protocol.insertion import closing_of
from timerd.core.protocol.joined_procedures import side_by_side
from timerd.core.protocol.keys import keep, other_holder, regain
from timerd.core.protocol.lookup import Located, follow, from_letter, generation, home_of, locate
from timerd.core.protocol.past_moves import moved_before, refuse_overtaken, remembered
from timerd.core.protocol.procedures import (
    AppendRows,
    AskToMove,
    Ending,
    Find,
    FindSettled,
    FindVacant,
    HintRows,
    HolderAnswer,
    OfferRows,
    Procedure,
    ReadRegister,
    Recheck,
    SetMarks,
    TryCas,
)
from timerd.model.errors import Aborted, NotFound, Precondition, StoreUnknown, Unavailable
from timerd.model.identity import ATTEMPT_BITS, ATTEMPT_MASK, RowKey, TaskId, generation_of
from timerd.model.instants import shown
from timerd.model.ordering import OrderPlace, at_place, last_of
from timerd.model.outcomes import BY_EXPIRY, outcome_of
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Instants, Move, MoveState, Place, RegisterKey, move_key, name_key, place_key
from timerd.model.rows import FLAG_MOVED_IN, FLAGS_OF_TASK, RowGroup, single_row
from timerd.model.settle import Outcome
from timerd.model.storage import Append, Appended, Cas, CasResult, CasStatus, DeadLetter, Found, Mark, MarkKind


class Undecided(Exception):
    """Who withdraws it has met another one who does so."""


class Withdrawn(Enum):
    """What became of a task that was to be withdrawn."""

    # Nothing of it starts any more.
    WITHDRAWN = "withdrawn"
    # It has started, or had ended: it goes on as it would have.
    STARTED = "started"


# Beyond this nothing expires: the store's own limit (Cassandra: 20 years).
NEVER_EXPIRES_MS = 19 * 365 * 86_400_000
# A holder waits for a mover for about a second (core/partition/move_watch.py): all of them are to be decided by then.
WITHDRAWN_AT_ONCE = 128
SILENT = "is held by an instance that does not answer"
WITH_WORKER = "is with a worker"
RETRY_AFTER_MS = 2_000
_EXPIRED = "The task has ended (expired): it cannot be moved. Schedule a new one."


@dataclass(frozen=True, slots=True)
class Wish:
    """`request`: hash of the call. `fire_at_ms` as asked; `revive`: this dead letter, whose row has ended and may be
    forgotten (Redrive). `asked_ms`: when the call was made, by whose order calls undo one another; 0 = not known.
    `time_ms`: the time at which it is looked whether the call was held up; None: `now_ms`, when the try began.
    `place`: that it keeps among the tasks of its ordering key. `order_seq`: else the number that was drawn for it, for
    of two that are moved in one moment to one instant each has a place of its own; 0: none was."""

    request: str
    fire_at_ms: int
    now_ms: int
    retention_ms: int
    revive: DeadLetter | None = None
    asked_ms: int = 0
    time_ms: Callable[[], int] | None = None
    place: OrderPlace | None = None
    order_seq: int = 0


def move_task(task: TaskId, wish: Wish) -> Procedure[int]:
    """The new fire time. Raises NotFound, Precondition (fired, ended, cancelled), Overtaken (a move that was asked for
    later was carried out), Aborted (another move won), Unavailable (who holds the task does not answer: it stays where
    it is)."""
    here = yield from locate(task)
    if here.rows is None and wish.revive is not None:
        here = from_letter(here, wish.revive)
    if here.move is not None:
        answered_ms = yield from moved_before(task.digest, here.move, wish.request)
        if answered_ms is not None:
            return answered_ms
        refuse_overtaken(here.move, wish.asked_ms, wish.time_ms() if wish.time_ms is not None else wish.now_ms)
    rows = _movable(here, wish)
    if here.has_expired(wish.now_ms):
        yield from _refuse_over(here)
    _refuse_expired(rows.template_of(0).expiry_ms(wish.fire_at_ms), wish)
    if wish.revive is not None:
        rows = _with_history(rows, wish.revive.history)
    if wish.revive is not None and rows.extra_of(0).key:
        _refuse_key(rows, (yield from other_holder(_key_of(rows), task, wish.now_ms)))
    move, stored = yield from _announce(task, here, wish)
    if rows.extra_of(0).key:
        yield from _take_key_along(task, rows, wish, move, stored)
    row = _target_row(task, rows, move, wish)
    taken = yield from _write_target(move, row)
    yield SetMarks([_moved_away(move, move.source)])
    free, why = yield from _source_is_free(move, wish)
    # An instance that is alone holds whatever is held, and always answers.
    if free and (yield FindVacant([move.source.partition])) is None:
        free, why = yield from _others_are_free(task, move, wish, here.places[1:])
    state = MoveState.MOVED if free and taken else MoveState.FAILED
    decided = yield from _decide(task, move, stored, state)
    if not taken:
        abandoned = Mark(move.target.partition, move.target.key, MarkKind.FORWARD, b"%d" % move.source.key.position_ms)
        yield SetMarks([abandoned])
    if why == SILENT:
        raise Unavailable(
            f"The task {SILENT}, so it keeps its instant: try again in some seconds, when another instance holds it.",
            "HOLDER_SILENT",
            retry_after_ms=RETRY_AFTER_MS,
        )
    if why:
        raise Precondition(f"The task {why}: it cannot be moved any more.", "HAS_FIRED")
    if not (free and taken and decided):
        raise Aborted("Another call moved or looked at the task at the same moment: try again.", "MOVE_LOST")
    return move.fire_at_ms


def withdraw(task: TaskId, request: str, now_ms: int, retention_ms: int) -> Procedure[Withdrawn]:
    """A move without a target: what has started keeps its retries, and what was not there yet never comes. Raises
    Undecided (another one looks at the task at this moment: to be repeated) and Unavailable (who holds the task does
    not answer)."""
    try:
        return (yield from _withdraw(task, request, now_ms, retention_ms))
    except Aborted as error:
        raise Undecided(str(error)) from error


def withdraw_many(
    tasks: Sequence[TaskId], request: str, now_ms: Callable[[], int], retention_ms: int
) -> Procedure[list[Withdrawn]]:
    """As `withdraw`, each; see `withdraw_together`."""
    said: list[Withdrawn] = []
    for at in range(0, len(tasks), WITHDRAWN_AT_ONCE):
        begun_ms = now_ms()
        chosen = [withdraw(task, request, begun_ms, retention_ms) for task in tasks[at : at + WITHDRAWN_AT_ONCE]]
        said += yield from withdraw_together(chosen)
    return said


def withdraw_together(withdrawals: Sequence[Procedure[Withdrawn]]) -> Procedure[list[Withdrawn]]:
    """Of different tasks, with the requests of one for all. What keeps one of them from its end is raised once the
    others have come to theirs: before Undecided what a repeat at once does not mend."""
    ended = yield from side_by_side(withdrawals)
    failed = [each for each in ended if isinstance(each, Exception)]
    if failed:
        raise min(failed, key=lambda error: isinstance(error, Undecided))
    return [each for each in ended if isinstance(each, Withdrawn)]


def _withdraw(task: TaskId, request: str, now_ms: int, retention_ms: int) -> Procedure[Withdrawn]:
    here = yield from locate(task)
    if here.move is not None and here.move.state is MoveState.MOVED and here.move.request == request:
        return Withdrawn.WITHDRAWN
    others = (here, *here.others)
    has_ended = any(each.ending.outcome not in (None, Outcome.FORWARDED) for each in others)
    if not here.written or has_ended or here.place.key.version & ATTEMPT_MASK:
        return Withdrawn.STARTED
    if here.rows is None:
        place = here.move.place if here.move is not None else home_of(task)
        here = replace(here, place=place)
    wish = Wish(request, here.place.key.position_ms, now_ms, retention_ms)
    move, stored = yield from _announce(task, here, wish)
    if (yield from _goes_on(task, here)):
        if not (yield from _decide(task, move, stored, MoveState.FAILED)):
            raise Aborted("Another call looked at the task at the same moment: try again.", "MOVE_LOST")
        return Withdrawn.STARTED
    yield SetMarks([_moved_away(move, move.source)])
    free, why = yield from _source_is_free(move, wish)
    if free and (yield FindVacant([move.source.partition])) is None:
        free, why = yield from _others_are_free(task, move, wish, here.places[1:])
    decided = yield from _decide(task, move, stored, MoveState.MOVED if free else MoveState.FAILED)
    if why == SILENT:
        raise Unavailable(
            f"The task {SILENT}: try again in some seconds.", "HOLDER_SILENT", retry_after_ms=RETRY_AFTER_MS
        )
    if not decided:
        # Also where it has left this place: another one may have withdrawn it meanwhile.
        raise Aborted("Another call looked at the task at the same moment: try again.", "MOVE_LOST")
    return Withdrawn.WITHDRAWN if free else Withdrawn.STARTED


def _goes_on(task: TaskId, here: Located) -> Procedure[bool]:
    """Whether it was too late for its place, and has a later one, where nobody may have written it yet: asked after
    the move was announced, which its writer reads once that place stands (core/protocol/message_place.py)."""
    stored: bytes | None = yield ReadRegister(place_key(task.prefix))
    return stored is not None and Instants.from_bytes(stored).after(here.place.key.position_ms) is not None


def _movable(here: Located, wish: Wish) -> RowGroup:
    if here.rows is None:
        refusal = NotFound("There is no such task (it may have ended longer ago than outcomes are kept).", "NOT_FOUND")
        # An earlier try may have moved it, and be forgotten with it.
        refusal.only_this_try = True
        raise refusal
    if not here.written:
        raise Aborted("The task is on its way to another attempt: try again.", "MOVE_LOST")
    ended = next((each.ending.outcome for each in (here, *here.others) if each.ending.outcome is not None), None)
    if ended is not None and not (wish.revive is not None and ended is Outcome.DEAD):
        raise Precondition(f"The task has ended ({ended.name.lower()}): it cannot be moved.", "HAS_ENDED")
    if here.first(MarkKind.CANCELLED) == BY_EXPIRY:
        raise Precondition(_EXPIRED, "HAS_ENDED")
    if here.first(MarkKind.CANCELLED) is not None or here.first(MarkKind.PURGED) is not None:
        raise Precondition("The task was cancelled: it cannot be moved.", "CANCELLED")
    if wish.revive is None and any(_is_acked(m, here.place.key) for m in here.marks):
        raise Precondition("The task has ended (acked): it cannot be moved.", "HAS_ENDED")
    if here.rows.extra_of(0).lease_until_ms > wish.now_ms:
        raise Precondition("The task is with a worker: it cannot be moved any more.", "HAS_FIRED")
    if wish.revive is None:
        _refuse_retry_in_order(here)
    _refuse_foreign(here.rows)
    return here.rows


def _refuse_retry_in_order(here: Located) -> None:
    """Until its attempt is due the row keeps its key, wherever the task has gone."""
    rows = here.rows
    if rows is not None and rows.extra_of(0).ordering_key and here.place.key.version & ATTEMPT_MASK:
        raise Precondition(
            "The task has an ordering key and waits for its next attempt, so it cannot be moved: cancel it, and "
            "schedule a new one.",
            "RETRIES_IN_ORDER",
        )


def _is_acked(mark: Mark, key: RowKey) -> bool:
    """Its delivery is over, also where no record says so yet."""
    return mark.kind is MarkKind.ACKED and generation_of(mark.key.version) == generation_of(key.version)


def _refuse_over(here: Located) -> Procedure[None]:
    """A move takes an expiry along only as long as it is not over. Nothing is written, so its holder says besides
    whether a worker has it."""
    _, why = yield from _ask(here.place)
    if why == SILENT:
        raise Unavailable(
            f"The task {SILENT}: try again in some seconds.", "HOLDER_SILENT", retry_after_ms=RETRY_AFTER_MS
        )
    if why == WITH_WORKER:
        raise Precondition(f"The task {why}: it cannot be moved any more.", "HAS_FIRED")
    raise Precondition(_EXPIRED, "HAS_ENDED")


def _refuse_expired(expire_at_ms: int, wish: Wish) -> None:
    position_ms = max(wish.fire_at_ms, wish.now_ms)
    if not 0 < expire_at_ms <= position_ms:
        return
    advice = "schedule a new one" if expire_at_ms <= wish.now_ms else "give an earlier time"
    raise Precondition(
        f"The task's expire_time {shown(expire_at_ms)} is not after the new fire_time {shown(position_ms)}, so it "
        f"would never be delivered: {advice}.",
        "EXPIRES_BEFORE",
    )


def _refuse_foreign(rows: RowGroup) -> None:
    """What this release does not understand may depend on the place or the instant."""
    if lacks := rows.lacking_rows():
        raise Precondition(
            f"The task was written by a later release of timerd and needs {', '.join(sorted(lacks[0]))}, which this "
            "instance does not understand: upgrade it, or ask an instance of that release.",
            "NOT_UNDERSTOOD",
        )


def _key_of(rows: RowGroup) -> RegisterKey:
    return name_key(rows.template_of(0).namespace, rows.extra_of(0).key)


def _refuse_key(rows: RowGroup, holder: TaskId | None) -> None:
    if holder is not None:
        raise Precondition(
            f"The task's key {rows.extra_of(0).key!r} is taken by another task, {holder}: cancel that one first, or "
            "schedule a new one with another key.",
            "KEY_TAKEN",
        )


def _take_key_along(task: TaskId, rows: RowGroup, wish: Wish, move: Move, stored: bytes) -> Procedure[None]:
    """What is redriven gets its key while it is MOVING: another call that wants the key looks this task up, and either
    fails the move (rule H2) or meets a living task."""
    if wish.revive is None:
        yield from keep(_key_of(rows), task.digest, move.latest_ms)
        return
    holder = yield from regain(_key_of(rows), task, move.latest_ms, wish.now_ms)
    if holder is not None:
        yield from _decide(task, move, stored, MoveState.FAILED)
        _refuse_key(rows, holder)


def _announce(task: TaskId, here: Located, wish: Wish) -> Procedure[tuple[Move, bytes]]:
    """M1. The moves before this one stay known, for their repeats."""
    position_ms = max(wish.fire_at_ms, wish.now_ms)
    number = generation(here) + 1
    shard = task.shard
    key = RowKey(position_ms, task.digest, number << ATTEMPT_BITS)
    target = Place(Partition(TIME_SCOPE, bucket_of(position_ms), shard), key)
    seen = here.move.latest_ms if here.move else task.position_ms
    latest_ms = max(seen, here.place.key.position_ms, position_ms)
    expires_at_ms = expiry(latest_ms, wish.now_ms, wish.retention_ms)
    done, has_older = yield from remembered(task.digest, here.move, wish.now_ms)
    move = Move(
        number,
        MoveState.MOVING,
        here.place,
        target,
        wish.request,
        latest_ms,
        wish.fire_at_ms,
        expires_at_ms,
        wish.asked_ms,
        done,
        has_older,
    )
    stored = move.to_bytes()
    result: CasResult = yield TryCas(Cas(move_key(task.digest), here.stored_move, stored, expires_at_ms))
    if result.status is not CasStatus.APPLIED:
        raise Aborted("Another call is moving the task: try again.", "MOVE_LOST")
    return move, stored


def expiry(latest_ms: int, now_ms: int, retention_ms: int) -> int:
    """At the latest of home, sources and targets plus the retention (tests/models/moves.pml, expiry)."""
    expires_at_ms = latest_ms + retention_ms
    return 0 if expires_at_ms > now_ms + NEVER_EXPIRES_MS else expires_at_ms


def _with_history(rows: RowGroup, history: str) -> RowGroup:
    """The row of a dead letter knows of the attempts before its last one."""
    key = rows.keys()[0]
    fire_at_ms, flags = int(rows.columns["fire_at_ms"][0]), int(rows.columns["flags"][0])
    extra = replace(rows.extra_of(0), history=history)
    return single_row(key, fire_at_ms, rows.template_of(0), rows.payload(0), extra, flags)


def _target_row(task: TaskId, rows: RowGroup, move: Move, wish: Wish) -> RowGroup:
    """Of an ordering key it has its place as if it was accepted now, or the one of before."""
    extra = replace(rows.extra_of(0), home_position_ms=task.position_ms, home_shard=task.shard, lease_until_ms=0)
    if extra.ordering_key:
        index = int(rows.columns["index"][0])
        seq = wish.order_seq or last_of(wish.now_ms)
        plain = replace(extra, order_base=seq - index, order_position_ms=-1, not_before_ms=0)
        extra = at_place(plain, wish.place, index) if wish.place is not None else plain
    flags = FLAG_MOVED_IN | int(rows.columns["flags"][0]) & FLAGS_OF_TASK
    return single_row(move.target.key, move.fire_at_ms, rows.template_of(0), rows.payload(0), extra, flags)


def _write_target(move: Move, row: RowGroup) -> Procedure[bool]:
    """M2. False: the place was closed meanwhile and its holder does not take the row in."""
    partition = move.target.partition
    appended: Appended = (yield AppendRows([Append(((partition, row),))]))[0]
    source = appended.sources.get(partition, 0)
    if move.target.key.position_ms >= closing_of(partition, appended):
        yield HintRows([(partition, row, source)], appended.controls)
        return True
    answer = yield OfferRows(partition, row, source, control=appended.controls.get(partition))
    return answer in (Offered.ADOPTED, Offered.ALREADY_HAVE)


def _moved_away(move: Move, place: Place) -> Mark:
    return Mark(place.partition, place.key, MarkKind.MOVED, b"%d" % move.generation)


def _source_is_free(move: Move, wish: Wish) -> Procedure[tuple[bool, str]]:
    """M4 and M5: the holder suspends the row or says what became of it; then the cell, whatever it said. No reason is
    given where the task lives on, in a place it was carried to meanwhile."""
    outcome, why = yield from _ask(move.source)
    if why or outcome in ONWARD:
        return False, why
    if outcome is not None and not (wish.revive is not None and outcome is Outcome.DEAD):
        return False, _has_ended(outcome)
    return True, ""


def _has_ended(outcome: Outcome) -> str:
    return f"has ended ({outcome.name.lower()})"


def _ask(place: Place) -> Procedure[tuple[Outcome | None, str]]:
    """(how the row ended, what keeps it there)."""
    partition, key = place.partition, place.key
    answer: HolderAnswer = yield AskToMove(partition, key)
    outcome = answer.outcome
    if answer.asked in (None, Asked.UNKNOWN):
        ending: Ending = yield FindSettled(partition, key)
        outcome = ending.outcome
    found: Found = (yield Find(partition, [(key.position_ms, key.digest)]))[0]
    why = ""
    if answer.asked is Asked.SILENT:
        why = SILENT
    elif answer.asked is Asked.OPEN:
        why = WITH_WORKER
    elif any(outcome_of(m) is Outcome.EXPIRED and m.key == key for m in found.marks):
        why = _has_ended(Outcome.EXPIRED)
    elif any(m.kind in (MarkKind.CANCELLED, MarkKind.PURGED) and m.key == key for m in found.marks):
        why = "was cancelled"
    elif outcome is None and any(_is_acked(m, key) for m in found.marks):
        outcome = Outcome.ACKED
    return outcome, why


def _others_are_free(task: TaskId, move: Move, wish: Wish, left: list[Place]) -> Procedure[tuple[bool, str]]:
    """Where a row of the task may have been taken in as well (core/protocol/lookup.py): who holds it waits for the
    decision too."""
    met = {move.source}
    while left:
        place = left.pop()
        if place not in met:
            met.add(place)
            free, why, further = yield from _other_is_free(task, move, wish, place)
            if not free:
                return False, why
            left += further
    return True, ""


def _other_is_free(task: TaskId, move: Move, wish: Wish, first: Place) -> Procedure[tuple[bool, str, Sequence[Place]]]:
    """And what else is to be met."""
    yield SetMarks([_moved_away(move, first)])
    here = yield from follow(task, first)
    place = here.place if here.rows is not None else first
    further = [each for other in here.others for each in other.places]
    if place == move.source:
        return True, "", further
    if place != first:
        yield SetMarks([_moved_away(move, place)])
    outcome, why = yield from _ask(place)
    if why or outcome in (Outcome.CARRIED, Outcome.PARKED):
        return False, why, ()
    if outcome is None or outcome in LEFT_FOR_GOOD or wish.revive is not None:
        return True, "", further
    return False, _has_ended(outcome), ()


def _decide(task: TaskId, move: Move, stored: bytes, state: MoveState) -> Procedure[bool]:
    """M6, and both holders may look again. Raises StoreUnknown where nobody can tell any more which it was."""
    final = move.decided(state)
    result: CasResult = yield TryCas(Cas(move_key(task.digest), stored, final.to_bytes(), final.expires_at_ms))
    yield Recheck(move.source.partition, [task.digest])
    yield Recheck(move.target.partition, [task.digest])
    if result.status is not CasStatus.UNKNOWN or state is MoveState.FAILED:
        return result.status is CasStatus.APPLIED
    moved = _has_moved(move, result.current)
    if moved is None:
        raise StoreUnknown("The move may have been done, but the task has moved on since: look at it (Get).")
    return moved


def _has_moved(move: Move, stored: bytes | None) -> bool | None:
    """By what came after it: a later move starts where the task lived then. None: that does not show it."""
    if stored is None:
        return None
    later = Move.from_bytes(stored)
    if later.generation == move.generation:
        return later.state is MoveState.MOVED and later.request == move.request
    came_from = generation_of(later.source.key.version)
    return came_from == move.generation if came_from <= move.generation else None
