"""Of many backlogs that rest some are ticked at a time, each in its turn; whatever has something to do always."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from types import SimpleNamespace
from typing import cast

import pytest

from tests.unit.partition_rig import HERE, hot, key, rows, taken
from timerd.adapters.memory import MemoryStore
from timerd.core.partition.effects import WriteSettled
from timerd.core.partition.holding import HoldingSettings
from timerd.core.partition.memory import Memory
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.taken import Ended
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.rows import FLAG_MOVED_IN
from timerd.model.settle import Outcome
from timerd.services.holding.ticking import MOST_TICKS, RESTING_AT_ONCE, Ticking, rests


def machine_of(scope: int, *, rests: bool = True) -> PartitionMachine:
    return cast(PartitionMachine, SimpleNamespace(partition=Partition(scope, 0, 0), rests=rests))


def test_a_partition_rests_when_nothing_of_it_waits_is_open_or_is_being_written() -> None:
    machine = hot(rows(key(0)))
    assert [machine.rests, bool(taken(machine)), machine.rests] == [False, True, False]
    machine.end([Ended(HERE, key(0), Outcome.ACKED)])
    before, [write] = machine.rests, machine.flush()
    assert isinstance(write, WriteSettled)
    machine.settled_written(write.record)
    after = machine.rests
    machine.hint(rows(key(1), flags=FLAG_MOVED_IN), 0)
    assert [before, after, machine.rests] == [False, True, False], "it waits for an answer of `moves`"
    assert not PartitionMachine(HERE, HoldingSettings("me", traits=MemoryStore.traits), Memory(1 << 20)).rests, (
        "it has yet to be read"
    )


@pytest.mark.parametrize("number", [1, RESTING_AT_ONCE, RESTING_AT_ONCE + 1, 1_000, 10_000])
def test_each_has_its_turn(number: int) -> None:
    resting = [machine_of(scope) for scope in range(1, number + 1)]
    ticking, most = Ticking(), max(RESTING_AT_ONCE, -(-number // MOST_TICKS))
    turns = max(1, -(-number // most))
    found = [ticking.chosen(resting) for _ in range(turns)]
    assert Counter(map(id, chain(*found))) == Counter(map(id, resting))
    assert max(map(len, found)) <= most


def test_what_has_something_to_do_is_ticked_always() -> None:
    busy = [
        machine_of(TIME_SCOPE),
        machine_of(1, rests=False),
    ]
    assert not any(map(rests, busy))
    ticking, resting = Ticking(), [machine_of(scope) for scope in range(10, 1_010)]
    for _ in range(20):
        chosen = ticking.chosen([*resting, *busy])
        assert chosen[-len(busy) :] == busy
        assert len(chosen) <= RESTING_AT_ONCE + len(busy)
