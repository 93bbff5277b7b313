"""A task that was written at several positions of one partition, because its call was repeated, is sent once."""

from __future__ import annotations

import pytest

from tests.unit.test_partition_machine import (
    HERE,
    NOW_MS,
    acquired,
    hot,
    key,
    only,
    page,
    rows,
    taken,
)
from timerd.core.effects import WriteCarried, WriteSettled
from timerd.core.partition_machine import PartitionMachine
from timerd.core.taken import Again, Ended
from timerd.model.identity import RowKey
from timerd.model.settle import CarryReason, Outcome

FIRST, SECOND, THIRD = (key(0, after_ms=ms) for ms in (1_000, 3_000, 5_000))


def settled(machine: PartitionMachine) -> list[tuple[RowKey, Outcome]]:
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    found = machine.log.settled
    return [(each, outcome) for each in (FIRST, SECOND, THIRD) if (outcome := found.get(each)) is not None]


def all_alike(outcome: Outcome) -> list[tuple[RowKey, Outcome]]:
    return [(each, outcome) for each in (FIRST, SECOND, THIRD)]


def test_one_of_them_is_sent_and_its_ack_ends_them_all() -> None:
    machine = hot(rows(FIRST, SECOND, THIRD))
    assert taken(machine) == [FIRST]
    machine.end([Ended(HERE, FIRST, Outcome.ACKED)])
    assert settled(machine) == all_alike(Outcome.ACKED)
    assert machine.rows.oldest_ms() is None


def test_what_comes_while_one_is_with_a_worker_waits_with_it() -> None:
    machine = hot(rows(FIRST))
    assert taken(machine) == [FIRST]
    machine.hint(rows(SECOND, THIRD), 0)
    assert taken(machine) == []
    assert machine.rows.oldest_ms() == FIRST.position_ms
    machine.end([Ended(HERE, THIRD, Outcome.ACKED)])
    assert settled(machine) == all_alike(Outcome.ACKED)


def test_the_next_holder_sends_none_of_them_again() -> None:
    machine = hot(rows(FIRST, SECOND, THIRD))
    taken(machine)
    machine.end([Ended(HERE, FIRST, Outcome.ACKED)])
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    after, _ = acquired(machine.control, [write.record])
    after.page_read(page(rows(FIRST, SECOND, THIRD)), NOW_MS)
    assert taken(after) == []


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_failure_carries_them_on_as_one(is_cancelled: bool) -> None:
    machine = hot(rows(FIRST, SECOND, THIRD))
    taken(machine)
    if is_cancelled:
        machine.cancel(SECOND, Outcome.CANCELLED, b"r")
    machine.again([Again(HERE, FIRST, NOW_MS + 5_000, NOW_MS, "failed")])
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    carried = [] if is_cancelled else [FIRST, SECOND, THIRD]
    assert [carry.source for carry in write.record.carries] == carried
    assert {carry.position_ms for carry in write.record.carries} <= {NOW_MS + 5_000}
    effects = only(machine.settled_written(write.record), WriteCarried)
    written = [group for each in effects if isinstance(each, WriteCarried) for _, group in each.groups]
    assert sum(map(len, written)) == (not is_cancelled)


def test_at_a_hand_over_they_leave_together() -> None:
    machine = hot(rows(FIRST, SECOND))
    taken(machine)
    machine.guard({FIRST: NOW_MS + 30_000}, NOW_MS, CarryReason.HAND_OVER)
    assert not machine.rows.open
    assert machine.rows.oldest_ms() is None


def test_what_is_given_back_waits_again_with_its_copies() -> None:
    machine = hot(rows(FIRST, SECOND))
    assert taken(machine) == [FIRST]
    assert machine.rows.put_back(FIRST)
    assert taken(machine) == [FIRST]
    machine.end([Ended(HERE, FIRST, Outcome.ACKED)])
    assert machine.rows.oldest_ms() is None
