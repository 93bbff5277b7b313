"""A page goes into its machine in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from tests.unit.partition_rig import QUEUE, START_MS, hot, key, rows
from timerd.adapters.memory import MemoryStore
from timerd.core.partition.holding import HoldingSettings
from timerd.core.partition.memory import Memory
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.taken import QueueKey
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.settle import Outcome
from timerd.model.storage import Mark, MarkKind, Page
from timerd.services.holding import merging
from timerd.services.holding.merging import MARKS_AT_ONCE, keep_pace, mark_ahead

HOME = Partition(TIME_SCOPE, START_MS, 0)


async def test_of_many_marks_the_last_ones_stay_on_the_page() -> None:
    machine = PartitionMachine(HOME, HoldingSettings(holder="test", traits=MemoryStore.traits), Memory(1 << 20))
    keys = [key(n) for n in range(2 * MARKS_AT_ONCE + 7)]
    marks = [Mark(HOME, each, MarkKind.CANCELLED, b"") for each in keys]
    rest = await mark_ahead(machine, Page([], marks, 9, done=True))
    assert len(rest.marks) == MARKS_AT_ONCE
    machine.mark(rest.marks)
    assert machine._table._rows.outcomes.tasks().keys() == {each.digest for each in keys}
    few = Page([], marks[:MARKS_AT_ONCE], 9, done=True)
    assert await mark_ahead(machine, few) is few


@pytest.fixture
def small() -> Iterator[None]:
    """Ten rows are much, and three are many in one look."""
    row_bytes = hot(rows(key(0)))._table._rows.waiting.size_bytes
    with patch.object(merging, "AHEAD_BYTES", 10 * row_bytes), patch.object(merging, "FAST_BYTES", 3 * row_bytes):
        yield


def brought_in_again(count: int) -> PartitionMachine:
    machine = hot(rows(*(key(n) for n in range(count))))
    machine._table._rows.left.leave(QUEUE, (START_MS + 2_000, 0))
    machine._table._rows.begin_reload(QUEUE)
    return machine


async def looks(machine: PartitionMachine, *taken: int) -> int:
    """How often it is looked, where so many leave before each look."""
    left = iter(taken)
    seen = 0

    async def sleep(_seconds: float) -> None:
        nonlocal seen
        seen += 1
        machine._table._rows.pull(QUEUE, next(left), START_MS + 9_000)

    with patch.object(asyncio, "sleep", sleep):
        await keep_pace(machine)
    return seen


@pytest.mark.usefixtures("small")
async def test_more_of_a_queue_comes_when_little_is_left_of_it() -> None:
    assert await looks(brought_in_again(30), 8, 8, 8) == 3
    assert await looks(brought_in_again(10)) == 0


@pytest.mark.usefixtures("small")
async def test_a_queue_that_leaves_slowly_is_brought_in_all_the_same() -> None:
    assert await looks(brought_in_again(30), 8, 2) == 2


@pytest.mark.usefixtures("small")
async def test_where_much_has_ended_meanwhile_it_comes_as_fast_as_it_can() -> None:
    """So that it is cut once more, and what has ended need not be kept in mind until all of it has come."""
    machine = brought_in_again(30)
    machine._table._log.end([(key(n), Outcome.ACKED) for n in range(40, 44)])
    with patch.object(merging, "MOST_ENDED", 3):
        assert await looks(machine) == 0
    with patch.object(merging, "MOST_ENDED", 4):
        assert await looks(machine, 8, 8, 8) == 3


@pytest.mark.usefixtures("small")
async def test_it_is_not_held_up_where_another_queue_waits_to_be_brought_in() -> None:
    machine = brought_in_again(30)
    machine._table._rows.left.leave(QueueKey("default", "calls"), (START_MS + 1_500, 0))
    assert await looks(machine) == 0


@pytest.mark.usefixtures("small")
async def test_what_is_loaded_for_the_first_time_waits_for_nothing() -> None:
    assert await looks(hot(rows(*(key(n) for n in range(30))))) == 0
