"""Three instances as processes on a real Cassandra: the tasks of ordering keys start in order and one at a time, also
when an instance is killed that keeps some of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest

from tests.engines.instances import Instance
from tests.engines.keyspace import Keyspace
from tests.process.key_judge import Judge
from timerd.client import Client, Item, RetryPolicy
from timerd.worker import Delivery, Worker

pytestmark = [pytest.mark.engines, pytest.mark.process]
KEYS, TASKS = 24, 12
QUICK = RetryPolicy(initial_backoff=0.05, multiplier=1)
# From the first task that is due on, so long after the first call.
BEGINS, APART = timedelta(seconds=3), timedelta(milliseconds=100)
PATIENCE_S = 50


class Log(Judge):
    """Of all workers. `started`: by key, each task once, as they were started first."""

    def __init__(self) -> None:
        super().__init__()
        self.started: defaultdict[str, list[bytes]] = defaultdict(list)

    async def __call__(self, delivery: Delivery) -> None:
        started = self.started[delivery.ordering_key]
        if delivery.payload not in started:
            started.append(delivery.payload)
        await super().__call__(delivery)

    async def at_least(self, most: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.done) < most:  # noqa: ASYNC110 - handlers tell nobody
                await asyncio.sleep(0.02)


async def test_order_holds_over_all_and_one_may_be_killed(instances: list[Instance], keyspace: Keyspace) -> None:
    """The workers are with two of them. The third one keeps some of the keys: there are 16 key shards. One task of
    each key fails once, and each is taken in by another instance than the one before it."""
    log = Log()
    workers = [Worker(instance.address) for instance in instances[:2]]
    for worker in workers:
        worker.on("docs", concurrency=16)(log)
    async with Client(instances[0].address) as one, Client(instances[1].address) as other:
        begins = datetime.now(UTC) + BEGINS
        for n in range(TASKS):
            tasks = [Item(b"%d.%d" % (key, n), at=begins + n * APART, ordering_key=f"doc-{key}") for key in range(KEYS)]
            await (one, other)[n % 2].schedule_many("docs", tasks, retry=QUICK)
        running = [asyncio.create_task(worker.run()) for worker in workers]
        try:
            await log.at_least(KEYS * TASKS // 6)
            await asyncio.to_thread(instances[2].kill)
            await log.at_least(KEYS * TASKS)
        finally:
            for worker in workers:
                await worker.stop()
            await asyncio.wait(running)
    assert log.wrong == []
    assert log.started == {f"doc-{key}": [b"%d.%d" % (key, n) for n in range(TASKS)] for key in range(KEYS)}
