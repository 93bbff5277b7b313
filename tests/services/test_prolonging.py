"""An instance that stops takes along what its workers have told it of their leases."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.services.scheduler_rig import START_MS, trusted_time
from timerd.adapters.memory import MemoryStore
from timerd.core.instance_machine import InstanceMachine
from timerd.core.partition.holding import HoldingSettings, Phase
from timerd.core.partition.memory import Memory
from timerd.model.identity import delivery_id_of
from timerd.model.partition import Partition, bucket_of
from timerd.model.settle import CarryReason
from timerd.model.storage import Found
from timerd.services.engine.firing import SchedulerFiring
from timerd.services.holding import hand_over
from timerd.services.holding.scheduler import Scheduler
from timerd.services.holding.single_instance import SingleInstance
from timerd.testing.contracts.build import carried, key

HERE = Partition(0, bucket_of(START_MS), 0)
LEASE_ENDS_MS = START_MS + 1_000
EXTENDED_MS = START_MS + 6_000
SENT = [key(name) for name in "abc"]


class LastOne(SingleInstance):
    """Of a cluster whose other members have left."""

    incarnation = 1
    is_leaving = False

    def live(self) -> tuple[str, ...]:
        return () if self.is_leaving else (self.name,)

    async def leaving(self) -> None:
        self.is_leaving = True


class Between(SingleInstance):
    """`gives`: another one has come, and all is placed there."""

    incarnation = 1
    gives = False

    def live(self) -> tuple[str, ...]:
        return ("other",) if self.gives else (self.name,)


class AskedStore(MemoryStore):
    """Answers a look-up when `answers` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()
        self.asked: list[int] = []

    async def find(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> Sequence[Found]:
        self.asked.append(len(keys))
        await self.answers.wait()
        return await super().find(partition, keys)


class Stop:
    """Of the last instance, whose worker has extended the leases that three rows wait for."""

    def __init__(self) -> None:
        self.store, self.member = AskedStore(), LastOne("me")
        instance, time = InstanceMachine(90_000), trusted_time()
        self.scheduler = Scheduler(
            self.store,
            time,
            HoldingSettings("me", traits=MemoryStore.traits),
            instance,
            Memory(1 << 30),
            86_400_000,
            self.member,
        )
        self.firing = SchedulerFiring(self.scheduler, time, self.store, b"secret")

    async def begin(self) -> None:
        await self.store.append([carried(*SENT)])
        self.scheduler.hold(HERE)
        await self.scheduler.step(START_MS)
        machine, held = self.scheduler.machines[HERE], self.scheduler.held
        (queue,) = machine.queues()
        assert machine.take(queue, len(SENT), START_MS) is not None
        machine.guard(dict.fromkeys(SENT, LEASE_ENDS_MS), START_MS, CarryReason.GUARD)
        self.scheduler.deliveries.carried(machine, SENT)
        held.settle_soon(machine)
        await asyncio.wait_for(held.durable(machine, machine.last_lsn), 5)
        await self.scheduler.step(START_MS)
        self.firing.leased({delivery_id_of(row.digest, row.version): EXTENDED_MS for row in SENT})
        self.scheduler.hand_over.keep()
        await self.member.leaving()

    async def waiting_until(self) -> set[int]:
        """By the last word on each row."""
        records = await self.store.settled(HERE)
        latest = {carry.source.digest: carry for record in records for carry in record.carries}
        return {carry.lease_until_ms for carry in latest.values()}


@pytest.fixture
async def stop() -> Stop:
    stop = Stop()
    await stop.begin()
    return stop


async def test_nothing_is_given_away_before_what_waits_for_a_lease_waits_until_its_new_end(stop: Stop) -> None:
    """All is placed elsewhere as soon as the others are told. One look-up is for all of them."""
    leaving = asyncio.create_task(stop.scheduler.leave(START_MS))
    await asyncio.sleep(0)
    await stop.scheduler.reconcile(START_MS)
    assert stop.scheduler.machines[HERE].phase is Phase.HOT
    stop.store.answers.set()
    await asyncio.wait_for(leaving, 10)
    assert HERE not in stop.scheduler.machines
    assert (stop.store.asked[0], await stop.waiting_until()) == (len(SENT), {EXTENDED_MS})


@pytest.mark.parametrize("seconds", [0, 5], ids=["still known here", "long ago"])
async def test_what_another_holder_has_carried_on_meanwhile_is_prolonged_where_it_waits_now(
    stop: Stop, seconds: int
) -> None:
    """Also when the mark has passed the place that it was carried from, of which nothing is in memory any more."""
    machine, held = stop.scheduler.machines[HERE], stop.scheduler.held
    (queue,) = machine.queues()
    assert machine.take(queue, len(SENT), LEASE_ENDS_MS) is not None
    then_ms = LEASE_ENDS_MS + 20_000
    open_rows = dict.fromkeys(machine.open_keys(), then_ms)
    machine.guard(open_rows, LEASE_ENDS_MS, CarryReason.GUARD, was_sent=False)
    held.settle_soon(machine)
    await asyncio.wait_for(held.durable(machine, machine.last_lsn), 5)
    stop.store.answers.set()
    for second in range(seconds):
        held.tick(LEASE_ENDS_MS + 1_000 * second)
        await held.until_idle()
    assert machine.control is not None
    assert (machine.control.verified_ms > LEASE_ENDS_MS) == bool(seconds)
    assert await stop.waiting_until() == {then_ms}
    stop.firing.leased({delivery_id_of(row.digest, row.version): then_ms + 20_000 for row in SENT})
    await asyncio.wait_for(stop.scheduler.leave(LEASE_ENDS_MS + 1_000 * seconds), 10)
    assert await stop.waiting_until() == {then_ms + 20_000}


async def test_a_store_that_does_not_tell_which_rows_wait_keeps_nothing_from_being_handed_over(
    stop: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_over, "PROLONG_S", 0.01)
    await asyncio.wait_for(stop.scheduler.leave(START_MS), 10)
    assert HERE not in stop.scheduler.machines
    assert await stop.waiting_until() == {LEASE_ENDS_MS}


async def test_who_gives_a_partition_to_one_that_has_come_takes_along_what_it_alone_was_told(stop: Stop) -> None:
    """In a rolling restart each partition goes there and back within seconds: who carried the rows there is gone."""
    stop.store.answers.set()
    stop.firing.leased(dict.fromkeys((delivery_id_of(row.digest, row.version) for row in SENT), LEASE_ENDS_MS))
    await asyncio.wait_for(stop.scheduler.leave(START_MS), 10)
    between, time = Between("between"), trusted_time()
    scheduler = Scheduler(
        stop.store,
        time,
        HoldingSettings("between", traits=MemoryStore.traits),
        InstanceMachine(90_000),
        Memory(1 << 30),
        86_400_000,
        between,
    )
    firing = SchedulerFiring(scheduler, time, stop.store, b"secret")
    scheduler.hold(HERE)
    await scheduler.step(START_MS)
    assert await stop.waiting_until() == {LEASE_ENDS_MS}
    firing.leased({delivery_id_of(row.digest, row.version): EXTENDED_MS for row in SENT})
    between.gives = True
    await scheduler.step(START_MS)
    assert HERE not in scheduler.machines
    assert await stop.waiting_until() == {EXTENDED_MS}
