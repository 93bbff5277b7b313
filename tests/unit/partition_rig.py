"""Builders for tests of a partition machine: rows, pages, control rows, and machines that are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from timerd.adapters.memory import MemoryStore
from timerd.core.partition.effects import (
    ChangeControl,
    Effects,
    ReadControl,
    ReadSettled,
)
from timerd.core.partition.holding import HoldingSettings, Phase
from timerd.core.partition.memory import Memory
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey, digest_of
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.registers import Control, Move, MoveState, Place
from timerd.model.rows import RowGroup, concat, single_row
from timerd.model.settle import SettleRecord
from timerd.model.storage import CasStatus, Mark, Page
from timerd.model.store_traits import StoreTraits
from timerd.model.task import NO_EXTRA, Template

START_MS = 1_800_000_000_000
NOW_MS = START_MS + 60_000
HERE = Partition(TIME_SCOPE, START_MS, 0)
QUEUE = QueueKey("default", "mail")
MAIL = Template(*QUEUE)
MESSAGE = b"one message."


def key(item: int, after_ms: int = 1_000, version: int = 0) -> RowKey:
    return RowKey(START_MS + after_ms, digest_of(MESSAGE, item), version)


def rows(*keys: RowKey, source: int = 0, flags: int = 0) -> RowGroup:
    group = concat([single_row(k, k.position_ms, MAIL, b"body", NO_EXTRA, flags) for k in keys])
    group.source = source
    return group


def page(*groups: RowGroup, marks: Sequence[Mark] = (), cursor: int = 0, done: bool = True) -> Page:
    return Page(groups, marks, cursor, done)


def control(verified_ms: int = 0, closing_ms: int = 0, **more: object) -> Control:
    return Control(5, "old", "", START_MS + closing_ms, START_MS + verified_ms, **more)  # type: ignore[arg-type]


def acquired(
    stored: Control | None = None,
    records: Sequence[SettleRecord] = (),
    *,
    remembered: int = 0,
    traits: StoreTraits = MemoryStore.traits,
) -> tuple[PartitionMachine, Effects]:
    """A machine in LOAD, and its first page request."""
    traits = replace(traits, knows_repeats=not remembered)
    machine = PartitionMachine(HERE, HoldingSettings("me", remembered=remembered, traits=traits), Memory(1 << 30))
    assert machine.start() == [ReadControl(HERE)]
    [change] = machine.control_read(stored, NOW_MS)
    assert isinstance(change, ChangeControl)
    assert change.expected == stored
    assert machine.control_changed(CasStatus.APPLIED, NOW_MS) == [ReadSettled(HERE)]
    return machine, machine.settled_read(records, NOW_MS)


def hot(*groups: RowGroup, stored: Control | None = None, cursor: int = 0, remembered: int = 0) -> PartitionMachine:
    machine, _ = acquired(stored, remembered=remembered)
    machine.page_read(page(*groups, cursor=cursor), NOW_MS)
    assert machine.phase is Phase.HOT
    return machine


def taken(machine: PartitionMachine, now_ms: int = NOW_MS) -> list[RowKey]:
    found = machine.take(QUEUE, 100, now_ms)
    return found.rows.keys() if found is not None else []


def mark_applied(machine: PartitionMachine, now_ms: int) -> Effects:
    [change] = [e for e in machine.tick(now_ms) if isinstance(e, ChangeControl)]
    assert change.value.closing_ms <= now_ms
    return machine.control_changed(CasStatus.APPLIED, now_ms)


def only(effects: Effects, kind: type) -> list[object]:
    return [e for e in effects if isinstance(e, kind)]


def move(item: int, state: MoveState, generation: int = 1) -> Move:
    target = Place(HERE, key(item, 2_000, generation << 16))
    return Move(generation, state, Place(HERE, key(item)), target, "r", target.key.position_ms, target.key.position_ms)


def answer(machine: PartitionMachine, found: Move | None, item: int = 0) -> Effects:
    digest = key(item).digest
    return machine.moves_read({digest: found}, {digest: machine.asking(digest)})
