"""When what has ended is written: a commit costs more than a thousand endings in it, so they wait for one another."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from timerd.core.partition import PartitionMachine
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.services.holding.held import Held

A_DAY_S = 86_400.0


class Flushed:
    """A partition that counts how often its ends are written."""

    def __init__(self, shard: int) -> None:
        self.partition, self.flushes = Partition(TIME_SCOPE, 0, shard), 0

    def flush(self, _now_ms: int) -> tuple[()]:
        self.flushes += 1
        return ()


class Rig:
    """Two partitions whose ends wait for one another for a day."""

    def __init__(self) -> None:
        time = cast(Any, SimpleNamespace(exact_ms=lambda: 0.0))
        self.held = Held(time, A_DAY_S, cast(Any, None), cast(Any, None))
        self.one, self.other = (self._holds(Flushed(shard)) for shard in (0, 1))

    def _holds(self, machine: Flushed) -> Flushed:
        self.held.machines[machine.partition] = cast(PartitionMachine, machine)
        # As if it had just been written.
        self.held._settled_s[machine.partition] = asyncio.get_running_loop().time()
        return machine

    async def settle(self, machine: Flushed, *, is_awaited: bool) -> tuple[int, int]:
        """How often both have been written, when this turn of the loop is over and the next one."""
        self.held.settle_soon(cast(PartitionMachine, machine), is_awaited=is_awaited)
        for _ in range(3):
            await asyncio.sleep(0)
        return self.one.flushes, self.other.flushes


async def test_ends_wait_for_one_another_until_one_is_awaited() -> None:
    rig = Rig()
    assert await rig.settle(rig.one, is_awaited=False) == (0, 0)
    assert await rig.settle(rig.other, is_awaited=True) == (0, 1), "the other partition goes on waiting"
    assert await rig.settle(rig.one, is_awaited=True) == (1, 1), "and takes along what waited"
    assert await rig.settle(rig.one, is_awaited=False) == (1, 1), "the next one waits again"
    assert await rig.settle(rig.one, is_awaited=True) == (2, 1)


async def test_what_is_awaited_in_one_turn_is_written_once() -> None:
    rig = Rig()
    for _ in range(3):
        rig.held.settle_soon(cast(PartitionMachine, rig.one), is_awaited=True)
    assert await rig.settle(rig.one, is_awaited=True) == (1, 0)
