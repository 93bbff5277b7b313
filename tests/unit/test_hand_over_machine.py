"""A partition changes its holder while everybody lives: what is sent, said and written in between."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.partition_rig import (
    HERE,
    NOW_MS,
    START_MS,
    control,
)
from timerd.adapters.memory import MemoryStore
from timerd.core.partition.effects import ChangeControl
from timerd.core.partition.holding import HoldingSettings, Phase
from timerd.core.partition.memory import Memory
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.model.registers import Control


def test_a_partition_of_a_living_holder_is_not_taken() -> None:
    stored = replace(control(), incarnation=3)
    machine = PartitionMachine(
        HERE, HoldingSettings("me", incarnation=4, traits=MemoryStore.traits), Memory(1 << 30), lambda _: False
    )
    machine.start()
    assert machine.control_read(stored, NOW_MS) == []
    assert machine.phase is Phase.REFUSED


def test_the_next_holder_has_a_token_and_an_incarnation_of_its_own() -> None:
    free = control().released("me", START_MS, ())
    machine = PartitionMachine(
        HERE, HoldingSettings("me", "here:1", incarnation=4, traits=MemoryStore.traits), Memory(1 << 30)
    )
    machine.start()
    [change] = machine.control_read(free, NOW_MS)
    assert isinstance(change, ChangeControl)
    value = change.value
    assert (value.holder, value.address, value.incarnation, value.successor) == ("me", "here:1", 4, "")
    assert value.token > free.token


def test_the_control_row_of_one_who_is_alone_is_written_as_before() -> None:
    assert b"incarnation" not in control().to_bytes()
    assert Control.from_bytes(replace(control(), incarnation=2, successor="b").to_bytes()).successor == "b"
