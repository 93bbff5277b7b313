"""The loop that holds partitions, while the world changes around it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from timerd.adapters.memory import MemoryStore
from timerd.core.holding import Settings
from timerd.core.instance_machine import InstanceMachine
from timerd.core.lease_trust import LeaseTrust
from timerd.core.memory import Memory
from timerd.model.storage import BucketEntry
from timerd.services.engine_time import EngineTime
from timerd.services.scheduler import Scheduler
from timerd.testing import SimClock


class SlowStore(MemoryStore):
    """Takes a turn of the loop for each answer."""

    async def catalogue(self, scope: int | None, lo_ms: int, hi_ms: int) -> Sequence[BucketEntry]:
        await asyncio.sleep(0)
        return await super().catalogue(scope, lo_ms, hi_ms)


async def test_queues_come_and_go_while_their_backlogs_are_looked_for() -> None:
    """A worker that joins or leaves in that moment does not end the loop that fires everything."""
    time = EngineTime(SimClock(1_800_000_000_000), LeaseTrust.always())
    scheduler = Scheduler(SlowStore(), time, Settings("me"), InstanceMachine(90_000), Memory(1 << 30), 86_400_000)
    scheduler.open_backlog(1)
    scheduler.open_backlog(2)
    looking = asyncio.create_task(scheduler.reconcile(1_800_000_000_000))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    scheduler.open_backlog(3)
    scheduler.scopes.pop(1)
    await looking
    assert scheduler.scopes == {2: 1, 3: 1}
