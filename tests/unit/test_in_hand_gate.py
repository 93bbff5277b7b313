"""A task that was written into two partitions, because its call was repeated across the end of a bucket, is sent once
while its instance has both."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tests.unit.partition_rig import HERE, NOW_MS, QUEUE, hot, key, rows
from timerd.core.dispatch.deliveries import Deliveries
from timerd.core.dispatch.in_hand_gate import InHandGate
from timerd.core.gates import DueBatch
from timerd.core.partition.holding import Asked
from timerd.core.taken import Taken
from timerd.model.identity import delivery_id_of
from timerd.model.registers import Place
from timerd.model.rows import FLAG_CARRIED
from timerd.model.settle import Outcome

FIRST, OTHER = key(0), key(1)
ELSEWHERE = Place(HERE._replace(bucket_ms=HERE.bucket_ms - 300_000), FIRST._replace(position_ms=FIRST.position_ms - 1))


def workers_have_none(_: Collection[bytes]) -> Mapping[bytes, Place]:
    return {}


def a_worker_has_it(_: Collection[bytes]) -> Mapping[bytes, Place]:
    return {delivery_id_of(FIRST.digest, FIRST.version): ELSEWHERE}


def test_a_row_of_what_a_worker_has_by_another_ends_as_requeued_there() -> None:
    machine = hot(rows(FIRST, OTHER))
    left = machine.take(QUEUE, 100, NOW_MS, gates=[InHandGate(a_worker_has_it)])
    assert left is not None
    assert left.rows.keys() == [OTHER]
    carry = machine.carry_of(FIRST)
    assert carry is not None
    assert (carry.target, carry.position_ms) == (ELSEWHERE.partition, ELSEWHERE.key.position_ms)
    assert machine.ask(FIRST) == (Asked.ENDED, Outcome.CARRIED)
    assert machine.open_rows == 1


def test_of_two_rows_that_are_about_to_be_sent_together_one_is() -> None:
    machine, gate = hot(rows(FIRST)), InHandGate(workers_have_none)
    group = rows(FIRST)
    elsewhere = Taken.of(ELSEWHERE.partition, 1, group)
    assert gate.judge(DueBatch(elsewhere, 0, 0), NOW_MS) == {}
    assert machine.take(QUEUE, 100, NOW_MS, gates=[gate]) is None
    carry = machine.carry_of(FIRST)
    assert carry is not None
    assert carry.target == ELSEWHERE.partition


def test_the_row_where_that_delivery_waits_is_no_repeat() -> None:
    machine = hot(rows(FIRST, flags=FLAG_CARRIED))
    taken = machine.take(QUEUE, 100, NOW_MS, gates=[InHandGate(a_worker_has_it)])
    assert taken is not None
    assert taken.rows.keys() == [FIRST]


def test_what_went_to_a_backlog_before_keeps_nothing_that_goes_later() -> None:
    """Its backlog may have refused it, and this is the row that was written in its place: ended as requeued to where
    the first one was, the task would be nowhere."""
    deliveries = Deliveries.none()
    deliveries.offloading().judge(DueBatch(Taken.of(ELSEWHERE.partition, 1, rows(FIRST)), 0, 0), NOW_MS)
    later = DueBatch(Taken.of(HERE, 1, rows(FIRST)), 0, 0)
    deliveries.offloading().judge(later, NOW_MS)
    assert later.fates == {}
