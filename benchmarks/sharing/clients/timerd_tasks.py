"""timerd: a task for each job, with its customer as limit key or without. No other setting is touched."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from datetime import UTC, datetime

from benchmarks.sharing.clients.play import Play, played
from timerd.client import Client, Item
from timerd.worker import Delivery, Worker

LOOK_EVERY_S = 0.05


async def _play(play: Play, *, keyed: bool) -> None:
    worker = Worker(play.target)

    @worker.on("jobs", concurrency=play.slots)
    async def handle(delivery: Delivery) -> None:
        await asyncio.sleep(play.start(int(delivery.payload)))

    async with Client(play.target) as client:
        for customer in {job[0] for job in play.jobs}:
            items = [
                Item(f"{place}", at=datetime.fromtimestamp(play.begin_s + due_s, UTC))
                for place, (each, due_s, _) in enumerate(play.jobs)
                if each == customer
            ]
            await client.schedule_many("jobs", items, limit_key=customer if keyed else "")
    working = asyncio.create_task(worker.run())
    while not play.is_over:  # noqa: ASYNC110 - it is over by the clock, too
        await asyncio.sleep(LOOK_EVERY_S)
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


if __name__ == "__main__":
    played(lambda play: asyncio.run(_play(play, keyed="keyed" in sys.argv)))
