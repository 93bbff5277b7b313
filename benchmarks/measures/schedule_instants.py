"""Instants of schedules: how fast ticks are worked, a burst of schedules of one instant, and how exact those of every
second are.

20,000 schedules have one instant. The server is stopped until all of their ticks are overdue: the time from its start
until all tasks of the instant are there is that of the ticks. Then the instant comes, to one worker with a handler of
batches. After that 1,000 schedules of every second have 10 seconds, to a worker with a handler per task; and 200 whose
task before is always open when the next instant comes, under replace, for what is decided at one instant for all of
them. Five whose task never ends, under skip, are looked at from each instant on: how late is it said that it has none?
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from benchmarks.bench import PATIENCE_S, SECOND_MS, SMALL, Bench, Span, none_lost, now_ms
from benchmarks.figures import BenchmarkFailed, Figure, at_least, at_most
from benchmarks.stats import percentile
from timerd.client import Client, NewSchedule
from timerd.worker import Delivery, Worker

TITLE = "Instants of schedules"
LONG = True
OF_ONE_INSTANT = 20_000
EVERY_SECOND = 1_000
REPLACED = 200
SKIPPED = 5
SECONDS = 10
# Of the ticks of what was created just now: the lead, and an eighth of the time to the instant at most (planning.py).
LEAD_S = 120.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOOK_S = 0.2
# What it adds to what is found is held against the server.
BETWEEN_LOOKS_S = 0.005
SECOND = timedelta(seconds=1)


async def run(bench: Bench) -> list[Figure]:
    return [
        *await _one_instant(bench),
        *await _each_second(bench, "every second", EVERY_SECOND, hold_s=0.0),
        *await _each_second(bench, "decided at the instant", REPLACED, hold_s=1.5),
        *await _skipped(bench),
    ]


async def _one_instant(bench: Bench) -> list[Figure]:
    server = await bench.server()
    count = bench.count(OF_ONE_INSTANT)
    # Time to create them; then their ticks are to come, and the server is stopped. A small run waits for no lead.
    create_s, lead_s = 2 + count / 1_000, LEAD_S if bench.scale >= SMALL else 0
    instant_ms = (now_ms() // SECOND_MS + round(lead_s + 20 + 1.2 * create_s)) * SECOND_MS
    at = (EPOCH + timedelta(milliseconds=instant_ms)).isoformat()
    async with Client(server.address, timeout=60) as client:
        results = await client.schedules.create_many(_numbered(count, at=at))
        none_lost("created", count, sum(each.revision == 1 for each in results))
    await server.stop()
    await asyncio.sleep(max(0.0, instant_ms / 1e3 - LEAD_S - time.time()))
    began_s = time.perf_counter()
    again = await bench.again(server)
    loader = await bench.loader(again)
    span = Span(instant_ms, 1)
    while await loader.count("burst", span) < count:
        if time.time() * 1e3 > instant_ms:
            raise BenchmarkFailed(f"Not all of {count:,} tasks were there when their instant came.")
        await asyncio.sleep(LOOK_S)
    tick_us = again.cpu_s() / count * 1e6
    ticks_per_s, ahead_s = count / (time.perf_counter() - began_s), instant_ms / 1e3 - time.time()
    receiver = await bench.receiver(again, loader, "burst", batches=True, compact=True)
    await asyncio.sleep(max(0.0, instant_ms / 1e3 - time.time()))
    got = await receiver.collect(count, compact=True)
    await bench.stack.aclose()
    return [
        Figure("ticks, after a stop", ticks_per_s, "ticks/s", at_least(5_000), headline=True),
        Figure("server's processor time for one, its start included", tick_us, "us/tick"),
        Figure("all tasks of the instant are there before it", ahead_s, "s", at_least(60)),
        Figure("burst of the instant", count / got["max_ms"] * 1e3, "tasks/s"),
        Figure("early", got["early"], "tasks", at_most(0)),
        Figure("twice", got["received"] - count, "tasks", at_most(0)),
    ]


def _numbered(count: int, *, at: str) -> Iterator[NewSchedule]:
    return (NewSchedule(f"b{n}", queue="burst", payload=n.to_bytes(8), at=[at]) for n in range(count))


@dataclass
class Seen:
    """By schedule: its instants; and how late each was."""

    instants: dict[str, list[datetime]] = field(default_factory=dict)
    late_ms: list[float] = field(default_factory=list)

    def add(self, delivery: Delivery, now: datetime) -> None:
        assert delivery.occurrence is not None
        self.instants.setdefault(delivery.occurrence.schedule_id, []).append(delivery.occurrence.instant)
        self.late_ms.append((now - delivery.occurrence.instant) / timedelta(milliseconds=1))


async def _each_second(bench: Bench, name: str, full: int, *, hold_s: float) -> list[Figure]:
    """`hold_s`: how long a handler has its task: the next instant finds it open, and replaces it."""
    server, seen, count = await bench.server(), Seen(), bench.count(full, least=20)
    worker, seconds = Worker(server.address), max(3, round(bench.seconds(SECONDS)))

    @worker.on("often", concurrency=4 * count)
    async def note(delivery: Delivery) -> None:
        seen.add(delivery, datetime.now(UTC))
        if hold_s:
            await asyncio.sleep(hold_s)

    overlap = "replace" if hold_s else "allow"
    working = asyncio.create_task(worker.run())
    async with Client(server.address, timeout=60) as client:
        made = (NewSchedule(f"s{n}", queue="often", every=1, overlap=overlap, catch_up="all") for n in range(count))
        await client.schedules.create_many(made)
        # The first instants are due while others are created.
        await asyncio.sleep(3)
        begun = len(seen.late_ms)
        await asyncio.sleep(seconds)
        late_ms = sorted(seen.late_ms[begun:])
    await worker.stop()
    await working
    await bench.stack.aclose()
    if not late_ms:
        raise BenchmarkFailed(f"Nothing came within {PATIENCE_S:.0f} s.")
    floor = at_most(50) if hold_s else at_most(2)
    left_out, doubled = _wrong(seen)
    return [
        Figure(f"{name}, p50", percentile(late_ms, 0.5), "ms"),
        Figure(f"{name}, p99", percentile(late_ms, 0.99), "ms", floor),
        # What is replaced before its worker has it, or before it is decided, is left out by the policy.
        Figure(f"{name}, instants left out", float(left_out), "tasks", None if hold_s else at_most(0)),
        Figure(f"{name}, instants doubled", float(doubled), "tasks", at_most(0)),
    ]


async def _skipped(bench: Bench) -> list[Figure]:
    server, over, seconds = await bench.server(), asyncio.Event(), max(3.0, 2 * bench.seconds(SECONDS))
    worker = Worker(server.address)

    @worker.on("held", concurrency=SKIPPED)
    async def hold(delivery: Delivery) -> None:
        await over.wait()

    working = asyncio.create_task(worker.run())
    async with Client(server.address, timeout=60) as client:
        names = [f"h{n}" for n in range(SKIPPED)]
        await client.schedules.create_many(NewSchedule(name, queue="held", every=1, overlap="skip") for name in names)
        await asyncio.sleep(3)
        late_ms = sorted(await _told_late_ms(client, names, seconds))
    over.set()
    await worker.stop()
    await working
    await bench.stack.aclose()
    if not late_ms:
        raise BenchmarkFailed(f"No instant was skipped within {seconds:.0f} s.")
    return [
        Figure("skipped, one open, p50", percentile(late_ms, 0.5), "ms"),
        Figure("skipped, one open, p99", percentile(late_ms, 0.99), "ms", at_most(50)),
    ]


async def _told_late_ms(client: Client, names: Sequence[str], seconds: float) -> list[float]:
    """Of each skip, when a look says so first."""
    until_s = time.time() + seconds
    found = await asyncio.gather(*(_watched(client, name, until_s) for name in names))
    return [late_ms for of_one in found for late_ms in of_one]


async def _watched(client: Client, name: str, until_s: float) -> list[float]:
    """From an instant on until it is decided, and not in between: a look costs the server time as well, and what is
    decided waits behind those that come without a pause."""
    late_ms: list[float] = []
    skipped = (await client.schedules.get(name)).skipped
    while (instant_s := int(time.time()) + 1) < until_s:
        await asyncio.sleep(instant_s - time.time())
        before = skipped
        while skipped == before:
            await asyncio.sleep(BETWEEN_LOOKS_S)
            skipped = (await client.schedules.get(name)).skipped
        late_ms.append(1e3 * (time.time() - instant_s))
    return late_ms


def _wrong(seen: Seen) -> tuple[int, int]:
    """Instants left out, of each schedule between the first and the last that came; and those that came again."""
    left_out = doubled = 0
    for instants in seen.instants.values():
        came = len(set(instants))
        left_out += (max(instants) - min(instants)) // SECOND + 1 - came
        doubled += len(instants) - came
    return left_out, doubled
