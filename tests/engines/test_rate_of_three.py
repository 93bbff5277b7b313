"""Three instances as processes on a real Cassandra: together they keep to one rate, also when the one that keeps it is
killed."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.engines.instances import Instance
from tests.engines.keyspace import Keyspace
from timerd.client import Client
from timerd.worker import Delivery, Worker

pytestmark = [pytest.mark.engines, pytest.mark.process]
RATE, BURST = 50, 5
TASKS = 500
PATIENCE_S = 120


async def test_a_rate_holds_over_all_and_one_may_be_killed(instances: list[Instance], keyspace: Keyspace) -> None:
    """A worker that is held up gets late what was sent in time, so the whole is judged and no single second: it takes
    as long as the rate says at least, and all of it comes."""
    begun_s, done, some, complete = list[float](), set[bytes](), asyncio.Event(), asyncio.Event()
    workers = [Worker(instance.address) for instance in instances[:2]]
    for worker in workers:

        @worker.on("charges", concurrency=50)
        async def charge(delivery: Delivery) -> None:
            begun_s.append(time.monotonic())
            done.add(bytes(delivery.payload))
            if len(done) == TASKS // 5:
                some.set()
            if len(done) == TASKS:
                complete.set()

    async with Client(instances[0].address) as client:
        await client.queues.put("charges", rate=f"{RATE}/s", burst=BURST)
        due_ms = (int(time.time()) + 20) * 1_000
        await client.schedule_columns("charges", [b"%d" % n for n in range(TASKS)], [due_ms] * TASKS)
        running = [asyncio.create_task(worker.run()) for worker in workers]
        try:
            await asyncio.wait_for(some.wait(), PATIENCE_S)
            await asyncio.to_thread(instances[2].kill)
            await asyncio.wait_for(complete.wait(), PATIENCE_S)
        finally:
            for worker in workers:
                await worker.stop()
            await asyncio.wait(running)
    # Held up only makes it longer, but for what the first of them waited.
    assert max(begun_s) - min(begun_s) >= (TASKS - BURST) / RATE - 2
