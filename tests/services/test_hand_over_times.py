"""How long a partition is with nobody when an instance leaves: in virtual time, so all that is seen is waited for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from tests.services.scheduler_rig import Leased
from tests.simulator.virtual_loop import START_MS, LoopClock, VirtualLoop
from timerd.adapters.memory import MemoryStore
from timerd.core.cluster.lease_trust import LeaseTrust
from timerd.core.instance_machine import InstanceMachine
from timerd.core.partition.holding import HoldingSettings, Phase
from timerd.core.partition.memory import Memory
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.model.partition import Partition, bucket_of
from timerd.model.registers import Control, control_key
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.hand_over import LEAVE_S, LOOK_S, SUCCEEDED_S
from timerd.services.holding.held import JUST_SENT_MS
from timerd.services.holding.peer_view import NoPeers
from timerd.services.holding.scheduler import Scheduler
from timerd.services.holding.single_instance import SingleInstance
from timerd.testing.contracts.build import carried, key

HERE = Partition(0, bucket_of(START_MS), 0)
NAMES = "abc"
LEASE_ENDS_MS = START_MS + 60_000
WAYS = ("append", "scan", "settle", "settled", "read", "cas", "catalogue", "find")


class Member(SingleInstance):
    """Of two, one of which is about to leave. A look at who lives takes `look_s`."""

    incarnation = 1
    look_s = 0.0

    def live(self) -> tuple[str, ...]:
        return ("stays",)

    async def refresh(self) -> None:
        await asyncio.sleep(self.look_s)


class Steps(MemoryStore):
    """Each call takes `takes_s`, and is noted."""

    def __init__(self, loop: VirtualLoop, takes_s: float) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.takes_s = takes_s
        self._loop = loop
        for name in WAYS:
            setattr(self, name, self._slow(name, getattr(self, name)))

    def _slow(self, name: str, work: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        async def slowly(*args: object, **named: object) -> object:
            self.calls.append(name)
            await asyncio.sleep(self.takes_s)
            return await work(*args, **named)

        return slowly


class Told(NoPeers):
    """They hear of what is handed over."""

    def __init__(self, hear: Callable[[Partition, Control | None], None]) -> None:
        self._hear = hear

    def hand_over(self, address: str, partition: Partition, control: Control | None) -> None:
        self._hear(partition, control)


class Pair:
    """`leaves` holds the partition, whose rows workers have in hand; `stays` is told of what is handed over."""

    def __init__(self, loop: VirtualLoop, takes_s: float) -> None:
        self.loop, self.store = loop, Steps(loop, takes_s)
        # What the store was asked, but for what is only looked at beside.
        self.steps: list[str] = []
        self.left_behind = False
        self.members = {name: Member(name) for name in ("leaves", "stays")}
        self.leaves, self.stays = (self._scheduler(name) for name in self.members)

    def _scheduler(self, name: str) -> Scheduler:
        time, instance = EngineTime(LoopClock(self.loop), LeaseTrust.always()), InstanceMachine(90_000)
        deliveries = Leased(LEASE_ENDS_MS) if name == "leaves" else None
        settings, member = HoldingSettings(name, traits=self.store.traits), self.members[name]
        memory, peers = Memory(1 << 30), lambda _: Told(self._receive)
        return Scheduler(self.store, time, settings, instance, memory, 86_400_000, member, deliveries, peers=peers)

    def _receive(self, partition: Partition, control: Control | None) -> None:
        self.stays.receive(partition, control)

    async def begin(self) -> PartitionMachine:
        await self.store.append([carried(*map(key, NAMES))])
        self.leaves.hold(HERE)
        await self.leaves.held.until_idle()
        machine = self.leaves.machines[HERE]
        (queue,) = machine.queues()
        assert machine.take(queue, len(NAMES), START_MS + 1) is not None
        return machine

    async def leave(self) -> float:
        """Seconds until the other one may fire."""
        begun_s = self.loop.time()
        leaving = asyncio.create_task(self._leave())
        async with asyncio.timeout(60):
            while self._is_nobodys():  # noqa: ASYNC110 - time is virtual
                await asyncio.sleep(0.001)
        took_s = self.loop.time() - begun_s
        self.steps = [name for name in self.store.calls if name != "read"]
        await leaving
        return took_s

    async def _leave(self) -> None:
        await self.leaves.leave(int(self.loop.now_ms))
        self.left_behind = HERE in self.leaves.machines

    def _is_nobodys(self) -> bool:
        held = self.stays.machines.get(HERE)
        return held is None or held.phase is not Phase.HOT

    async def end(self) -> None:
        for each in (self.leaves, self.stays):
            each.drop_all()
            await each.held.until_idle()


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def test_nothing_but_the_store_is_waited_for(loop: VirtualLoop) -> None:
    """And a moment for what has just been sent. Not a look at who lives, nor a time of day."""
    step_s = 0.02
    pair = Pair(loop, step_s)
    pair.members["stays"].look_s = 3.0

    async def played() -> float:
        await pair.begin()
        pair.store.calls.clear()
        took_s = await pair.leave()
        await pair.end()
        return took_s

    took_s = loop.run_until_complete(played())
    assert pair.steps == ["settle", "append", "cas", "cas", "settled", "scan"]
    assert took_s <= len(pair.steps) * step_s + LOOK_S + JUST_SENT_MS / 1000 + 0.01


def test_the_log_says_how_long_each_step_took(loop: VirtualLoop, caplog: pytest.LogCaptureFixture) -> None:
    """The record and the rows that are carried, then the mark; there a mark, the records, and what is due."""
    caplog.set_level(logging.DEBUG)
    pair = Pair(loop, 0.1)

    async def played() -> None:
        await pair.begin()
        await pair.leave()
        await pair.end()

    loop.run_until_complete(played())
    words = f"{HERE} is handed over to stays after 300 ms: 200 until all was carried and settled, 100 for the last mark"
    assert words in caplog.messages
    assert f"{HERE} fires here after 300 ms: 100 until it was held, 200 to read what is due" in caplog.messages
    [summary] = [each for each in caplog.messages if each.startswith("1 partitions were given away")]
    assert summary.endswith(f"the longest step: {HERE}, 300 ms")


def test_a_store_that_is_only_slow_is_waited_for(loop: VirtualLoop) -> None:
    """G5: the record of what workers have in hand, its rows and the last mark take longer than a store that does
    nothing is given. What is not carried by then would come again from whoever finds it with nobody."""
    pair = Pair(loop, LEAVE_S / 2 - 0.2)

    async def played() -> tuple[float, list[Control]]:
        await pair.begin()
        took_s = await pair.leave()
        await pair.end()
        pair.store.takes_s = 0
        stored = await pair.store.read([control_key(HERE)])
        return took_s, [Control.from_bytes(raw) for raw in stored if raw is not None]

    took_s, [control] = loop.run_until_complete(played())
    assert took_s > LEAVE_S
    assert not pair.left_behind
    assert control.holder == "stays"


def test_a_store_that_does_nothing_holds_up_no_stop(loop: VirtualLoop) -> None:
    pair = Pair(loop, 0.001)

    async def played() -> float:
        machine = await pair.begin()
        pair.store.takes_s = 3_600
        begun_s = loop.time()
        await pair.leaves.leave(int(loop.now_ms))
        left_s = loop.time() - begun_s
        assert machine.phase is Phase.HAND_OVER
        await pair.end()
        return left_s

    assert loop.run_until_complete(played()) <= LEAVE_S + SUCCEEDED_S + 0.1
