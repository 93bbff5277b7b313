"""Where the row of a delivery waits is told when no crash takes it back there."""

from __future__ import annotations

from tests.unit.guard_rig import ID, LEASE_ENDS_MS, SENT, carried
from tests.unit.partition_rig import HERE, NOW_MS
from tests.unit.settle_records import record_of
from timerd.core.dispatch.redelivery_guard import RedeliveryGuard


def test_an_ack_goes_where_the_row_was_carried_when_that_is_durable() -> None:
    redelivery_guard = RedeliveryGuard()
    machine = carried(redelivery_guard)
    assert redelivery_guard.place_of(ID, (HERE, SENT)) == (HERE, SENT)
    assert redelivery_guard.leaves(ID) == (HERE, SENT)
    [carry] = record_of(machine).carries
    partition, place = redelivery_guard.place_of(ID, (HERE, SENT))
    assert (partition, place.position_ms) == (carry.target, LEASE_ENDS_MS)
    assert redelivery_guard.leaves(ID) is None


def test_what_its_holder_could_not_write_down_is_looked_for_where_it_was_sent_from() -> None:
    """The holder was replaced: the row of before is open, and the one that it should have gone on to is nowhere."""
    redelivery_guard = RedeliveryGuard()
    carried(redelivery_guard).lose()
    assert redelivery_guard.place_of(ID, (HERE, SENT)) == (HERE, SENT)
    # All the same it does not fire from there as long as the worker has it.
    assert redelivery_guard.waits(SENT)


def test_what_is_over_is_forgotten_though_others_come_all_the_time() -> None:
    redelivery_guard = RedeliveryGuard()
    for second in range(100):
        now_ms = NOW_MS + 1_000 * second
        redelivery_guard.hold({b"%d %d" % (second, n): now_ms + 5_000 for n in range(200)})
        assert redelivery_guard.is_active(now_ms)
        assert len(redelivery_guard._until_ms) <= 3 * 5 * 200
    redelivery_guard.hold({ID: NOW_MS + 200_000})
    assert redelivery_guard.is_active(NOW_MS + 150_000)
    assert redelivery_guard.lease_ms(SENT) == NOW_MS + 200_000
