"""Eight slots of one worker that three queues share, on three instances which all have tasks of these queues due.

*From a slot to its next task* is the time from the end of a handler until the next handler begins: the worker says that
the slot is free, its home gives it to the best task or lends it to another instance that has a better one, and the task
comes. All slots are always wanted, so the begin that follows an end is that of its slot.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from benchmarks.bench import SECOND_MS, now_ms
from benchmarks.figures import Figure, at_most
from benchmarks.stats import percentile
from timerd.client import Client
from timerd.worker import Delivery, Worker

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.cluster.stage import Stage

TITLE = "Slots of a pool on three instances"
NAMES = ("one", "two", "three")
QUEUES = ("pdf", "excel", "mail")
SLOTS, HANDLER_MS = 8, 20
TASKS = 4_000
STORED_PER_S = 3_000
PATIENCE_S = 60


class Handled:
    """When handlers began and ended, and how many were at work at a time."""

    def __init__(self, count: int) -> None:
        self.begun_s: list[float] = []
        self.ended_s: list[float] = []
        self.most = self._now = 0
        self.all = asyncio.Event()
        self._count = count

    async def handle(self, _: Delivery) -> None:
        self.begun_s.append(time.monotonic())
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(HANDLER_MS / 1e3)
        self._now -= 1
        self.ended_s.append(time.monotonic())
        if len(self.ended_s) >= self._count:
            self.all.set()

    def gaps_ms(self) -> list[float]:
        """In order of their length."""
        each = zip(self.begun_s[SLOTS:], self.ended_s, strict=False)
        return sorted((begun_s - ended_s) * 1e3 for begun_s, ended_s in each)


async def run(bench: Bench, stage: Stage) -> list[Figure]:
    count = bench.count(TASKS)
    handled = Handled(count)
    async with stage.keyspace() as settings:
        servers = [await stage.instance(bench, settings, name) for name in NAMES]
        async with Client(servers[0].address) as client, _working(servers[0].address, handled):
            await _scheduled(client, count, bench.slack)
            await asyncio.wait_for(handled.all.wait(), bench.slack * (PATIENCE_S + count * HANDLER_MS / SLOTS / 1e3))
        await bench.stack.aclose()
    gaps_ms = handled.gaps_ms()
    return [
        Figure("from a slot to its next task, p50", percentile(gaps_ms, 0.5), "ms"),
        Figure("from a slot to its next task, p99", percentile(gaps_ms, 0.99), "ms", at_most(10), headline=True),
        Figure("more at work than slots", max(0, handled.most - SLOTS), "tasks", at_most(0)),
        Figure("twice", len(handled.ended_s) - count, "tasks", at_most(0)),
    ]


@asynccontextmanager
async def _working(address: str, handled: Handled) -> AsyncIterator[None]:
    worker = Worker(address)
    pool = worker.pool("all", slots=SLOTS)
    for queue in QUEUES:
        pool.on(queue)(handled.handle)
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        await worker.stop()
        await asyncio.wait([running])


async def _scheduled(client: Client, count: int, slack: int) -> None:
    """At one instant, which its bucket knows of: so it has shards for all instances."""
    due_ms = now_ms() + slack * (5 * SECOND_MS + count * SECOND_MS // STORED_PER_S)
    await client.announce(datetime.fromtimestamp(due_ms / 1e3, UTC), 100 * count, payload_bytes=10)
    for first, queue in enumerate(QUEUES):
        own = range(first, count, len(QUEUES))
        await client.schedule_columns(queue, [b"%d" % n for n in own], [due_ms] * len(own))
