"""The protocol with one rule broken at a time: each must be caught, or the simulator proves nothing about that rule.

Patches for tests alone; production code has no switches for it.
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

from timerd.core import urgency
from timerd.core.dispatch.redelivery_gate import RedeliveryGate
from timerd.core.due_queue.due_queue import DueQueue
from timerd.core.gates import ALL_MAY, Fates
from timerd.core.partition.effects import Effects
from timerd.core.partition.holding import Asked, Phase
from timerd.core.partition.open_records import OpenRecords
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.partition.rows_in_hand import RowsInHand
from timerd.core.partition.settle_log import SettleLog
from timerd.core.partition.sweep import WHOLE_MS
from timerd.core.protocol.insertion import insert_carried
from timerd.core.protocol.lookup import Located
from timerd.core.protocol.procedures import AppendRows, AskToMove, HolderAnswer
from timerd.model.registers import Control, control_key
from timerd.model.storage import Append, Appended
from timerd.services.holding.driving import drive
from timerd.services.holding.effect_runner import EffectRunner, _merged
from timerd.services.holding.held import Held
from timerd.services.holding.own_machines import OwnMachines
from timerd.services.holding.procedure_runner import ProcedureRunner

Variant = Callable[[], AbstractContextManager[object]]
_MARK, _CHANGED = PartitionMachine._mark, PartitionMachine.control_changed
_MERGE, _TAKE = RowsInHand.merge, PartitionMachine.take
_WRITTEN, _FINISH = SettleLog.settled_written, OpenRecords.finish
_APART, _NEXT = RowsInHand._set_apart, DueQueue.next_ms


def mark_before_closing_scan() -> AbstractContextManager[object]:
    """`verified` moves together with `closing`, and what was closed is scanned afterwards."""

    def mark(self: PartitionMachine, control: Control, now_ms: int) -> Effects:
        self._sweep.scanned_ms = max(self._sweep.scanned_ms, min(now_ms, self.partition.end_ms))
        return _MARK(self, control, now_ms)

    return patch.object(PartitionMachine, "_mark", mark)


@contextmanager
def floor_raised_late() -> Any:
    """The floor rises when the mark has moved, not when it is decided to move it."""

    def mark(self: PartitionMachine, control: Control, now_ms: int) -> Effects:
        floor_ms = self.floor_ms
        effects = _MARK(self, control, now_ms)
        self.floor_ms = floor_ms
        return effects

    def changed(self: PartitionMachine, status: Any, now_ms: int) -> Effects:
        effects = _CHANGED(self, status, now_ms)
        if self.control is not None:
            self.floor_ms = max(self.floor_ms, self.control.verified_ms)
        return effects

    with (
        patch.object(PartitionMachine, "_mark", mark),
        patch.object(PartitionMachine, "control_changed", changed),
    ):
        yield


def cancelled_forgotten_at_merge() -> AbstractContextManager[object]:
    def merge(self: RowsInHand, rows: Any) -> None:
        self.outcomes.clear_tasks()
        _MERGE(self, rows)

    return patch.object(RowsInHand, "merge", merge)


def settle_record_skipped() -> AbstractContextManager[object]:
    async def write(self: EffectRunner, machine: PartitionMachine, effect: Any) -> None:
        self._held.perform(machine, machine.settled_written(effect.record))
        self._held.written(machine)

    return patch.object(EffectRunner, "_write_settled", write)


def closing_read_before_the_write() -> AbstractContextManager[object]:
    """READFIRST."""

    async def append(self: ProcedureRunner, request: AppendRows) -> list[Appended]:
        partitions = [p for message in request.messages for p, _ in message.groups]
        controls = dict(zip(partitions, await self._store.read([control_key(p) for p in partitions]), strict=True))
        written = list(await self._store.append(request.messages))
        return [Appended(controls, a.sources, frozenset(), a.repeated) for a in written]

    return patch.object(ProcedureRunner, "_append", append)


def carried_row_before_its_record() -> AbstractContextManager[object]:
    async def write(self: EffectRunner, machine: PartitionMachine, effect: Any) -> None:
        groups = machine._table._log.records.groups_of(effect.record.sequence)
        if groups:
            now_ms = int(self._time.exact_ms())
            await drive(insert_carried(Append(_merged(groups)), now_ms), self._procedures)
            groups.clear()
        await self._store.settle([effect.record])
        self._held.perform(machine, machine.settled_written(effect.record))
        self._held.written(machine)

    return patch.object(EffectRunner, "_write_settled", write)


def mark_passes_a_carry_early() -> AbstractContextManager[object]:
    """A record counts as done although the rows that it carries are not written yet."""

    def written(self: SettleLog, sequence: int) -> Effects:
        effects = _WRITTEN(self, sequence)
        if self.records.has(sequence):
            self.records.finish(sequence)
        return effects

    def carried(self: OpenRecords, sequence: int) -> None:
        if self.has(sequence):
            _FINISH(self, sequence)

    stack = ExitStack()
    stack.enter_context(patch.object(SettleLog, "settled_written", written))
    stack.enter_context(patch.object(OpenRecords, "finish", carried))
    return stack


def fires_before_its_first_page() -> AbstractContextManager[object]:
    """A new holder is hot before it has read a page of its own."""

    def read(self: PartitionMachine, records: Any, now_ms: int) -> Effects:
        if self.phase is not Phase.RECOVER or self.control is None:
            return []
        self._table.recover(records, self.control)
        self.phase, self._sweep.loaded_ms = Phase.HOT, WHOLE_MS
        return self._read_page(now_ms)

    return patch.object(PartitionMachine, "settled_read", read)


def settle_records_not_read() -> AbstractContextManager[object]:
    """A new holder begins without what the last one had settled."""
    real = PartitionMachine.settled_read

    def read(self: PartitionMachine, records: Any, now_ms: int) -> Effects:
        return real(self, [], now_ms)

    return patch.object(PartitionMachine, "settled_read", read)


def move_without_asking() -> AbstractContextManager[object]:
    """The holder of the source is not asked before the move is decided."""

    async def ask(self: ProcedureRunner, request: AskToMove) -> HolderAnswer:
        return HolderAnswer(Asked.WAITING)

    return patch.object(ProcedureRunner, "_ask_to_move", ask)


def moved_in_rows_fire_unasked() -> AbstractContextManager[object]:
    """The target of a move fires without a look at what became of the move."""

    def set_apart(self: RowsInHand, rows: Any) -> Any:
        rows = rows.select(slice(None))
        rows.columns = rows.columns.copy()
        rows.columns["flags"] &= 0xFE
        return _APART(self, rows)

    return patch.object(RowsInHand, "_set_apart", set_apart)


def early_by_a_millisecond() -> AbstractContextManager[object]:
    def take(self: PartitionMachine, queue: Any, limit: int, now_ms: int, **more: Any) -> Any:
        return _TAKE(self, queue, limit, now_ms + 1, **more)

    def next_ms(self: DueQueue, queue: Any) -> int | None:
        at_ms = _NEXT(self, queue)
        return None if at_ms is None else at_ms - 1

    stack = ExitStack()
    stack.enter_context(patch.object(PartitionMachine, "take", take))
    stack.enter_context(patch.object(DueQueue, "next_ms", next_ms))
    return stack


def ack_confirmed_before_it_is_durable() -> AbstractContextManager[object]:
    def durable(self: Held, machine: PartitionMachine, lsn: int) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future

    return patch.object(Held, "durable", durable)


def leases_forgotten_at_a_carry() -> AbstractContextManager[object]:
    """A carried row fires although its delivery is still with a worker."""

    def judge(self: RedeliveryGate, batch: Any, now_ms: int) -> Fates:
        return ALL_MAY

    return patch.object(RedeliveryGate, "judge", judge)


def cancel_without_asking() -> AbstractContextManager[object]:
    """The mark is written, the holder is not asked."""

    def answer(self: OwnMachines, request: Any) -> HolderAnswer:
        return HolderAnswer(None)

    return patch.object(OwnMachines, "answer", answer)


def expired_at_its_turn_only() -> AbstractContextManager[object]:
    """What has expired counts as pending until its own turn comes."""
    return patch.object(Located, "has_expired", lambda *_: False)


def last_write_says_nothing_was_written() -> AbstractContextManager[object]:
    """A store that goes away half-way is told to the caller as if nothing had been written."""
    stack = ExitStack()
    for module in ("holding.driving", "engine.ending"):
        stack.enter_context(patch(f"timerd.services.{module}.unknown_of", lambda error: error))
    return stack


def priority_ignored() -> AbstractContextManager[object]:
    return patch.object(urgency, "PRIORITY_MS", 0)


def priority_the_other_way() -> AbstractContextManager[object]:
    return patch.object(urgency, "PRIORITY_MS", -64_000)


def on_demand_ignored() -> AbstractContextManager[object]:
    return patch.object(urgency, "ON_DEMAND_MS", 0)


VARIANTS: dict[str, Variant] = {
    "correct": nullcontext,
    "mark-before-scan": mark_before_closing_scan,
    "floor-late": floor_raised_late,
    "cancelled-forgotten": cancelled_forgotten_at_merge,
    "settle-skipped": settle_record_skipped,
    "read-first": closing_read_before_the_write,
    "row-before-record": carried_row_before_its_record,
    "mark-passes-carry": mark_passes_a_carry_early,
    "hot-before-page": fires_before_its_first_page,
    "records-not-read": settle_records_not_read,
    "move-unasked": move_without_asking,
    "target-unasked": moved_in_rows_fire_unasked,
    "early": early_by_a_millisecond,
    "ack-early": ack_confirmed_before_it_is_durable,
    "lease-forgotten": leases_forgotten_at_a_carry,
    "cancel-unasked": cancel_without_asking,
    "expired-is-pending": expired_at_its_turn_only,
    "says-not-written": last_write_says_nothing_was_written,
    "priority-ignored": priority_ignored,
    "priority-reversed": priority_the_other_way,
    "on-demand-ignored": on_demand_ignored,
}
