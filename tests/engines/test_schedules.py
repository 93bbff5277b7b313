"""Schedules on a real Cassandra: a whole server by the real clock, stopped, started again, changed on the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from datetime import datetime, timedelta

import pytest

from tests.engines.keyspace import Keyspace
from tests.engines.whole_server import started
from timerd.client import Client, NotFound, ScheduleState
from timerd.worker import Delivery, Worker

pytestmark = pytest.mark.engines
SECOND = timedelta(seconds=1)


async def test_each_instant_has_one_task_over_a_restart_and_none_after_a_delete(keyspace: Keyspace) -> None:
    tasks: defaultdict[datetime, set[str]] = defaultdict(set)

    async def take(delivery: Delivery) -> None:
        assert delivery.occurrence is not None
        tasks[delivery.occurrence.instant].add(delivery.task_id)

    for round_ in range(2):
        node = await started(keyspace)
        worker = Worker(node.address)
        worker.on("ticks")(take)
        running = asyncio.create_task(worker.run())
        async with Client(node.address) as client:
            if not round_:
                made = await client.schedules.create("often", queue="ticks", every=1, catch_up="all")
                assert made.state is ScheduleState.ACTIVE
            else:
                paused = await client.schedules.pause("often", note="enough")
                assert paused.state is ScheduleState.PAUSED
                seen = len(tasks)
                await asyncio.sleep(2)
                assert len(tasks) == seen
                assert [each.id async for each in client.schedules.list()] == ["often"]
                await client.schedules.delete("often")
                with pytest.raises(NotFound):
                    await client.schedules.get("often")
            await asyncio.sleep(0 if round_ else 5)
        await worker.stop()
        await running
        with contextlib.suppress(asyncio.CancelledError):
            await node.stop(drain_ms=1_000)
    first, last = min(tasks), max(tasks)
    assert sorted(tasks) == [first + n * SECOND for n in range((last - first) // SECOND + 1)]
    assert [instant for instant, ids in tasks.items() if len(ids) > 1] == []


async def test_two_tasks_are_never_open_at_once_over_a_restart(keyspace: Keyspace) -> None:
    """By BUFFER_ONE, with a handler that takes longer than the period."""
    running_now: set[str] = set()
    most, instants = 0, []

    async def take(delivery: Delivery) -> None:
        nonlocal most
        assert delivery.occurrence is not None
        instants.append(delivery.occurrence.instant)
        running_now.add(delivery.task_id)
        most = max(most, len(running_now))
        await asyncio.sleep(1.3)
        running_now.discard(delivery.task_id)

    for round_ in range(2):
        node = await started(keyspace)
        worker = Worker(node.address)
        worker.on("apart")(take)
        running = asyncio.create_task(worker.run())
        async with Client(node.address) as client:
            if not round_:
                await client.schedules.create("apart", queue="apart", every=1, overlap="buffer_one", catch_up="all")
            await asyncio.sleep(6)
            if round_:
                seen = await client.schedules.get("apart")
                await client.schedules.delete("apart")
        await worker.stop()
        await running
        with contextlib.suppress(asyncio.CancelledError):
            await node.stop(drain_ms=1_000)
    assert most == 1
    assert len(instants) >= 4
    assert instants == sorted({*instants})
    assert seen.skipped > 0
