"""A whole server on Cassandra, by the real clock: what was scheduled arrives once, what was cancelled does not."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from datetime import timedelta

import pytest

from tests.engines.whole_server import node
from timerd.client import Client
from timerd.services.node import Node
from timerd.worker import Delivery, Worker

__all__ = ["node"]

pytestmark = pytest.mark.engines
TASKS = 200
PATIENCE_S = 60


async def test_what_was_scheduled_arrives_once_and_what_was_cancelled_does_not(node: Node) -> None:
    arrived: Counter[bytes] = Counter()
    complete = asyncio.Event()
    worker = Worker(node.address)

    @worker.on("mails")
    async def take(delivery: Delivery) -> None:
        arrived[bytes(delivery.payload)] += 1
        if len(arrived) == TASKS + 2:
            complete.set()

    running = asyncio.create_task(worker.run())
    async with Client(node.address) as client:
        for n in range(TASKS):
            await client.schedule("mails", b"%d" % n, delay=timedelta(milliseconds=200 + n * 3))
        gone = [await client.schedule("mails", b"gone", delay=timedelta(seconds=1.5)) for _ in range(5)]
        later = await client.schedule("mails", b"later", delay=timedelta(hours=1))
        for task in gone:
            await client.cancel(task.id)
        await client.reschedule(later.id, delay=timedelta(milliseconds=500))
        last = await client.schedule("mails", b"last", delay=timedelta(seconds=2))
        await asyncio.wait_for(complete.wait(), PATIENCE_S)
        assert last.id != later.id
    await worker.stop()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert arrived == Counter([*(b"%d" % n for n in range(TASKS)), b"later", b"last"])
