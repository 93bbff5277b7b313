"""A queue with a rate of 1,000/s on three instances with a worker each, which all have more due than that for a while.

Counted is when handlers are entered: what a worker's loop holds up comes together then, so a second has a little more
here than the instances have sent in it.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from benchmarks.bench import SECOND_MS, now_ms
from benchmarks.figures import Figure, at_least, at_most
from timerd.client import Client
from timerd.worker import Delivery, Worker

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.cluster.stage import Stage
    from benchmarks.processes import Server

TITLE = "A rate of 1,000/s on three instances"
RATE, BURST = 1_000, 100
SECONDS = 30
NAMES = ("one", "two", "three")
QUEUE = "charges"
# What each instance gets at a time: a third of a tenth of a second.
SLICE = 34
STORED_PER_S = 3_000
PATIENCE_S = 60


class Starts:
    """When handlers were entered, by the clock of this process."""

    def __init__(self, count: int) -> None:
        self.at_s = array("d")
        self.all = asyncio.Event()
        self._count = count

    async def enter(self, deliveries: list[Delivery]) -> None:
        self.at_s.extend([time.monotonic()] * len(deliveries))
        if len(self.at_s) >= self._count:
            self.all.set()

    def most_in_a_second(self) -> int:
        most = first = 0
        for last, at_s in enumerate(self.at_s):
            while self.at_s[first] < at_s - 1:
                first += 1
            most = max(most, last - first + 1)
        return most

    def mean(self) -> float:
        """In a second, without the burst."""
        return (len(self.at_s) - BURST) / (self.at_s[-1] - self.at_s[0])


async def run(bench: Bench, stage: Stage) -> list[Figure]:
    count = bench.count(SECONDS * RATE)
    async with stage.keyspace() as settings:
        servers = [await stage.instance(bench, settings, name) for name in NAMES]
        starts = Starts(count)
        async with Client(servers[0].address) as client, _working(servers, starts):
            await client.queues.put(QUEUE, rate=f"{RATE}/s", burst=BURST)
            await _scheduled(client, count, bench.slack)
            await asyncio.wait_for(starts.all.wait(), bench.slack * PATIENCE_S + count / RATE)
        await bench.stack.aclose()
    return [
        Figure("mean", starts.mean(), "starts/s", at_least(0.98 * RATE), headline=True),
        Figure("most in a second", starts.most_in_a_second(), "starts", at_most(RATE + BURST + SLICE)),
        Figure("twice", len(starts.at_s) - count, "tasks", at_most(0)),
    ]


@asynccontextmanager
async def _working(servers: Sequence[Server], starts: Starts) -> AsyncIterator[None]:
    workers = [Worker(server.address) for server in servers]
    for worker in workers:
        worker.on_batch(QUEUE)(starts.enter)
    running = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        yield
    finally:
        for worker in workers:
            await worker.stop()
        await asyncio.wait(running)


async def _scheduled(client: Client, count: int, slack: int) -> None:
    """At one instant, which its bucket knows of: so it has shards for all instances."""
    due_ms = now_ms() + slack * (5 * SECOND_MS + count * SECOND_MS // STORED_PER_S)
    await client.announce(datetime.fromtimestamp(due_ms / 1e3, UTC), count, payload_bytes=10)
    await client.schedule_columns(QUEUE, [b"%d" % n for n in range(count)], [due_ms] * count)
