"""Ordering keys over kill -9 of their server: in order, one at a time, and all of them."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.process.children import Server
from tests.process.key_judge import Judge
from tests.process.waiting import eventually
from timerd.client import Client, Item, RetryPolicy
from timerd.worker import Worker

pytestmark = pytest.mark.process
KEYS, TASKS = 8, 25
QUICK = RetryPolicy(initial_backoff=0.05, multiplier=1)


async def test_order_holds_though_the_server_is_killed_at_any_moment(tmp_path: Path) -> None:
    server, judge = Server(tmp_path), Judge()
    worker = Worker(server.address)
    worker.on("docs", concurrency=32)(judge)
    server.start()
    running = asyncio.create_task(worker.run())
    try:
        async with Client(server.address) as client:
            items = [
                Item(b"%d.%d" % (key, n), delay=1, ordering_key=f"doc-{key}")
                for n in range(TASKS)
                for key in range(KEYS)
            ]
            await client.schedule_many("docs", items, retry=QUICK)
            for enough in (20, 80, 140):
                await eventually(partial(at_least, judge.done, enough), f"{enough} tasks are done")
                server.kill()
                await asyncio.to_thread(server.start)
            await eventually(partial(at_least, judge.done, KEYS * TASKS), "all are done")
            assert not judge.wrong
    finally:
        await worker.stop()
        await running
        server.kill()


async def at_least(found: set[bytes], most: int) -> bool:
    return len(found) >= most
