"""Rows that wait for the end of a lease which was extended since. Who stops carries them on to its new end, for of a
lease the next holder knows only what the row says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

import numpy as np

from timerd.core.carry import carried_rows
from timerd.core.carrying import guarded
from timerd.core.late_failure import may_leave
from timerd.core.partition_machine import PartitionMachine
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.settle import Carry, CarryReason, Outcome

LeaseOf = Callable[[RowKey], int]


def is_outlasted(key: RowKey, lease_until_ms: int, now_ms: int) -> bool:
    """One that is due only after its lease waits long enough, and carried it would stay where it is."""
    return lease_until_ms > max(now_ms, key.position_ms)


def prolong(
    machine: PartitionMachine, rows: RowGroup, asked: Collection[RowKey], lease_of: LeaseOf, now_ms: int
) -> list[RowKey]:
    """Of `asked` those that are among `rows`, as the store has them, and wait still. Returns what was carried on."""
    parts: dict[Partition, list[tuple[int, Carry]]] = defaultdict(list)
    for n, key in enumerate(rows.keys()):
        until_ms = lease_of(key)
        if key in asked and is_outlasted(key, until_ms, now_ms) and may_leave(machine, key):
            carry = guarded(machine.log, key, until_ms, now_ms, CarryReason.HAND_OVER, was_sent=False)
            parts[carry.target].append((n, carry))
    for target, part in parts.items():
        _carry(machine, rows, target, part)
    return [carry.source for part in parts.values() for _, carry in part]


def _carry(machine: PartitionMachine, rows: RowGroup, target: Partition, part: list[tuple[int, Carry]]) -> None:
    carries = [carry for _, carry in part]
    for carry in carries:
        machine.rows.leave(carry.source, Outcome.CARRIED)
    which = np.array([n for n, _ in part], dtype=np.intp)
    machine.log.carry(carries, (target, carried_rows(rows.select(which), machine.partition, carries)))
