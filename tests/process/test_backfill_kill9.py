"""A backfill over kill -9 of its server: each instant of its span has one task, by what its worker has logged."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.process.children import Server
from tests.process.waiting import eventually
from timerd.client import BackfillState, Client
from timerd.worker import Delivery, OccurrenceReason, Worker

pytestmark = pytest.mark.process
KILLS = 3
INSTANTS = 1_440
MINUTE = timedelta(minutes=1)


async def test_each_instant_of_a_span_has_one_task_though_the_server_is_killed(tmp_path: Path) -> None:
    server = Server(tmp_path)
    tasks: defaultdict[datetime, set[str]] = defaultdict(set)
    occurrences: defaultdict[datetime, set[str]] = defaultdict(set)
    worker = Worker(server.address)

    @worker.on("days")
    async def handle(delivery: Delivery) -> None:
        assert delivery.occurrence is not None
        if delivery.occurrence.reason is OccurrenceReason.BACKFILL:
            tasks[delivery.occurrence.instant].add(delivery.task_id)
            occurrences[delivery.occurrence.instant].add(delivery.occurrence.id)

    server.start()
    running = asyncio.create_task(worker.run())
    end = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start = end - timedelta(days=1)
    try:
        async with Client(server.address) as client:
            await client.schedules.create("minutely", queue="days", cron="* * * * *")
            await client.schedules.backfill("minutely", start=start, end=end, rate=200, backfill_id="yesterday")

            async def is_done() -> bool:
                return (await client.schedules.get_backfill("minutely", "yesterday")).state is BackfillState.DONE

            for kill in range(KILLS):
                # In the midst of it, wherever that is.
                await eventually(partial(came, tasks, (kill + 1) * INSTANTS // 5), "some tasks of the backfill")
                server.kill()
                await asyncio.to_thread(server.start)
            await eventually(is_done, "the end of the backfill")
            await eventually(partial(came, tasks, INSTANTS), "all tasks of the backfill")
            seen = await client.schedules.get_backfill("minutely", "yesterday")
    finally:
        await worker.stop()
        await running
        server.kill()
    assert (seen.created, seen.total) == (INSTANTS, INSTANTS)
    assert sorted(tasks) == [start + n * MINUTE for n in range(INSTANTS)]
    assert [instant for instant, ids in tasks.items() if len(ids) > 1] == []
    assert len({each for ids in occurrences.values() for each in ids}) == INSTANTS


async def came(tasks: dict[datetime, set[str]], count: int) -> bool:
    return len(tasks) >= count
