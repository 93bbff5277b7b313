"""A task that was written into two partitions, because its call was repeated across the end of a bucket, is sent once
while its instance has both."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tests.unit.test_partition_machine import HERE, NOW_MS, QUEUE, hot, key, rows
from timerd.core.holding import Asked
from timerd.core.partition_machine import PartitionMachine
from timerd.core.taken import Taken
from timerd.model.identity import delivery_id_of
from timerd.model.registers import Place
from timerd.model.rows import FLAG_CARRIED
from timerd.model.settle import Outcome
from timerd.services.engine.joining import Together, apart

FIRST, OTHER = key(0), key(1)
ELSEWHERE = Place(HERE._replace(bucket_ms=HERE.bucket_ms - 300_000), FIRST._replace(position_ms=FIRST.position_ms - 1))


def workers_have_none(_: Collection[bytes]) -> Mapping[bytes, Place]:
    return {}


def a_worker_has_it(_: Collection[bytes]) -> Mapping[bytes, Place]:
    return {delivery_id_of(FIRST.digest, FIRST.version): ELSEWHERE}


def taken(machine: PartitionMachine) -> Taken:
    batch = machine.take(QUEUE, 100, NOW_MS)
    assert batch is not None
    return batch


def test_a_row_of_what_a_worker_has_by_another_ends_as_carried_there() -> None:
    machine = hot(rows(FIRST, OTHER))
    left = apart(machine, taken(machine), a_worker_has_it, {})
    assert left is not None
    assert left.rows.keys() == [OTHER]
    carry = machine.log.carries[FIRST]
    assert (carry.target, carry.position_ms) == (ELSEWHERE.partition, ELSEWHERE.key.position_ms)
    assert machine.ask(FIRST) == (Asked.ENDED, Outcome.CARRIED)


def test_of_two_rows_that_are_about_to_be_sent_together_one_is() -> None:
    machine, together = hot(rows(FIRST)), Together()
    batch = taken(machine)
    elsewhere = Taken(ELSEWHERE.partition, batch.token, batch.rows, batch.digests)
    assert apart(machine, elsewhere, workers_have_none, together) is elsewhere
    assert apart(machine, batch, workers_have_none, together) is None
    assert machine.log.carries[FIRST].target == ELSEWHERE.partition


def test_the_row_where_that_delivery_waits_is_no_repeat() -> None:
    machine = hot(rows(FIRST, flags=FLAG_CARRIED))
    batch = taken(machine)
    assert apart(machine, batch, a_worker_has_it, {}) is batch
