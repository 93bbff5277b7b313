"""A pause over kill -9 of its server: nothing starts after it was answered, and all of it comes when it is over."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.process.children import Server
from tests.process.waiting import eventually
from timerd.client import Client, QueueMode
from timerd.worker import Delivery, Worker

pytestmark = pytest.mark.process
TASKS = 200


async def test_nothing_starts_after_paused_was_answered_though_the_server_is_killed(tmp_path: Path) -> None:
    server = Server(tmp_path)
    came: list[bytes] = []
    others: list[bytes] = []
    worker = Worker(server.address)

    @worker.on("mails")
    async def handle(delivery: Delivery) -> None:
        came.append(delivery.payload)

    @worker.on("others")
    async def handle_others(delivery: Delivery) -> None:
        others.append(delivery.payload)

    server.start()
    running = asyncio.create_task(worker.run())
    try:
        async with Client(server.address) as client:
            await client.schedule_many("mails", [(b"%d" % n, 1 + n / 100) for n in range(TASKS)])
            await eventually(partial(at_least, came, 10), "some tasks before the pause")
            assert (await client.queues.pause("mails")).mode is QueueMode.PAUSED
            # What was sent before the answer may still be on its way to the handler.
            await client.schedule("others", b"sent behind them", delay=0)
            await eventually(partial(at_least, others, 1), "a task of another queue")
            before = list(came)
            for kill in range(2):
                server.kill()
                await asyncio.to_thread(server.start)
                await client.schedule("others", b"after kill %d" % kill, delay=0)
                await eventually(partial(at_least, others, kill + 2), "another queue goes on")
            assert came == before
            assert len(before) < TASKS
            await client.queues.resume("mails")
            await eventually(partial(at_least, came, TASKS), "the rest")
    finally:
        await worker.stop()
        await running
        server.kill()
    assert {int(each) for each in came} == set(range(TASKS))


async def at_least(came: list[bytes], count: int) -> bool:
    return len(set(came)) >= count
