"""The broken variants that cancel.pml, moves.pml and carry.pml name, one switch each: what ends, moves or
carries a task. Patches for tests alone."""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import timerd.core.protocol.cancel as cancel_module
import timerd.core.protocol.insertion as insert_module
import timerd.core.protocol.move as move_module
from tests.simulator.variants import Variant
from timerd.adapters.memory import MemoryStore
from timerd.core.dispatch.delivery_machine import DeliveryMachine
from timerd.core.gates import ALL_MAY, Fates
from timerd.core.partition.effects import Effects
from timerd.core.partition.holding import Phase
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.partition.row_gates import OutcomeGate
from timerd.core.partition.row_table import RowTable
from timerd.core.partition.rows_in_hand import RowsInHand
from timerd.core.partition.settle_log import SettleLog
from timerd.core.partition.sweep import WHOLE_MS
from timerd.core.protocol.lookup import Located, locate
from timerd.core.protocol.move import Wish
from timerd.core.protocol.procedures import Procedure, ReadRegister, TryCas
from timerd.model.ack_token import NamedDelivery
from timerd.model.identity import TaskId
from timerd.model.registers import Move, MoveState, move_key
from timerd.model.storage import Cas, Mark, MarkKind
from timerd.services.holding.held import Held
from timerd.services.holding.row_finder import RowFinder

_MARK, _MOVES_READ, _SUSPEND = RowsInHand.mark, PartitionMachine.moves_read, PartitionMachine.suspend
_FREE, _BEFORE, _CARRY, _OLDEST = (
    move_module._source_is_free,
    insert_module._before,
    SettleLog.carry,
    RowsInHand.oldest_ms,
)
_STORED, _NAMED = MemoryStore.mark, DeliveryMachine._named
ANSWERING = (Phase.RECOVER, Phase.LOAD, Phase.HOT, Phase.HAND_OVER)


def verdicts_not_looked_at_when_sent() -> AbstractContextManager[object]:
    """NOSENDCHECK: what was cancelled while it waited is sent."""

    def judge(self: OutcomeGate, batch: Any, now_ms: int) -> Fates:
        return ALL_MAY

    return patch.object(OutcomeGate, "judge", judge)


def moved_marks_ignored() -> AbstractContextManager[object]:
    """OLDFIRESBLIND: whoever loads the old row does not ask `moves`."""

    def mark(self: RowsInHand, marks: Sequence[Mark]) -> None:
        _MARK(self, [each for each in marks if each.kind != MarkKind.MOVED])

    return patch.object(RowsInHand, "mark", mark)


def looked_up_before_the_mark() -> AbstractContextManager[object]:
    """CANCELREADFIRST and CANCELNOLOOP: where the task lives is not looked at again after the mark."""

    seen: dict[bytes, Located] = {}

    def look(task: TaskId) -> Procedure[Located]:
        before = seen.pop(task.digest, None)
        if before is not None and before.ending.outcome is None:
            return before
        seen[task.digest] = yield from locate(task)
        return seen[task.digest]

    return patch.object(cancel_module, "locate", look)


def cell_not_read() -> AbstractContextManager[object]:
    """NOCELLCHECK: a mover goes by what the holder says alone."""

    def free(move: Move, wish: Wish) -> Procedure[tuple[bool, str]]:
        is_free, why = yield from _FREE(move, wish)
        return (True, "") if why == "was cancelled" else (is_free, why)

    return patch.object(move_module, "_source_is_free", free)


def helped_without_the_row() -> AbstractContextManager[object]:
    """HELPNOINSERT: whoever meets an undecided move says that it was done."""

    def settled_move(digest: bytes) -> Procedure[bytes | None]:
        while True:
            stored: bytes | None = yield ReadRegister(move_key(digest))
            move = Move.from_bytes(stored) if stored is not None else None
            if move is None or move.state is not MoveState.MOVING:
                return stored
            moved = move.decided(MoveState.MOVED)
            yield TryCas(Cas(move_key(digest), stored, moved.to_bytes(), moved.expires_at_ms))

    return patch("timerd.core.protocol.lookup.settled_move", settled_move)


def answer_of_before_the_ask() -> AbstractContextManager[object]:
    """RESOLVERACE: what `moves` said is used although a mover has asked since."""

    def moves_read(self: PartitionMachine, moves: Mapping[bytes, Any], asked: Mapping[bytes, int]) -> Effects:
        return _MOVES_READ(self, moves, {digest: self.asking(digest) for digest in moves})

    return patch.object(PartitionMachine, "moves_read", moves_read)


def unknown_rows_not_suspended() -> AbstractContextManager[object]:
    """UNKNOWNFREE: a mover that asks for a row that the holder has not met is told that it is free, and forgotten."""
    return patch.object(PartitionMachine, "suspend", lambda *_: None)


def suspended_rows_passed() -> AbstractContextManager[object]:
    """FINISHBLIND: the mark goes over rows that wait for `moves`."""

    def oldest_ms(self: RowsInHand) -> int | None:
        blocked, self.moves.rows = self.moves.rows, {}
        oldest = _OLDEST(self)
        self.moves.rows = blocked
        return oldest

    return patch.object(RowsInHand, "oldest_ms", oldest_ms)


def answers_before_it_has_read() -> AbstractContextManager[object]:
    """ASKEARLY: a holder answers before it has read the settle records, or all of its rows."""

    real = RowTable.ask

    def ask(self: RowTable, key: Any, floor_ms: int, _: int) -> Any:
        return real(self, key, floor_ms, WHOLE_MS)

    stack = ExitStack()
    stack.enter_context(patch.object(Phase, "answers", property(lambda phase: phase in ANSWERING)))
    stack.enter_context(patch.object(RowTable, "ask", ask))
    return stack


def carried_rows_not_written_again() -> AbstractContextManager[object]:
    """NOREINSERT: a new holder takes what was carried for ended."""

    def complete(self: SettleLog, rows: Any) -> None:
        self.requeues._incomplete.clear()

    return patch.object(SettleLog, "complete", complete)


def endings_not_looked_at() -> AbstractContextManager[object]:
    """NOSETTLEREAD: a carried row that is refused is written again, also where its place says that it has ended."""

    def before(partition: Any, rows: Any) -> Procedure[tuple[list[Mark | None], list[bool]]]:
        forwards, over = yield from _BEFORE(partition, rows)
        return forwards, [False] * len(over)

    return patch.object(insert_module, "_before", before)


def lease_not_carried() -> AbstractContextManager[object]:
    """LEASEDROPPED: the row that is carried under a lease does not know of it, nor does its record."""

    def carry(self: SettleLog, carries: Any, group: Any) -> None:
        partition, rows = group
        rows.extras = [replace(extra, lease_until_ms=0) for extra in rows.extras]
        _CARRY(self, [each._replace(lease_until_ms=0) for each in carries], (partition, rows))

    return patch.object(SettleLog, "carry", carry)


def left_open() -> AbstractContextManager[object]:
    """LEAVEOPEN: who leaves says nothing of what workers have in hand."""

    def carry_open(self: Held, machine: PartitionMachine, now_ms: int) -> None:
        machine._table._rows.open.clear()

    return patch.multiple(Held, carry_open=carry_open, carry_sent=carry_open)


def late_acks_not_followed() -> AbstractContextManager[object]:
    """ACKOLDONLY: an ack is taken for done where the row has left the place that it speaks of."""

    async def task_of(self: RowFinder, *_: Any) -> None:
        return None

    return patch.object(RowFinder, "task_of", task_of)


def forwards_not_marked() -> AbstractContextManager[object]:
    """PLACEBLIND: a row is written again at a later place, and nothing says so on the one that it leaves."""

    async def mark(self: MemoryStore, marks: Sequence[Mark]) -> int:
        return await _STORED(self, [each for each in marks if each.kind != MarkKind.FORWARD])

    return patch.object(MemoryStore, "mark", mark)


def old_nacks_accepted() -> AbstractContextManager[object]:
    """NACKANY: what a worker says of an older attempt counts for the one that is open."""

    def named(self: DeliveryMachine, namespace: str, tokens: bytes) -> list[tuple[bytes, NamedDelivery]]:
        newest = NamedDelivery(1 << 31, 1 << 62, 0)
        return [(delivery_id, newest) for delivery_id, _ in _NAMED(self, namespace, tokens)]

    return patch.object(DeliveryMachine, "_named", named)


SWITCHES: dict[str, Variant] = {
    "cancel NOSENDCHECK": verdicts_not_looked_at_when_sent,
    "moves OLDFIRESBLIND": moved_marks_ignored,
    "moves CANCELREADFIRST": looked_up_before_the_mark,
    "moves NOCELLCHECK": cell_not_read,
    "moves HELPNOINSERT": helped_without_the_row,
    "moves RESOLVERACE": answer_of_before_the_ask,
    "moves UNKNOWNFREE": unknown_rows_not_suspended,
    "moves FINISHBLIND": suspended_rows_passed,
    "moves ASKEARLY": answers_before_it_has_read,
    "carry NOREINSERT": carried_rows_not_written_again,
    "carry NOSETTLEREAD": endings_not_looked_at,
    "carry LEASEDROPPED": lease_not_carried,
    "carry LEAVEOPEN": left_open,
    "carry ACKOLDONLY": late_acks_not_followed,
    "carry PLACEBLIND": forwards_not_marked,
    "carry NACKANY": old_nacks_accepted,
}
