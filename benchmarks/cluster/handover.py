"""Hand-over: of two instances one is stopped with SIGTERM and started again, three times, while 200 tasks are due each
second; once where the shards that it gives away have nothing else, and once where each of them is full.

A full shard is loaded page by page, the earliest first, and what is due is sent when what is due soon has been read.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.bench import PATIENCE_S, SECOND_MS, SMALL, Span, none_lost, now_ms
from benchmarks.figures import Figure, at_most
from benchmarks.stats import percentile
from timerd.client import Client
from timerd.model.partition import BUCKET_MS, bucket_of
from timerd.worker import Delivery, Worker

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.cluster.stage import Stage
    from benchmarks.processes import Server
    from timerd.adapters.cassandra.settings import CassandraSettings

TITLE = "Hand-over of an instance that is stopped"
# Shards of more would be divided.
FULL = 40_000
SHARDS, STOPS = 4, 3
EVERY_S, LEAD_S = 0.005, 2.0
# Before a stop, and after it and after the start that follows.
QUIET_S, WATCHED_S = 3.0, 6.0
QUEUE, LATER = "handover", "later"
# What is stored for the end of a bucket must not be due before the last stop has been watched.
ROOM_MS, SMALL_ROOM_MS, LATER_MS = 150 * SECOND_MS, 20 * SECOND_MS, 5 * SECOND_MS


@dataclass
class Notes:
    """`late_ms`: due in ms -> how much later its handler was entered."""

    late_ms: list[tuple[float, float]] = field(default_factory=list)
    numbers: set[bytes] = field(default_factory=set)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, delivery: Delivery) -> None:
        due_ms = delivery.fire_time.timestamp() * 1e3
        self.late_ms.append((due_ms, time.time() * 1e3 - due_ms))
        self.numbers.add(delivery.payload)
        self.came.set()

    def watched_ms(self, since_ms: float, until_ms: float) -> list[float]:
        return [late for due_ms, late in self.late_ms if since_ms <= due_ms < until_ms]


@dataclass
class Pair:
    """Its second instance stays: the caller and the worker are with it."""

    bench: Bench
    stage: Stage
    settings: CassandraSettings
    servers: dict[str, Server] = field(default_factory=dict)

    async def start(self, name: str) -> None:
        options = ("--shards", str(SHARDS))
        self.servers[name] = await self.stage.instance(self.bench, self.settings, name, *options)


async def run(bench: Bench, stage: Stage) -> list[Figure]:
    alone = await _one(bench, stage, 0)
    full = await _one(bench, stage, bench.count(FULL))
    return [*_figures("with nothing else", alone), *_figures(f"with {bench.count(FULL):,} more", full)]


def _figures(shards: str, late_ms: list[float]) -> list[Figure]:
    late_ms.sort()
    return [
        Figure(f"lateness, shards {shards}, p50", percentile(late_ms, 0.5), "ms"),
        Figure(f"lateness, shards {shards}, p99", percentile(late_ms, 0.99), "ms", at_most(1_000), headline=True),
        Figure(f"lateness, shards {shards}, most", late_ms[-1], "ms"),
    ]


async def _one(bench: Bench, stage: Stage, in_each: int) -> list[float]:
    """Of what was due while an instance stopped or started."""
    async with stage.keyspace() as settings:
        pair = Pair(bench, stage, settings)
        for name in ("one", "two"):
            await pair.start(name)
        ends_ms = await _room(bench)
        if in_each:
            loader = await bench.loader(pair.servers["two"])
            await loader.schedule(LATER, in_each * SHARDS, Span(ends_ms - LATER_MS, LATER_MS - SECOND_MS))
        found = await _watched(pair)
        await bench.stack.aclose()
    return found


async def _room(bench: Bench) -> int:
    """The end of a bucket that has time enough for a whole run."""
    room_ms = ROOM_MS if bench.scale >= SMALL else SMALL_ROOM_MS
    ends_ms = bucket_of(now_ms() + room_ms) + BUCKET_MS
    await asyncio.sleep(max(0, ends_ms - BUCKET_MS - now_ms()) / SECOND_MS)
    return ends_ms


async def _watched(pair: Pair) -> list[float]:
    notes, address = Notes(), pair.servers["two"].address
    worker = Worker(address)

    @worker.on(QUEUE, concurrency=500)
    async def take(delivery: Delivery) -> None:
        notes.take(delivery)

    running = asyncio.create_task(worker.run())
    found: list[float] = []
    try:
        async with Client(address) as client:
            stop = asyncio.Event()
            calling = asyncio.create_task(_called(client, stop))
            for _ in range(max(1, round(STOPS * pair.bench.scale))):
                found += await _one_stop(pair, notes)
            stop.set()
            stored = await calling
            await _all_came(notes, stored)
            none_lost("delivered", stored, len(notes.numbers))
    finally:
        await worker.stop()
        running.cancel()
        await asyncio.wait([running])
    return found


async def _one_stop(pair: Pair, notes: Notes) -> list[float]:
    watched_s = pair.bench.seconds(WATCHED_S)
    await asyncio.sleep(pair.bench.seconds(QUIET_S))
    began_ms = now_ms()
    await pair.servers["one"].stop()
    await asyncio.sleep(watched_s)
    await pair.start("one")
    await asyncio.sleep(LEAD_S + watched_s)
    return notes.watched_ms(began_ms, now_ms() - SECOND_MS)


async def _called(client: Client, stop: asyncio.Event) -> int:
    """How many were stored."""
    calls: list[asyncio.Task[object]] = []
    while not stop.is_set():
        calls.append(asyncio.create_task(client.schedule(QUEUE, b"%d" % len(calls), delay=LEAD_S)))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), EVERY_S)
    await asyncio.gather(*calls)
    return len(calls)


async def _all_came(notes: Notes, stored: int) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while len(notes.numbers) < stored:
                notes.came.clear()
                await notes.came.wait()
