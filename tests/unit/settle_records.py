"""Settle records, written by hand."""

from __future__ import annotations

from tests.unit.partition_rig import only
from timerd.core.partition.effects import WriteSettled
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.model.settle import SettleRecord


def record_of(machine: PartitionMachine) -> SettleRecord:
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    machine.settled_written(write.record)
    machine.carried_written(write.record.sequence)
    return write.record
