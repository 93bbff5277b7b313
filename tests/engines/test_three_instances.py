"""Three instances as processes on a real Cassandra: one address does for callers and workers, and one may be killed."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.engines.instances import Instance
from tests.engines.keyspace import Keyspace
from timerd.client import Client
from timerd.worker import Delivery, Worker

pytestmark = [pytest.mark.engines, pytest.mark.process]
TASKS = 150
PATIENCE_S = 90


async def test_nothing_is_lost_when_one_of_three_is_killed(instances: list[Instance], keyspace: Keyspace) -> None:
    arrived: Counter[bytes] = Counter()
    complete = asyncio.Event()
    worker = Worker(instances[1].address)

    @worker.on("mails")
    async def take(delivery: Delivery) -> None:
        arrived[bytes(delivery.payload)] += 1
        if len(arrived) == TASKS:
            complete.set()

    running = asyncio.create_task(worker.run())
    try:
        async with Client(instances[0].address) as client:
            for n in range(TASKS):
                await client.schedule("mails", b"%d" % n, delay=1 + n * 0.02)
        await asyncio.to_thread(instances[2].kill)
        await asyncio.wait_for(complete.wait(), PATIENCE_S)
    finally:
        await worker.stop()
        running.cancel()
        await asyncio.wait([running])
    shards = keyspace.run("SELECT DISTINCT scope, bucket_ms, shard FROM tasks")
    assert len(shards) > 1
    assert set(arrived) == {b"%d" % n for n in range(TASKS)}
