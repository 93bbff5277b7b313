"""What nobody takes goes to its queue's backlog, whose holder may be another instance; what a worker has does not."""

from __future__ import annotations

import asyncio

import pytest

from tests.services.scheduler_rig import START_MS, trusted_time
from timerd.adapters.memory import MemoryStore
from timerd.core.instance_machine import InstanceMachine
from timerd.core.partition.holding import HoldingSettings
from timerd.core.partition.memory import Memory
from timerd.model.identity import delivery_id_of
from timerd.model.partition import Partition, bucket_of
from timerd.model.settle import CarryReason, Outcome
from timerd.services.engine.firing import SchedulerFiring
from timerd.services.holding.scheduler import Scheduler
from timerd.services.holding.single_instance import SingleInstance
from timerd.testing.contracts.build import carried, key

HERE = Partition(0, bucket_of(START_MS), 0)
LAG_MS = 3_000
LEASE_ENDS_MS = START_MS + 1_000
EXTENDED_MS = START_MS + 20_000
HAD = key("a")


class LateQueue:
    """A queue whose worker has one task and takes no other: it has extended the lease that the task's row waits for."""

    def __init__(self) -> None:
        self.store, time = MemoryStore(), trusted_time()
        settings = HoldingSettings("me", max_mark_lag_ms=LAG_MS, traits=MemoryStore.traits)
        instance, memory = InstanceMachine(90_000), Memory(1 << 30)
        self.scheduler = Scheduler(self.store, time, settings, instance, memory, 86_400_000, SingleInstance("me"))
        self.firing = SchedulerFiring(self.scheduler, time, self.store, b"secret")

    async def begin(self) -> None:
        await self.store.append([carried(HAD)])
        self.scheduler.hold(HERE)
        await self.scheduler.step(START_MS)
        machine, held = self.scheduler.machines[HERE], self.scheduler.held
        (queue,) = machine.queues()
        assert machine.take(queue, 1, START_MS) is not None
        machine.guard({HAD: LEASE_ENDS_MS}, START_MS, CarryReason.GUARD)
        self.scheduler.deliveries.carried(machine, [HAD])
        held.settle_soon(machine)
        await asyncio.wait_for(held.durable(machine, machine.last_lsn), 5)
        self.extended(EXTENDED_MS)
        await self.scheduler.step(START_MS)

    def extended(self, until_ms: int) -> None:
        self.firing.leased({delivery_id_of(HAD.digest, HAD.version): until_ms})

    async def after(self, late_ms: int) -> list[Outcome]:
        """How its rows have left by then, one after the other."""
        for _ in range(3):
            await self.scheduler.step(START_MS + late_ms)
        records = await self.store.settled(HERE)
        return [Outcome(each) for record in records for each in record.entries["outcome"].tolist()]


@pytest.fixture
async def late() -> LateQueue:
    late = LateQueue()
    await late.begin()
    return late


async def test_what_a_worker_has_stays_where_its_lease_is_known(late: LateQueue) -> None:
    """It waits for the new end of the lease, and is no matter of the backlog before."""
    assert Outcome.PARKED not in await late.after(10_000)


async def test_what_nobody_has_any_more_goes(late: LateQueue) -> None:
    assert (await late.after(60_000))[-1] is Outcome.PARKED
