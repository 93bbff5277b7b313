"""A row that waits for an earlier delivery is carried on as the same attempt, so its old row and its new one differ by
their positions alone. What is open by the new one is never settled by the name of the old: the mark would pass it."""

from __future__ import annotations

from tests.unit.partition_rig import HERE, NOW_MS, hot, key, rows, taken
from tests.unit.settle_records import record_of
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.taken import Again
from timerd.model.identity import RowKey
from timerd.model.rows import FLAG_CARRIED
from timerd.model.settle import CarryReason, Outcome

LEASE_ENDS_MS = NOW_MS + 500
OLD, BESIDE = key(0), key(1)
NEW = OLD._replace(position_ms=LEASE_ENDS_MS)


def sent_by_its_new_row() -> PartitionMachine:
    """It was taken with another task, which a worker still has; its own delivery of before was not over then."""
    machine = hot(rows(OLD, BESIDE))
    assert taken(machine) == [OLD, BESIDE]
    machine.guard({OLD: LEASE_ENDS_MS}, NOW_MS, CarryReason.GUARD, was_sent=False)
    assert [carry.source for carry in record_of(machine).carries] == [OLD]
    machine.hint(rows(NEW, flags=FLAG_CARRIED), 0)
    assert taken(machine, LEASE_ENDS_MS) == [NEW]
    return machine


def test_what_is_open_is_named_by_the_row_that_was_sent() -> None:
    machine = sent_by_its_new_row()
    assert sorted(machine.open_keys()) == sorted([BESIDE, NEW])
    assert sorted(machine.open_since(1 << 62)) == sorted([BESIDE, NEW])


def test_at_a_hand_over_the_record_ends_the_row_that_was_sent() -> None:
    machine = sent_by_its_new_row()
    leases: dict[RowKey, int] = dict.fromkeys(machine.open_keys(), LEASE_ENDS_MS + 1_000)
    machine.guard(leases, LEASE_ENDS_MS, CarryReason.HAND_OVER)
    assert {carry.source for carry in record_of(machine).carries} == {BESIDE, NEW}


def test_a_failure_that_names_the_old_row_carries_the_one_that_was_sent() -> None:
    machine = sent_by_its_new_row()
    machine.again([Again(HERE, OLD, LEASE_ENDS_MS + 50, LEASE_ENDS_MS, "failed")])
    assert [carry.source for carry in record_of(machine).carries] == [NEW]


def test_what_has_waited_for_a_lease_and_failed_does_not_wait_for_it_at_the_same_instant_again() -> None:
    """Another instance may still know the lease. Its way would be a circle: the task would never end."""
    machine = hot(rows(OLD))
    waited = OLD._replace(position_ms=LEASE_ENDS_MS)
    machine._table._log.end([(waited, Outcome.CARRIED)])
    assert taken(machine) == [OLD]
    machine.guard({OLD: LEASE_ENDS_MS}, NOW_MS, CarryReason.GUARD, was_sent=False)
    assert [carry.position_ms for carry in record_of(machine).carries] == [LEASE_ENDS_MS + 1]
