"""What waits for the end of a lease that was extended goes on to its new end, many at once."""

from __future__ import annotations

import pytest

from tests.unit.partition_rig import HERE, NOW_MS, hot, key, rows, taken
from tests.unit.settle_records import record_of
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.model.identity import RowKey
from timerd.model.partition import BUCKET_MS
from timerd.model.rows import FLAG_CARRIED
from timerd.model.settle import CarryReason, Outcome

LEASE_ENDED_MS = NOW_MS + 500
WAITING = [key(item, LEASE_ENDED_MS - HERE.bucket_ms, version=1) for item in range(3)]


def waiting() -> PartitionMachine:
    return hot(rows(*WAITING, flags=FLAG_CARRIED))


def prolonged(machine: PartitionMachine, leases: dict[RowKey, int]) -> list[RowKey]:
    return machine.prolong(rows(*WAITING, flags=FLAG_CARRIED), lambda row: leases.get(row, 0), NOW_MS)


def test_each_waits_as_the_same_attempt_until_its_lease_ends_in_whatever_bucket() -> None:
    machine = waiting()
    ends_ms = [LEASE_ENDED_MS + 2_000, HERE.bucket_ms + BUCKET_MS + 1, LEASE_ENDED_MS + 9_000]
    assert sorted(prolonged(machine, dict(zip(WAITING, ends_ms, strict=True)))) == WAITING
    carries = {carry.source: carry for carry in record_of(machine).carries}
    assert [carries[row].position_ms for row in WAITING] == ends_ms
    assert {(each.version, each.reason, each.position_ms - each.lease_until_ms) for each in carries.values()} == {
        (1, CarryReason.HAND_OVER, 0)
    }
    assert [carries[row].target.bucket_ms - HERE.bucket_ms for row in WAITING] == [0, BUCKET_MS, 0]
    assert taken(machine, LEASE_ENDED_MS) == []


def test_what_waits_long_enough_has_ended_or_is_with_a_worker_stays() -> None:
    machine = waiting()
    machine.cancel(WAITING[1], Outcome.CANCELLED, b"request")
    leases = {WAITING[0]: LEASE_ENDED_MS, WAITING[1]: LEASE_ENDED_MS + 1}
    assert prolonged(machine, leases) == []
    assert taken(machine, LEASE_ENDED_MS) == [WAITING[0], WAITING[2]]
    assert prolonged(machine, {WAITING[2]: LEASE_ENDED_MS + 1}) == []


@pytest.mark.parametrize("release", [True, False])
def test_who_hands_over_still_carries_what_waits_until_it_lets_go(*, release: bool) -> None:
    machine = waiting()
    machine.hand_over("")
    if release:
        machine.tick(NOW_MS)
    assert prolonged(machine, {WAITING[0]: LEASE_ENDED_MS + 1}) == ([] if release else [WAITING[0]])
