"""What an instance holds, how long it may believe so, and what it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from timerd.core.cluster.lease_trust import MARGIN_MS, LeaseTrust, Observation
from timerd.core.cluster.placement import holder_of
from timerd.core.instance_machine import BACKLOG_AT_ONCE, MISSED_AT_ONCE, MISSED_OPEN, InstanceMachine, everything
from timerd.core.ledger import Ledger
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.registers import Control
from timerd.model.settle import Outcome
from timerd.model.storage import BucketEntry

NOW_MS = 1_800_000_000_000
MACHINE = InstanceMachine(look_ahead_ms=60_000)


def entry(bucket: int, scope: int = TIME_SCOPE, *, shards: int = 1, finished: bool = False) -> BucketEntry:
    return BucketEntry(scope, NOW_MS + bucket * BUCKET_MS, shards, finishing=finished, finished=finished)


def test_missed_buckets_are_loaded_one_by_one_beside_the_current_ones() -> None:
    catalogue = [entry(-9, finished=True), *(entry(n) for n in range(-8, 3))]
    wanted = MACHINE.wanted(NOW_MS, catalogue, {})
    assert [p.bucket_ms for p in wanted] == [entry(n).bucket_ms for n in (-8, -2, -1, 0)]
    assert [MACHINE.is_missed(p, NOW_MS) for p in wanted] == [True, False, False, False]


def test_missed_buckets_with_few_rows_left_hold_up_no_others_up_to_a_number() -> None:
    catalogue = [entry(n, shards=2) for n in range(-40, -2)]
    half = Partition(TIME_SCOPE, entry(-37).bucket_ms, 0)

    def opened(is_loaded: Callable[[Partition], bool], is_small: Callable[[Partition], bool]) -> list[int]:
        wanted = MACHINE.wanted(NOW_MS, catalogue, {}, is_loaded=is_loaded, is_small=is_small)
        assert [p.shard for p in wanted] == [0, 1] * (len(wanted) // 2)
        return [p.bucket_ms for p in wanted[::2]]

    def up_to(number: int) -> list[int]:
        return [entry(n).bucket_ms for n in range(-40, number + 1)]

    assert opened(lambda p: p.bucket_ms < half.bucket_ms or p == half, everything) == up_to(-37)
    assert opened(everything, everything) == up_to(-41 + MISSED_OPEN)
    large = {entry(n).bucket_ms for n in range(-38, -38 + MISSED_AT_ONCE)}
    assert opened(everything, lambda p: p.bucket_ms not in large) == up_to(-39 + MISSED_AT_ONCE)


def test_the_next_bucket_is_loaded_ahead() -> None:
    before_ms = NOW_MS - 60_001
    assert not MACHINE.wanted(before_ms, [entry(0)], {})
    assert MACHINE.wanted(before_ms + 1, [entry(0, shards=2)], {}) == [Partition(0, NOW_MS, 0), Partition(0, NOW_MS, 1)]
    assert MACHINE.is_near(Partition(0, NOW_MS, 0), before_ms + 1)
    assert not MACHINE.is_near(Partition(7, NOW_MS, 0), NOW_MS)


def test_a_backlog_is_opened_oldest_first() -> None:
    oldest = -3 - BACKLOG_AT_ONCE
    scopes = {7: [entry(oldest - 1, 7, finished=True), *(entry(n, 7) for n in range(oldest, -1))], 8: [entry(-1, 8)]}
    wanted = MACHINE.wanted(NOW_MS, [], scopes)
    assert [(p.scope, p.bucket_ms) for p in wanted] == [
        *((7, entry(oldest + n).bucket_ms) for n in range(BACKLOG_AT_ONCE)),
        (8, entry(-1).bucket_ms),
    ]


def test_finished_buckets_are_dropped_after_the_history() -> None:
    catalogue = [entry(-3, finished=True), entry(-2, finished=True), entry(-1)]
    assert MACHINE.expired(NOW_MS, 2 * BUCKET_MS, catalogue) == [Partition(0, NOW_MS - 3 * BUCKET_MS, 0)]


def test_nothing_is_dropped_that_an_earlier_open_bucket_may_carry_rows_to() -> None:
    catalogue = [entry(-4), entry(-3, finished=True)]
    assert MACHINE.expired(NOW_MS, 2 * BUCKET_MS, catalogue) == []


def test_a_lease_counts_from_the_start_of_the_last_good_heartbeat() -> None:
    trust = LeaseTrust(ttl_ms=10_000)
    assert not trust.is_trusted(0)
    trust.heartbeat(1_000)
    trust.heartbeat(500)
    assert trust.is_trusted(11_000 - MARGIN_MS - 1)
    assert not trust.is_trusted(11_000 - MARGIN_MS)
    assert LeaseTrust.always().is_trusted(1e15)


def test_another_instance_is_dead_only_over_own_good_reads() -> None:
    seen = Observation(ttl_ms=10_000)
    for boot_ms in range(0, 10_000, 2_000):
        seen.read(1, boot_ms)
        assert not seen.is_dead
    seen.read(1, 10_000)
    assert seen.is_dead


def test_a_gap_in_the_reads_starts_the_time_out_again() -> None:
    seen = Observation(ttl_ms=10_000)
    seen.read(1, 0)
    seen.read(1, 4_000)
    seen.read(1, 100_000)
    seen.read(1, 104_000)
    assert not seen.is_dead
    seen.read(2, 108_000)
    seen.read(2, 111_000)
    seen.read(2, 114_000)
    assert not seen.is_dead
    seen.read(2, 118_000)
    assert seen.is_dead


def test_placement_moves_only_what_must_move() -> None:
    partitions = [Partition(0, n * BUCKET_MS, n % 3) for n in range(600)]
    names = [f"i{n}" for n in range(5)]
    before = {p: holder_of(p, names) for p in partitions}
    after = {p: holder_of(p, names[:-1]) for p in partitions}
    moved = [p for p in partitions if before[p] != after[p]]
    assert all(before[p] == "i4" for p in moved)
    assert all(before[p] != "i4" for p in partitions if p not in moved)
    assert min(Counter(before.values()).values()) > 80
    assert holder_of(partitions[0], names[::-1]) == before[partitions[0]]


@pytest.mark.parametrize(("inserted", "unexplained"), [(6, 0), (7, 1)])
def test_the_ledger_says_what_is_unexplained(inserted: int, unexplained: int) -> None:
    counts = ((int(Outcome.ACKED), 3), (int(Outcome.PARKED), 2), (int(Outcome.CARRIED), 1))
    ledger = Ledger()
    ledger.add_finished([Control(1, "me", "", NOW_MS, NOW_MS, NOW_MS, inserted=inserted, counts=counts)])
    ledger.add_open(Counter({int(Outcome.DEAD): 2}))
    named = ledger.named()
    assert (named["inserted"], named["acked"], named["carried"], named["dead"]) == (inserted + 2, 3, 3, 2)
    assert ledger.unexplained == named["unexplained"] == unexplained
