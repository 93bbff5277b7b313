"""Growth: the same figures on an empty store and with up to ten million pending tasks. They should not differ.

The pending tasks are spread over 30 days on the queues under test, a tenth of them within the next hour, the first of
them far enough away to fire after all is measured: so none of them is in memory meanwhile. Each size is a data set of
its own, stored by messages of a client. Then the sizes take turns, each turn in another order and on fresh copies, so
that the empty store is one; they are on disk before anything begins. A server is started with one task overdue, to see
how soon it fires, then rests, which tells what far tasks take of its memory, then works: single calls, bulk over three
spans, a burst, lateness at 2,000/s and the same while others insert.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench import DAY_MS, HOUR_MS, MINUTE_MS, SMALL, Bench, Loader, Receiver, Span, now_ms
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.measures.bulk import LEAD_MS
from benchmarks.measures.bulk import SPANS as BULK_SPANS
from benchmarks.measures.lateness import inserting
from benchmarks.measures.punctuality import steady
from benchmarks.processes import Server

TITLE = "Growth to ten million pending tasks"
SIZES = (0, 100_000, 1_000_000, 10_000_000)
QUEUES = ("single", "bulk", "fire", "steady")
CALLERS = 8
SINGLE_S = 3.0
BULK = 100_000
FIRE = 200_000
STEADY_S = 15
MIB = 1 << 20
REST_S = 3.0
IDLE_S = 10.0
# Of each size, one after the other: a slow minute of the machine touches all.
TURNS = 3
FIRST_IN_MS = 25 * MINUTE_MS
# So many at once, for the loader makes them all before it sends the first.
PORTION = 250_000
FLAT = 1.1
LONG = True


@dataclass(frozen=True, slots=True)
class Told:
    """A figure of one size. Its ratio to the empty store has a floor, at each of the other sizes."""

    label: str
    value: float
    unit: str
    more_is_better: bool = False


async def run(bench: Bench) -> list[Figure]:
    sizes = SIZES if bench.scale >= SMALL else SIZES[::3]
    stored = {pending: await _stored(bench, bench.count(pending) if pending else 0) for pending in sizes}
    figures: list[Figure] = []
    for turn in range(TURNS if bench.scale >= SMALL else 1):
        # Who comes first has a cooler machine, or one that is busy still.
        order = sizes[turn % len(sizes) :] + sizes[: turn % len(sizes)]
        told = {pending: await _turn(bench, stored[pending]) for pending in order}
        figures += [_figure(one, pending) for pending in sizes for one in told[pending]]
        figures += [flat for pending in sizes[1:] for flat in _all_flat(told[0], told[pending], pending)]
    return figures


def _all_flat(empty: list[Told], told: list[Told], pending: int) -> list[Figure]:
    return [_flat(was, now, pending) for was, now in zip(empty, told, strict=True)]


def _figure(one: Told, pending: int) -> Figure:
    limits = {"start to the first fire": at_most(2), "idle CPU": at_most(1)}
    name = f"{one.label}, {pending:,} pending"
    return Figure(name, one.value, one.unit, limits.get(one.label), more={"pending": pending, "label": one.label})


def _flat(was: Told, now: Told, pending: int) -> Figure:
    ratio = now.value / was.value if was.value else 1.0
    floor = at_least(1 / FLAT) if now.more_is_better else at_most(FLAT)
    return Figure(f"{now.label}, {pending:,} pending over none", ratio, "x", floor, headline=pending == SIZES[-1])


async def _stored(bench: Bench, pending: int) -> Path:
    """The data of a server that has ended, with one task that is overdue."""
    server = await bench.server()
    loader = await bench.loader(server)
    await _store(bench, loader, pending)
    overdue_ms = now_ms() + bench.lead_ms(1)
    await loader.schedule("first", 1, Span(overdue_ms, 1))
    await server.stop()
    await bench.stack.aclose()
    await asyncio.sleep(max(0, overdue_ms - now_ms()) / 1e3)
    return server.folder / "data"


async def _turn(bench: Bench, data: Path) -> list[Told]:
    folder = await bench.folder_with(data)
    server, told = await _started(bench, folder)
    idle = await _idle(bench, server)
    loader = await bench.loader(server)
    worked = [
        *await _single(bench, server),
        *[await _bulk(bench, loader, name, span_ms) for name, span_ms in BULK_SPANS.items()],
        *await _fire(bench, server, loader),
        *await _late(bench, server, loader, inserts=False),
        *await _late(bench, server, loader, inserts=True),
    ]
    await server.stop()
    await bench.stack.aclose()
    await asyncio.to_thread(shutil.rmtree, folder)
    return [told, *idle, *worked]


async def _store(bench: Bench, loader: Loader, pending: int) -> None:
    """A tenth within an hour, the rest over 30 days; on all queues in turn."""
    soon, rest = Span(now_ms() + FIRST_IN_MS, HOUR_MS - FIRST_IN_MS), Span(now_ms() + 2 * HOUR_MS, 30 * DAY_MS)
    for span, count in ((soon, pending // 10), (rest, pending - pending // 10)):
        portion = max(1, min(PORTION, count // len(QUEUES)))
        for turn, first in enumerate(range(0, count, portion)):
            await loader.schedule(QUEUES[turn % len(QUEUES)], min(portion, count - first), span)
        if bench.scale < SMALL:
            # At full size it would take minutes to count them.
            await loader.verify_stored("", count, span)


async def _started(bench: Bench, folder: Path) -> tuple[Server, Told]:
    """From the start of the process until the overdue task is in a handler. The worker connects once it listens."""
    child = await bench.worker()
    begun_ms = now_ms()
    server = await bench.server_in(folder)
    await child.ask("start", target=server.address, queue="first", batches=False)
    receiver = Receiver(child)
    got = await receiver.collect(1, since_ms=begun_ms)
    await receiver.stop()
    return server, Told("start to the first fire", got["timeline"][-1][0] / 1e3, "s")


async def _idle(bench: Bench, server: Server) -> list[Told]:
    await asyncio.sleep(bench.seconds(REST_S))
    cpu_s, seconds = server.cpu_s(), bench.seconds(IDLE_S)
    await asyncio.sleep(seconds)
    share = (server.cpu_s() - cpu_s) / seconds
    return [Told("idle CPU", 100 * share, "% of a core"), Told("memory", server.pss_bytes() / MIB, "MiB")]


async def _single(bench: Bench, server: Server) -> list[Told]:
    loaders = [await bench.loader(server) for _ in range(bench.processes(CALLERS))]
    # Of the pending ones none is due then.
    start_ms, span = now_ms() + 300, Span(now_ms() + HOUR_MS + 5 * MINUTE_MS, HOUR_MS // 2)
    seconds = bench.seconds(SINGLE_S)
    answers = await asyncio.gather(*(one.single("single", 1, start_ms, seconds, span) for one in loaders))
    await loaders[0].verify_stored("single", sum(answer["stored"] for answer in answers), span)
    for one in loaders:
        await one.child.stop()
    return [Told("single", _rate(answers, start_ms), "tasks/s", more_is_better=True)]


def _rate(answers: list[dict[str, Any]], start_ms: int) -> float:
    ended_ms: float = max(answer["ended_ms"] for answer in answers)
    stored: int = sum(answer["stored"] for answer in answers)
    return stored / (ended_ms - start_ms) * 1e3


async def _bulk(bench: Bench, loader: Loader, name: str, span_ms: int) -> Told:
    """Beyond the hour whose tenth is pending, but for those of five minutes, for which nobody works."""
    count = bench.count(BULK)
    span = Span(now_ms() + (LEAD_MS if span_ms < HOUR_MS else 2 * HOUR_MS), span_ms)
    # Of ten million over a month it would take minutes.
    is_counted = span_ms <= HOUR_MS or bench.scale < SMALL
    before = await loader.count("bulk", span) if is_counted else 0
    stored = await loader.schedule("bulk", count, span)
    if is_counted:
        await loader.verify_stored("bulk", before + count, span)
    return Told(f"bulk, {name}", count / stored["seconds"], "tasks/s", more_is_better=True)


async def _fire(bench: Bench, server: Server, loader: Loader) -> list[Told]:
    receiver = await bench.receiver(server, loader, "fire", batches=True)
    count = bench.count(FIRE)
    span = Span(now_ms() + bench.lead_ms(count), 1)
    await loader.schedule("fire", count, span)
    await asyncio.sleep(max(0, span.from_ms - now_ms() - 50) / 1e3)
    cpu_s = server.cpu_s()
    await receiver.came(count)
    cpu_s = server.cpu_s() - cpu_s
    got = await receiver.collect(count)
    await receiver.stop()
    return [
        Told("fire", count / got["max_ms"] * 1e3, "tasks/s", more_is_better=True),
        Told("fire, first delivery", got["first_ms"], "ms"),
        Told("CPU per fire", cpu_s / count * 1e6, "us"),
    ]


async def _late(bench: Bench, server: Server, loader: Loader, *, inserts: bool) -> list[Told]:
    receiver = await bench.receiver(server, loader, "steady", batches=False, compact=True)
    async with inserting(bench, server, inserts, STEADY_S):
        got = await steady(bench, loader, receiver, "steady", STEADY_S)
    await receiver.stop()
    name = "lateness while 5,000/s are inserted" if inserts else "lateness"
    quantiles = {"p50": "p50_ms", "p99": "p99_ms", "p99.9": "p999_ms"}
    return [Told(f"{name}, {which}", got[field], "ms") for which, field in quantiles.items()]
