"""Where is a task? Home, then FORWARD, `moves` and carries, until the place is stable (protocol section 5).

Cancel, Get, Reschedule and late acks all use this one look-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from timerd.core.partition import carried_row
from timerd.core.protocol.procedures import Ending, Find, FindSettled, Procedure, ReadRegister, TryCas
from timerd.model.identity import RowKey, TaskId, generation_of
from timerd.model.outcomes import outcome_of
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Control, Instants, Move, MoveState, Place, control_key, move_key, place_key
from timerd.model.rows import FLAG_ORDERED, RowGroup, single_row
from timerd.model.settle import Outcome
from timerd.model.storage import Cas, DeadLetter, Found, Mark, MarkKind
from timerd.model.task import Extra

MAX_HOPS = 10_000
# Marks by which a task was ended by a call.
ENDS = frozenset((MarkKind.CANCELLED, MarkKind.PURGED))
# A worker that has what was taken over with its lease is heard of within this time.
HEARD_OF_MS = 5_000
# What a record says of a row that no holder has taken in; where the task was moved to, `moves` says.
NOT_TAKEN_IN = (None, Outcome.FORWARDED, Outcome.MOVED)


@dataclass(frozen=True, slots=True)
class Located:
    """`rows` (1,): the row where the task lives or ended, or, while it is being written there, the one that it was
    carried from. None: no row is there (never was, or dropped long ago). `marks` are those of all places on the way."""

    place: Place
    rows: RowGroup | None
    marks: Sequence[Mark]
    ending: Ending
    move: Move | None
    stored_move: bytes | None
    # Where it was carried from, while the row is still being written in its place.
    source: Place | None = None
    # Where it may live as well: a holder took in a row that its writer wrote again.
    others: tuple[Located, ...] = ()

    @property
    def written(self) -> bool:
        return self.source is None

    @property
    def places(self) -> list[Place]:
        """Where it may be sent from. What says that it was carried may be the record of a holder which had a successor
        by then, who has not read it: the row that was to follow is not there, and the old one waits with it."""
        own = [self.place] if self.source is None else [self.place, self.source]
        return [*own, *(place for other in self.others for place in other.places)]

    def first(self, kind: MarkKind) -> bytes | None:
        """Value of the earliest mark on the way: a task that was ended stays so wherever it was carried meanwhile."""
        return next((m.value for m in self.marks if m.kind == kind), None)

    def has_expired(self, now_ms: int) -> bool:
        """Whether its row is not to be sent any more, for what its expiry says and nothing else does. Its holder knows
        whether a worker has it from before that. A row behind its own expiry is never sent."""
        if self.rows is None or self.ending.outcome is not None or any(map(self._ends, self.marks)):
            return False
        lease_ms = self.rows.extra_of(0).lease_until_ms
        if lease_ms and now_ms < lease_ms + HEARD_OF_MS:
            return False
        return 0 < self.rows.expiry_ms(0) <= max(now_ms, self.place.key.position_ms)

    def _ends(self, mark: Mark) -> bool:
        is_of_task = mark.kind in ENDS and outcome_of(mark) is not Outcome.EXPIRED
        is_of_life = generation_of(mark.key.version) == generation_of(self.place.key.version)
        return outcome_of(mark) is not None and (is_of_task or is_of_life)

    def mark(self, kind: MarkKind) -> bytes | None:
        """Value of a mark on the row."""
        return next((m.value for m in self.marks if m.kind == kind and m.key == self.place.key), None)


def home_of(task: TaskId) -> Place:
    return Place(task.home, RowKey(task.position_ms, task.digest, 0))


def unwritten(place: Place) -> RowKey:
    """By which a holder is told of a task where no row of it is found: it remembers the task's end, and ends no row by
    it that is not there. Its position is below every floor."""
    return place.key._replace(position_ms=place.partition.bucket_ms - 1)


def locate(task: TaskId, *, durable: bool = False) -> Procedure[Located]:
    """`durable`: that it has ended is said when nothing takes it back. Where the row was moved away since the register
    was read, it is looked for again: a task that was moved has not ended."""
    stored = yield from settled_move(task.digest)
    while True:
        move = Move.from_bytes(stored) if stored is not None else None
        place = move.place if move is not None else home_of(task)
        here = yield from follow(task, place, move, stored, durable=durable)
        if here.rows is None and move is None:
            here = yield from _placed_later(task, here, durable=durable)
        if here.ending.outcome is not Outcome.MOVED:
            return here
        before, stored = stored, (yield from settled_move(task.digest))
        if stored == before:
            return here


def _placed_later(task: TaskId, nowhere: Located, *, durable: bool) -> Procedure[Located]:
    """Of a task whose id was told before its row was there. Who came too late for that place has written it at a later
    one only, which the register of its message names (core/protocol/message_place.py)."""
    stored: bytes | None = yield ReadRegister(place_key(task.prefix))
    for later_ms in Instants.from_bytes(stored).later_ms if stored is not None else ():
        here = yield from follow(task, written_again(home_of(task), later_ms), durable=durable)
        if here.rows is not None:
            return here
    return nowhere


def follow(
    task: TaskId, place: Place, move: Move | None = None, stored: bytes | None = None, *, durable: bool = False
) -> Procedure[Located]:
    """From that place on, as far as FORWARD and carries lead.

    A call that is not answered writes its row again and points there, and the holder may have read the first one by
    itself. So where no record says how the task ended, what it made of that one is followed as well. The row that was
    written again may have ended as requeued to the first one, since a worker had that: it leads there once."""
    carried: RowGroup | None = None
    source: Place | None = None
    marks: list[Mark] = []
    taken_in: Located | None = None
    others: list[Located] = []
    led_on: set[RowKey] = set()
    for _ in range(MAX_HOPS):
        found: Found = (yield Find(place.partition, [(place.key.position_ms, task.digest)]))[0]
        rows = _version(found.rows, place.key.version)
        marks += found.marks
        here = Located(place, rows, marks, Ending(None), move, stored)
        forward = here.mark(MarkKind.FORWARD) if place.key not in led_on else None
        if forward is not None:
            led_on.add(place.key)
        if rows is None and forward is not None:
            # Who was to write the row here came too late for this place as well.
            place = written_again(place, int(forward))
            continue
        if rows is None:
            parked = place.partition._replace(scope=task.scope)
            if place.partition != parked and carried is None:
                # Its home may have been dropped while it waits for a worker: the parked place is a function of the id.
                place = Place(parked, place.key)
                continue
            here = replace(here, rows=carried, source=source)
        else:
            here = replace(here, ending=(yield FindSettled(place.partition, place.key, durable)))
            if forward is not None:
                taken_in = here if here.ending.outcome not in NOT_TAKEN_IN else taken_in
                source, place, carried = place, written_again(place, int(forward)), rows
                continue
        if taken_in is not None and here.ending.outcome is None:
            others.append(here)
            here, taken_in = taken_in, None
        onward = _onward(here.place, task, here.ending)
        if onward is None or here.rows is None:
            return (yield from _of_all_ways([here, *others])) if others else here
        carry = here.ending.carry
        carried = carried_row(here.rows, 0, here.place.partition, carry) if carry is not None else here.rows
        source, place = here.place, onward
    raise RuntimeError(f"task {task} is carried in a circle")


def _of_all_ways(found: list[Located]) -> Procedure[Located]:
    """The first is of the row that was taken in. If the task has ended there, it lives where another row may be read
    yet: that one would come again."""
    chosen = found[0]
    for other in found[1:] if chosen.ending.outcome is not None else ():
        if not (yield from _is_passed(other.place)):
            chosen = other
            break
    return replace(chosen, others=tuple(each for each in found if each is not chosen))


def _is_passed(place: Place) -> Procedure[bool]:
    """Whether `verified` has passed a row that has no record: nobody has read it, and nobody will. Who wrote it may
    point on from there."""
    stored: bytes | None = yield ReadRegister(control_key(place.partition))
    if stored is None or Control.from_bytes(stored).verified_ms <= place.key.position_ms:
        return False
    ending: Ending = yield FindSettled(place.partition, place.key)
    return ending.outcome is None


def from_letter(here: Located, letter: DeadLetter) -> Located:
    """Where nothing is found any more, the dead letter still tells all of its task. The row of one that has just died
    does not know how its last attempt failed."""
    kept, ordering_key = letter.row_kept, letter.ordering_key
    extra = Extra(letter.row_key, occurrence=letter.occurrence, kept=kept, ordering_key=ordering_key)
    if here.rows is not None:
        extra = here.rows.extra_of(0)
    extra = replace(extra, last_error=letter.last_error, history=letter.history)
    flags = FLAG_ORDERED if extra.ordering_key else 0
    rows = single_row(letter.key, letter.fire_at_ms, letter.template, letter.payload, extra, flags)
    place = Place(letter.partition, letter.key)
    return replace(here, place=place, rows=rows, ending=Ending(Outcome.DEAD), source=None)


def settled_move(digest: bytes) -> Procedure[bytes | None]:
    """The moves register, decided: rule H2, a reader that meets MOVING says FAILED (only the mover says MOVED)."""
    while True:
        stored: bytes | None = yield ReadRegister(move_key(digest))
        move = Move.from_bytes(stored) if stored is not None else None
        if move is None or move.state is not MoveState.MOVING:
            return stored
        failed = move.decided(MoveState.FAILED)
        yield TryCas(Cas(move_key(digest), stored, failed.to_bytes(), failed.expires_at_ms))


def _version(rows: RowGroup, version: int) -> RowGroup | None:
    at = np.flatnonzero(rows.columns["version"] == version)
    return rows.select(at[:1]) if len(at) else None


def written_again(place: Place, position_ms: int) -> Place:
    """Where FORWARD leads to from there, for who writes and for who looks. Never to a backlog: that may be what was
    closed for good."""
    partition = Partition(TIME_SCOPE, bucket_of(position_ms), place.partition.shard)
    return Place(partition, place.key._replace(position_ms=position_ms))


def _onward(place: Place, task: TaskId, ending: Ending) -> Place | None:
    """Where the row was carried to; None: it was not."""
    if ending.outcome is Outcome.PARKED:
        return Place(place.partition._replace(scope=task.scope), place.key)
    if ending.outcome is Outcome.CARRIED and ending.carry is not None:
        carry = ending.carry
        return Place(carry.target, RowKey(carry.position_ms, task.digest, carry.version))
    return None


def generation(located: Located) -> int:
    return max(generation_of(located.place.key.version), located.move.generation if located.move else 0)
