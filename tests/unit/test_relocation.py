"""Carried rows that may outlive their home are named in `moves`, whatever stands there already."""

from __future__ import annotations

from dataclasses import replace

from timerd.core.protocol.procedures import ReadRegister, ReadRegisters, TryCas
from timerd.core.protocol.relocation import relocate, relocated_rows
from timerd.model.identity import ATTEMPT_BITS, RowKey
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Move, MoveState, Place, RegisterKey
from timerd.model.rows import FLAG_CARRIED, RowGroup, single_row
from timerd.model.storage import CasResult, CasStatus
from timerd.model.task import Extra, Template

DAY_MS = 86_400_000
DIGEST = b"p" * 12 + b"\0\0\0\3"
HOME_MS = 1_000 * BUCKET_MS
HOME = Place(Partition(TIME_SCOPE, HOME_MS, 0), RowKey(HOME_MS, DIGEST, 0))


def carried(position_ms: int, version: int = 1, flags: int = FLAG_CARRIED) -> tuple[Partition, RowGroup]:
    extra = Extra(home_position_ms=HOME_MS)
    row = single_row(RowKey(position_ms, DIGEST, version), HOME_MS, Template("default", "q"), b"", extra, flags)
    return Partition(TIME_SCOPE, bucket_of(position_ms), 0), row


def place(position_ms: int, version: int = 1) -> Place:
    return Place(Partition(TIME_SCOPE, bucket_of(position_ms), 0), RowKey(position_ms, DIGEST, version))


def named(before: Move | None, position_ms: int, version: int = 1) -> Move | None:
    """What the register says after the row was carried there; whoever reads it finds `before`, and changes apply."""
    found = relocated_rows(*carried(position_ms, version), DAY_MS)
    procedure, stored = relocate(found, HOME_MS, DAY_MS), before.to_bytes() if before is not None else None
    key: RegisterKey | None = None
    try:
        request = next(procedure)
        while True:
            if isinstance(request, ReadRegisters):
                [key] = request.keys
                request = procedure.send([stored])
            elif isinstance(request, ReadRegister):
                request = procedure.send(stored)
            else:
                assert isinstance(request, TryCas)
                assert (request.change.key, request.change.expected) == (key, stored)
                stored = request.change.value
                request = procedure.send(CasResult(CasStatus.APPLIED))
    except StopIteration:
        return Move.from_bytes(stored) if stored is not None else None


def test_near_its_home_a_row_needs_no_name() -> None:
    assert relocated_rows(*carried(HOME_MS + DAY_MS // 2), DAY_MS) == []
    assert relocated_rows(*carried(HOME_MS + DAY_MS, flags=0), DAY_MS) == []


def test_in_a_backlog_it_always_has_one() -> None:
    """It may wait there long after its instant."""
    _, row = carried(HOME_MS + 5)
    backlog = Partition(77, HOME_MS, 0)
    [found] = relocated_rows(backlog, row, DAY_MS)
    assert (found.home, found.place.partition) == (HOME, backlog)


def test_the_first_name_is_a_move_from_home_in_the_same_generation() -> None:
    to_ms = HOME_MS + DAY_MS
    move = named(None, to_ms)
    assert move == Move(0, MoveState.MOVED, HOME, place(to_ms), "", to_ms, HOME_MS, to_ms + DAY_MS)


def test_a_later_place_replaces_an_earlier_one_and_never_the_reverse() -> None:
    near, far = HOME_MS + DAY_MS, HOME_MS + 2 * DAY_MS
    first = named(None, near)
    assert first is not None
    second = named(first, far, version=2)
    assert second is not None
    assert (second.source, second.place) == (first.place, place(far, 2))
    assert named(second, near) == second


def test_a_move_that_was_decided_keeps_its_request_and_its_number() -> None:
    """A repeat of the reschedule is answered from it, and rows of the generation that lost stay dead."""
    version = 3 << ATTEMPT_BITS
    moved = Move(3, MoveState.MOVED, HOME, place(HOME_MS + 9, version), "ask", HOME_MS + 9, HOME_MS + 9)
    after = named(moved, HOME_MS + DAY_MS, version + 1)
    assert after is not None
    assert (after.generation, after.request, after.fire_at_ms) == (3, "ask", HOME_MS + 9)
    assert after.place == place(HOME_MS + DAY_MS, version + 1)


def test_what_a_mover_left_undecided_has_failed() -> None:
    moving = Move(1, MoveState.MOVING, HOME, place(HOME_MS + 9, 1 << ATTEMPT_BITS), "ask", HOME_MS + 9, HOME_MS + 9)
    after = named(moving, HOME_MS + DAY_MS)
    assert after is not None
    assert (after.generation, after.request, after.state) == (1, "", MoveState.MOVED)
    assert after.place == place(HOME_MS + DAY_MS)


def test_a_task_that_moved_on_is_left_alone() -> None:
    moved = Move(1, MoveState.MOVED, HOME, place(HOME_MS + 9, 1 << ATTEMPT_BITS), "ask", HOME_MS + 9, HOME_MS + 9)
    assert named(moved, HOME_MS + DAY_MS) == moved
    failed = replace(moved, state=MoveState.FAILED, source=place(HOME_MS + DAY_MS))
    assert named(failed, HOME_MS + DAY_MS) == failed
