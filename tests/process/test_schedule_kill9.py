"""A schedule of every second over kill -9 of its server: each instant has one task, by what its worker has logged."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.process.children import Server
from tests.process.waiting import eventually
from timerd.client import Client
from timerd.worker import Delivery, Worker

pytestmark = pytest.mark.process
KILLS = 5
SECOND = timedelta(seconds=1)


async def more_come(instants: Collection[datetime], more: int = 2) -> None:
    goal = len({*instants}) + more

    async def they_have() -> bool:
        return len({*instants}) >= goal

    await eventually(they_have, f"{more} more instants come")


async def test_each_instant_has_one_task_though_the_server_is_killed(tmp_path: Path) -> None:
    server = Server(tmp_path)
    tasks: defaultdict[datetime, set[str]] = defaultdict(set)
    worker = Worker(server.address)

    @worker.on("ticks")
    async def handle(delivery: Delivery) -> None:
        assert delivery.occurrence is not None
        tasks[delivery.occurrence.instant].add(delivery.task_id)

    server.start()
    running = asyncio.create_task(worker.run())
    try:
        async with Client(server.address) as client:
            await client.schedules.create("often", queue="ticks", every=1, catch_up="all")
            for _ in range(KILLS):
                await more_come(tasks)
                server.kill()
                await asyncio.to_thread(server.start)
            await more_come(tasks)
            seen = await client.schedules.pause("often")
            # What must not come gets its chance.
            await asyncio.sleep(3)
        assert seen.missed == 0
    finally:
        await worker.stop()
        await running
        server.kill()
    first, last = min(tasks), max(tasks)
    assert sorted(tasks) == [first + n * SECOND for n in range((last - first) // SECOND + 1)]
    assert len(tasks) >= 2 * KILLS
    assert [instant for instant, ids in tasks.items() if len(ids) > 1] == []


async def test_two_tasks_are_never_open_at_once_though_the_server_is_killed(tmp_path: Path) -> None:
    """By BUFFER_ALL, in the midst of a handler."""
    server = Server(tmp_path)
    begun: list[datetime] = []
    running_now: set[str] = set()
    together: list[set[str]] = []
    worker = Worker(server.address)

    @worker.on("apart")
    async def handle(delivery: Delivery) -> None:
        assert delivery.occurrence is not None
        begun.append(delivery.occurrence.instant)
        running_now.add(delivery.task_id)
        if len(running_now) > 1:
            together.append(set(running_now))
        await asyncio.sleep(0.7)
        running_now.discard(delivery.task_id)

    server.start()
    running = asyncio.create_task(worker.run())
    try:
        async with Client(server.address) as client:
            await client.schedules.create("apart", queue="apart", every=1, catch_up="all", overlap="buffer_all")
            await more_come(begun)
            server.kill()
            await asyncio.to_thread(server.start)
            await more_come(begun)
            seen = await client.schedules.pause("apart")
    finally:
        await worker.stop()
        await running
        server.kill()
    assert together == []
    # Those that a kill has brought back come again at once, before the next one.
    assert begun == sorted(begun)
    first, last = min(begun), max(begun)
    assert sorted({*begun}) == [first + n * SECOND for n in range((last - first) // SECOND + 1)]
    assert seen.skipped == 0
