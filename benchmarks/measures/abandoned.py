"""Five million due tasks on a queue that nobody works, beside a queue that is worked; then a worker comes.

The abandoned queue must cost neither memory that grows with it nor the punctuality of the other one. So: lateness of
the worked queue before, then the millions become due, in four steps with the memory after each, then lateness again.
At last a worker comes, and is measured against 100,000 that were due at one instant, by a worker of the same kind. The
millions are of the same kind too, each quarter of them due at one instant, for what comes in a message costs more where
neighbours are of different calls.

How much more shows at the end: a million whose calls are mixed, for each has tasks all over a second. As a burst, and
as a backlog. What is scheduled while a backlog is drained goes into the bucket that is read again for it, so tasks of
the worked queue are scheduled beside that drain, 200 a second, each due in 200 ms. What was due while it went on
counts, and is held against as many that were scheduled so before.
"""

from __future__ import annotations

import asyncio
import statistics
from typing import Any

from benchmarks.bench import SECOND_MS, Bench, Loader, Receiver, Span, now_ms
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.measures.punctuality import steady
from benchmarks.processes import Server

TITLE = "Five million due tasks on a queue without a worker"
TASKS = 5_000_000
BURST = 100_000
# One is over in a seventh of a second.
BURSTS = 3
STEPS = 4
# The instant of what is due together.
INSTANT_MS = 1
# The mixed ones, the time over which each call's tasks lie, and for how long there are tasks beside their drain.
MIXED = 1_000_000
MIXED_S = 1.0
BESIDE_S = 4.0
# At the least: the worker's process takes half a second to start, and a small backlog is drained in milliseconds.
LEAST_BESIDE_S, LEAST_WINDOW_MS = 2.0, 100
# Until what became due has been looked at, and the writer has then rested until what is spare was given back. After
# 3 s that had happened in some quarters and not in others, so the growth was the moment's.
REST_S = 8.0
SECONDS = 10
MIB = 1 << 20
# Flat: what more of them cost in memory is a fiftieth of what they hold, and punctuality differs by no more than two
# runs of one measure do.
FLAT_BYTES = at_most(4)
UNCHANGED = at_most(1.2)
LONG = True


async def run(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader = await bench.loader(server)
    receiver = await bench.receiver(server, loader, "worked", batches=False, compact=True)
    bursts_per_s = [await _burst(bench, server, loader, f"burst-{number}") for number in range(BURSTS)]
    burst_per_s = statistics.median(bursts_per_s)
    before = await steady(bench, loader, receiver, "worked", SECONDS)
    soon = await receiver.collect(await loader.soon("worked", bench.seconds(BESIDE_S, LEAST_BESIDE_S)))
    sizes_bytes = await _abandon(bench, server, loader)
    after = await steady(bench, loader, receiver, "worked", SECONDS)
    drained = await _drain(bench, server, loader, burst_per_s)
    mixed_per_s = await _mixed_burst(bench, server, loader)
    beside, mixed_drained_per_s = await _mixed_drain(bench, server, loader, receiver)
    await receiver.stop()
    await bench.stack.aclose()
    named = {"before": before, "after": after, "before, 200/s": soon, "beside a drain": beside}
    lateness = [figure for when, got in named.items() for figure in _lateness(when, got)]
    changed = [
        Figure(f"other queue's p99 {when}, times before", got["p99_ms"] / than["p99_ms"], "", UNCHANGED)
        for when, got, than in (("after", after, before), ("beside a drain", beside, soon))
    ]
    mixed = _mixed(mixed_drained_per_s, mixed_per_s, burst_per_s)
    burst = Figure("a burst", burst_per_s, "tasks/s")
    return [*_memory(sizes_bytes, bench.count(TASKS // STEPS)), *lateness, *changed, burst, *drained, *mixed]


async def _burst(bench: Bench, server: Server, loader: Loader, queue: str) -> float:
    """How many a second come of what is due at one instant."""
    receiver = await bench.receiver(server, loader, queue, batches=True, compact=True)
    count = bench.count(BURST)
    await loader.schedule(queue, count, Span(now_ms() + bench.lead_ms(count), INSTANT_MS))
    got = await receiver.collect(count, compact=True)
    await receiver.stop()
    rate: float = count / got["max_ms"] * 1e3
    return rate


async def _abandon(bench: Bench, server: Server, loader: Loader) -> list[int]:
    """The memory before, and after each step has become due."""
    count, sizes_bytes = bench.count(TASKS // STEPS), [server.pss_bytes()]
    for step in range(STEPS):
        span = Span(now_ms() + bench.lead_ms(count), INSTANT_MS)
        await loader.schedule("abandoned", count, span, first=step * count)
        await loader.verify_stored("abandoned", count, span)
        await asyncio.sleep(max(0, span.from_ms - now_ms()) / 1e3 + bench.seconds(REST_S))
        sizes_bytes.append(server.pss_bytes())
    return sizes_bytes


async def _drain(bench: Bench, server: Server, loader: Loader, burst_per_s: float) -> list[Figure]:
    receiver = await bench.receiver(server, loader, "abandoned", batches=True, compact=True)
    count = STEPS * bench.count(TASKS // STEPS)
    drained_per_s, received, _ = await _drained(receiver, count)
    size_bytes = server.pss_bytes()
    await receiver.stop()
    await asyncio.sleep(bench.seconds(REST_S))
    return [
        Figure("drained at", drained_per_s, "tasks/s", headline=True),
        Figure("times the rate of a burst", drained_per_s / burst_per_s, "", at_least(0.8), headline=True),
        Figure("twice", received - count, "tasks", at_most(0)),
        Figure("memory when drained", size_bytes / MIB, "MiB"),
        Figure("memory after a rest", server.pss_bytes() / MIB, "MiB"),
    ]


async def _drained(receiver: Receiver, count: int) -> tuple[float, int, tuple[float, float]]:
    """How many a second, from the moment when the worker is known until the last one has come (what the worker sums up
    then is no part of it), how many came, and from when until when."""
    begun_ms = now_ms()
    got = await receiver.collect(count, compact=True)
    span_s = max(got["span_s"], (got["last_ms"] - begun_ms) / 1e3)
    return count / span_s, got["received"], (got["last_ms"] - span_s * 1e3, got["last_ms"])


async def _mixed_burst(bench: Bench, server: Server, loader: Loader) -> float:
    """More than can be sent while they become due."""
    receiver = await bench.receiver(server, loader, "mixed", batches=True, compact=True)
    count, span_ms = bench.count(MIXED), round(bench.seconds(MIXED_S) * SECOND_MS)
    span = Span(now_ms() + bench.lead_ms(count), span_ms)
    await loader.schedule("mixed", count, span)
    got = await receiver.collect(count, compact=True)
    await receiver.stop()
    rate: float = count / (got["last_ms"] - span.from_ms) * 1e3
    return rate


async def _mixed_drain(bench: Bench, server: Server, loader: Loader, worked: Receiver) -> tuple[dict[str, Any], float]:
    """What came of the worked queue meanwhile, and the rate."""
    other, count = await bench.loader(server), bench.count(MIXED)
    span = Span(now_ms() + bench.lead_ms(count), round(bench.seconds(MIXED_S) * SECOND_MS))
    await loader.schedule("left", count, span)
    await asyncio.sleep((span.from_ms + span.span_ms - now_ms()) / 1e3 + bench.seconds(REST_S))
    soon = asyncio.create_task(other.soon("worked", bench.seconds(BESIDE_S, LEAST_BESIDE_S)))
    drain = await bench.receiver(server, loader, "left", batches=True, compact=True)
    drained_per_s, _, (from_ms, until_ms) = await _drained(drain, count)
    await drain.stop()
    await worked.collect(await soon)
    return await worked.due_between(from_ms, max(until_ms, from_ms + LEAST_WINDOW_MS)), drained_per_s


def _mixed(drained_per_s: float, mixed_per_s: float, burst_per_s: float) -> list[Figure]:
    return [
        Figure("a mixed burst", mixed_per_s, "tasks/s"),
        Figure("a mixed backlog, drained at", drained_per_s, "tasks/s", headline=True),
        Figure("a mixed backlog, times the rate of a mixed burst", drained_per_s / mixed_per_s, ""),
        Figure("a mixed backlog, times the rate of a burst", drained_per_s / burst_per_s, ""),
    ]


def _memory(sizes_bytes: list[int], each: int) -> list[Figure]:
    """`each`: how many a quarter is."""
    names = ["memory before", *(f"memory with {step}/{STEPS} of them due" for step in range(1, STEPS + 1))]
    figures = [Figure(name, size / MIB, "MiB") for name, size in zip(names, sizes_bytes, strict=True)]
    grown = (sizes_bytes[-1] - sizes_bytes[1]) / ((STEPS - 1) * each)
    of_all = (sizes_bytes[-1] - sizes_bytes[0]) / (STEPS * each)
    return [
        *figures,
        Figure("growth from the first to the last quarter", grown, "B/task", FLAT_BYTES, headline=True),
        Figure("growth from before to the last quarter", of_all, "B/task", FLAT_BYTES),
    ]


def _lateness(when: str, got: dict[str, Any]) -> list[Figure]:
    return [
        Figure(f"other queue's lateness {when}, p50", got["p50_ms"], "ms"),
        Figure(f"other queue's lateness {when}, p99", got["p99_ms"], "ms", headline=True),
        Figure(f"other queue's lateness {when}, p99.9", got["p999_ms"], "ms"),
        Figure(f"other queue early {when}", got["early"], "tasks", at_most(0)),
    ]
