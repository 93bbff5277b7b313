"""Where is a task? Home, then FORWARD, `moves` and carries, until the place is stable (protocol section 5).

Cancel, Get, Reschedule and late acks all use this one look-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from timerd.core.carry import carried_row
from timerd.core.procedures import Ending, Find, FindSettled, Procedure, ReadRegister, TryCas
from timerd.model.identity import RowKey, TaskId, generation_of
from timerd.model.partition import Partition, bucket_of
from timerd.model.registers import Move, MoveState, Place, move_key
from timerd.model.rows import RowGroup, single_row
from timerd.model.settle import Outcome
from timerd.model.storage import Cas, DeadLetter, Found, Mark, MarkKind
from timerd.model.task import Extra

MAX_HOPS = 10_000


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

    @property
    def written(self) -> bool:
        return self.source is None

    @property
    def places(self) -> list[Place]:
        """Where it may be sent from. What says that it was carried may be the record of a holder which had a successor
        by then, who has not read it: the row that was to follow is not there, and the old one waits with him."""
        return [self.place] if self.source is None else [self.place, self.source]

    def first(self, kind: MarkKind) -> bytes | None:
        """Value of the earliest mark on the way: a task that was ended stays so wherever it was carried meanwhile."""
        return next((m.value for m in self.marks if m.kind == kind), None)

    def mark(self, kind: MarkKind) -> bytes | None:
        """Value of a mark on the row."""
        return next((m.value for m in self.marks if m.kind == kind and m.key == self.place.key), None)


def locate(task: TaskId, *, durable: bool = False) -> Procedure[Located]:
    """`durable`: that it has ended is said when nothing takes it back."""
    stored = yield from settled_move(task.digest)
    move = Move.from_bytes(stored) if stored is not None else None
    place = move.place if move is not None else Place(task.home, RowKey(task.position_ms, task.digest, 0))
    return (yield from follow(task, place, move, stored, durable=durable))


def follow(
    task: TaskId, place: Place, move: Move | None = None, stored: bytes | None = None, *, durable: bool = False
) -> Procedure[Located]:
    """From that place on, as far as FORWARD and carries lead."""
    carried: RowGroup | None = None
    source: Place | None = None
    marks: list[Mark] = []
    for _ in range(MAX_HOPS):
        found: Found = (yield Find(place.partition, [(place.key.position_ms, task.digest)]))[0]
        rows = _version(found.rows, place.key.version)
        marks += found.marks
        here = Located(place, rows, marks, Ending(None), move, stored)
        if rows is None:
            parked = place.partition._replace(scope=task.scope)
            if place.partition == parked or carried is not None:
                return replace(here, rows=carried, source=source)
            # Its home may have been dropped while it waits for a worker: the parked place is a function of the id.
            place = Place(parked, place.key)
            continue
        forward = here.mark(MarkKind.FORWARD)
        if forward is not None:
            source, place, carried = place, _forwarded(place, int(forward)), rows
            continue
        ending: Ending = yield FindSettled(place.partition, place.key, durable)
        onward = _onward(place, task, ending)
        if onward is None:
            return replace(here, ending=ending)
        carried = carried_row(rows, 0, place.partition, ending.carry) if ending.carry is not None else rows
        source, place = place, onward
    raise RuntimeError(f"task {task} is carried in a circle")


def from_letter(here: Located, letter: DeadLetter) -> Located:
    """Where nothing is found any more, the dead letter still tells all of its task."""
    extra = Extra(key=letter.row_key, last_error=letter.last_error)
    rows = single_row(letter.key, letter.fire_at_ms, letter.template, letter.payload, extra, 0)
    place = Place(letter.partition, letter.key)
    return replace(here, place=place, rows=rows, ending=Ending(Outcome.DEAD), source=None)


def settled_move(digest: bytes) -> Procedure[bytes | None]:
    """The moves register, decided: rule H2, whoever meets MOVING says FAILED (only the mover says MOVED)."""
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


def _forwarded(place: Place, position_ms: int) -> Place:
    partition = Partition(place.partition.scope, bucket_of(position_ms), place.partition.shard)
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
