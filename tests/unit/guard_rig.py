"""A delivery whose row was requeued to the end of its lease."""

from __future__ import annotations

from tests.unit.partition_rig import NOW_MS, hot, key, rows, taken
from timerd.core.dispatch.redelivery_guard import RedeliveryGuard
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.model.identity import delivery_id_of
from timerd.model.partition import BUCKET_MS
from timerd.model.settle import CarryReason

SENT = key(0)
ID = delivery_id_of(SENT.digest, SENT.version)
LEASE_ENDS_MS = NOW_MS + BUCKET_MS


def carried(redelivery_guard: RedeliveryGuard) -> PartitionMachine:
    """Into the next bucket, for a worker has it still."""
    machine = hot(rows(SENT))
    assert taken(machine) == [SENT]
    machine.guard({SENT: LEASE_ENDS_MS}, NOW_MS, CarryReason.GUARD)
    redelivery_guard.carried(machine, [SENT])
    return machine
