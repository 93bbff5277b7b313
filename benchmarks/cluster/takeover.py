"""Take-over: of three instances one is killed with kill -9, again and again, while 50 tasks are due each second.

A sample is a partition that the dead instance held: the time from the kill until the next holder's first delivery from
it. The lease is the default of ten seconds, so less than that cannot be, and more than five seconds beyond it must not.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.bench import SMALL, none_lost
from benchmarks.figures import BenchmarkFailed, Figure, at_most
from benchmarks.stats import percentile
from timerd.client import Client
from timerd.worker import Delivery, Worker

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.cluster.stage import Stage
    from benchmarks.processes import Server
    from timerd.adapters.cassandra.settings import CassandraSettings

TITLE = "Take-over of a dead instance's partitions"
KILLS = 10
SHARDS, EVERY_S, LEAD_S = 12, 0.02, 2.0
QUEUE = "takeover"
TTL_S, SMALL_TTL_S = 10.0, 2.0
# Beyond the lease, before a kill counts as one that nobody took over after.
GRACE_S = 20.0
# The one that is back has its share again.
SETTLED_S = 4.0
PATIENCE_S = 60.0


@dataclass
class Notes:
    """`first_s`: (partition, token) -> when its first delivery came."""

    first_s: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    numbers: set[bytes] = field(default_factory=set)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, delivery: Delivery) -> None:
        self.numbers.add(delivery.payload)
        self.came.set()
        self.first_s[delivery.fencing_scope].setdefault(delivery.fencing_token, time.monotonic())

    def tokens(self) -> dict[str, int]:
        return {scope: max(seen) for scope, seen in self.first_s.items()}

    def successors_s(self, before: dict[str, int], killed_s: float) -> dict[str, float]:
        """Of each partition that has another holder since: after how long."""
        newer = {
            scope: [at_s for token, at_s in self.first_s[scope].items() if token > known and at_s > killed_s]
            for scope, known in before.items()
        }
        return {scope: min(found) - killed_s for scope, found in newer.items() if found}


@dataclass
class Trio:
    """Its last instance is never killed: the caller and the worker are with it."""

    bench: Bench
    stage: Stage
    settings: CassandraSettings
    options: tuple[str, ...]
    servers: dict[str, Server] = field(default_factory=dict)

    async def start(self, name: str) -> None:
        self.servers[name] = await self.stage.instance(self.bench, self.settings, name, *self.options)


async def run(bench: Bench, stage: Stage) -> list[Figure]:
    ttl_s = TTL_S if bench.scale >= SMALL else SMALL_TTL_S
    lease = ("--set", f"lease_ttl={ttl_s:g}s", "--set", f"heartbeat={ttl_s / 5:g}s")
    async with stage.keyspace() as settings:
        trio = Trio(bench, stage, settings, ("--shards", str(SHARDS), *lease))
        for name in ("one", "two", "three"):
            await trio.start(name)
        samples = await _killed(trio, max(2, round(KILLS * bench.scale)), ttl_s)
        await bench.stack.aclose()
    samples.sort()
    return [
        Figure("p50", percentile(samples, 0.5), "s", headline=True),
        Figure("p99", percentile(samples, 0.99), "s", at_most(ttl_s + 5), headline=True),
        Figure("longest", samples[-1], "s"),
        Figure("partitions taken over", len(samples), "partitions"),
    ]


async def _killed(trio: Trio, kills: int, ttl_s: float) -> list[float]:
    notes, address = Notes(), trio.servers["three"].address
    worker = Worker(address)

    @worker.on(QUEUE, concurrency=500)
    async def take(delivery: Delivery) -> None:
        notes.take(delivery)

    running = asyncio.create_task(worker.run())
    samples: list[float] = []
    try:
        async with Client(address) as client:
            stop = asyncio.Event()
            calling = asyncio.create_task(_called(client, stop))
            for number in range(kills):
                await asyncio.sleep(LEAD_S + SETTLED_S)
                samples += await _one_kill(trio, ("one", "two")[number % 2], notes, ttl_s)
            stop.set()
            await _all_came(notes, await calling)
    finally:
        await worker.stop()
        running.cancel()
        await asyncio.wait([running])
    if not samples:
        raise BenchmarkFailed("No partition had another holder after a kill: the dead instances held nothing.")
    return samples


async def _one_kill(trio: Trio, name: str, notes: Notes, ttl_s: float) -> list[float]:
    before = notes.tokens()
    killed_s = time.monotonic()
    await trio.servers[name].kill()
    await asyncio.sleep(ttl_s + GRACE_S if trio.bench.scale >= SMALL else 3 * ttl_s)
    found = notes.successors_s(before, killed_s)
    await trio.start(name)
    return list(found.values())


async def _called(client: Client, stop: asyncio.Event) -> int:
    """How many were stored."""
    number = 0
    while not stop.is_set():
        await client.schedule(QUEUE, b"%d" % number, delay=LEAD_S)
        number += 1
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), EVERY_S)
    return number


async def _all_came(notes: Notes, stored: int) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while len(notes.numbers) < stored:
                notes.came.clear()
                await notes.came.wait()
    none_lost("delivered", stored, len(notes.numbers))
