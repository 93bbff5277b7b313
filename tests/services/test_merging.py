"""A page goes into its machine in pieces."""

from __future__ import annotations

from tests.unit.test_partition_machine import START_MS, key
from timerd.core.holding import Settings
from timerd.core.memory import Memory
from timerd.core.partition_machine import PartitionMachine
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.storage import Mark, MarkKind, Page
from timerd.services.holding.merging import MARKS_AT_ONCE, mark_ahead

HOME = Partition(TIME_SCOPE, START_MS, 0)


async def test_of_many_marks_the_last_ones_stay_on_the_page() -> None:
    machine = PartitionMachine(HOME, Settings(holder="test"), Memory(1 << 20))
    keys = [key(n) for n in range(2 * MARKS_AT_ONCE + 7)]
    marks = [Mark(HOME, each, MarkKind.CANCELLED, b"") for each in keys]
    rest = await mark_ahead(machine, Page([], marks, 9, done=True))
    assert len(rest.marks) == MARKS_AT_ONCE
    machine.rows.mark(rest.marks)
    assert machine.rows.verdicts.keys() == {each.digest for each in keys}
    few = Page([], marks[:MARKS_AT_ONCE], 9, done=True)
    assert await mark_ahead(machine, few) is few
