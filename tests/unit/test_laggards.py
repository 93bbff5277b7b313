"""Which deliveries are carried because too many endings wait for the mark: those that hold it back, and no others."""

from __future__ import annotations

import pytest

from tests.unit.partition_rig import HERE, NOW_MS, key, page, rows, taken
from timerd.adapters.memory import MemoryStore
from timerd.core.partition.holding import HoldingSettings, Phase
from timerd.core.partition.memory import Memory
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.taken import Ended
from timerd.model.identity import RowKey
from timerd.model.settle import Outcome
from timerd.model.storage import CasStatus

LIMIT = 3
STUCK_MS = 10_000


def holding(*keys: RowKey) -> PartitionMachine:
    settings = HoldingSettings("me", max_settled=LIMIT, stuck_after_ms=STUCK_MS, traits=MemoryStore.traits)
    machine = PartitionMachine(HERE, settings, Memory(1 << 30))
    machine.control_read(None, NOW_MS)
    machine.control_changed(CasStatus.APPLIED, NOW_MS)
    machine.settled_read([], NOW_MS)
    machine.page_read(page(rows(*keys)), NOW_MS)
    assert machine.phase is Phase.HOT
    return machine


def end(machine: PartitionMachine, *keys: RowKey) -> None:
    machine.end([Ended(HERE, each, Outcome.ACKED) for each in keys])


def test_a_delivery_that_holds_back_many_endings_is_carried_after_a_while() -> None:
    stuck, others = key(0, 100), [key(n, 200) for n in range(1, LIMIT + 2)]
    machine = holding(stuck, *others)
    taken(machine)
    end(machine, *others)
    assert machine.laggards(NOW_MS + STUCK_MS) == []
    assert machine.laggards(NOW_MS + STUCK_MS + 1) == [stuck]


def test_few_endings_are_kept() -> None:
    stuck, others = key(0, 100), [key(n, 200) for n in range(1, LIMIT + 1)]
    machine = holding(stuck, *others)
    taken(machine)
    end(machine, *others)
    assert machine.laggards(NOW_MS + STUCK_MS + 1) == []


@pytest.mark.parametrize("waits_ms", [150, 200, 201])
def test_of_a_hot_second_what_is_worked_on_stays_while_the_rest_waits(waits_ms: int) -> None:
    """Carried, it would come back among those that wait, and the mark would not have moved."""
    in_hand, others = key(0, 200), [key(n, 100) for n in range(1, LIMIT + 2)]
    machine = holding(in_hand, *others)
    taken(machine)
    end(machine, *others)
    machine.hint(rows(key(50, waits_ms)), 0)
    holds_back = [in_hand] if waits_ms > 200 else []
    assert machine.laggards(NOW_MS + STUCK_MS + 1) == holds_back
