"""Schedules of every second, once each of their ticks writes as many instants as it may.

2,000 schedules are due once a second each, somewhere in it (a jitter of a second), to a worker with a handler per task
in the process that measures. The first minutes are left out: there ticks are many, for their windows still grow
(planning.py). Lateness is held against the plain 2,000 a second.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.bench import PATIENCE_S, SECOND_MS, Bench
from benchmarks.figures import BenchmarkFailed, Figure, at_most
from benchmarks.processes import Server
from benchmarks.stats import percentile
from timerd.client import Client, NewSchedule
from timerd.worker import Delivery, Worker

TITLE = "Schedules of every second, after their first minutes"
LONG = True
SCHEDULES = 2_000
# From here on windows have their full length: three minutes.
GROWN_S = 300.0
SECONDS = 180.0
LATE_MS = 1.5
JITTER_S = 1


@dataclass
class Came:
    """What was due from `from_ms` until before `until_ms`, as it came."""

    from_ms: int
    until_ms: int
    late_ms: list[float] = field(default_factory=list)
    instants: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def expected(self, count: int) -> int:
        """Of so many schedules an instant a second each."""
        return count * (self.until_ms - self.from_ms) // SECOND_MS

    def add(self, delivery: Delivery, at_ms: float) -> None:
        occurrence = delivery.occurrence
        if occurrence is not None and self.from_ms <= occurrence.instant.timestamp() * SECOND_MS < self.until_ms:
            self.late_ms.append(at_ms - delivery.fire_at_ms)
            self.instants[occurrence.schedule_id].append(occurrence.instant.timestamp())


async def run(bench: Bench) -> list[Figure]:
    server, count = await bench.server(), bench.count(SCHEDULES, least=20)
    from_ms = SECOND_MS * round(time.time() + bench.seconds(GROWN_S, least=3))
    came = Came(from_ms, from_ms + SECOND_MS * round(bench.seconds(SECONDS, least=3)))
    worker = Worker(server.address)

    @worker.on("often", concurrency=count)
    async def note(delivery: Delivery) -> None:
        came.add(delivery, time.time() * SECOND_MS)

    working = asyncio.create_task(worker.run())
    async with Client(server.address, timeout=60) as client:
        await client.schedules.create_many(_made(count))
        cost = await _cost(server, came, count)
    await worker.stop()
    await working
    await bench.stack.aclose()
    return [*_late(came), *_wrong(came, count), cost]


def _made(count: int) -> Iterator[NewSchedule]:
    return (NewSchedule(f"s{n}", queue="often", every=1, jitter=JITTER_S, catch_up="all") for n in range(count))


async def _cost(server: Server, came: Came, count: int) -> Figure:
    """Until the last instant that counts. What comes later than that has its time."""
    await asyncio.sleep(came.from_ms / SECOND_MS - time.time())
    cpu_s = server.cpu_s()
    await asyncio.sleep(came.until_ms / SECOND_MS - time.time())
    cpu_s, before = server.cpu_s() - cpu_s, len(came.late_ms)
    end_s = time.monotonic() + PATIENCE_S
    while len(came.late_ms) < came.expected(count):
        if time.monotonic() > end_s:
            break
        await asyncio.sleep(JITTER_S)
    if not came.late_ms:
        raise BenchmarkFailed("Nothing came that was due then.")
    return Figure("server's processor time for one task, ticks included", 1e6 * cpu_s / max(1, before), "us/task")


def _late(came: Came) -> Iterator[Figure]:
    late_ms = sorted(came.late_ms)
    yield Figure("p50", percentile(late_ms, 0.5), "ms")
    yield Figure("p99", percentile(late_ms, 0.99), "ms", at_most(LATE_MS), headline=True)
    yield Figure("p99.9", percentile(late_ms, 0.999), "ms")
    yield Figure("max", late_ms[-1], "ms")
    yield Figure("early", float(sum(late < 0 for late in late_ms)), "tasks", at_most(0))


def _wrong(came: Came, count: int) -> Iterator[Figure]:
    distinct = sum(len(set(instants)) for instants in came.instants.values())
    yield Figure("instants left out", float(came.expected(count) - distinct), "tasks", at_most(0))
    yield Figure("instants doubled", float(len(came.late_ms) - distinct), "tasks", at_most(0))
