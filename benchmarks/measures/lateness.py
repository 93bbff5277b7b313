"""Lateness: the time from a task's instant until the user's handler is entered, at 2,000 tasks a second for 10 s.

The instants are random, so some milliseconds have several tasks and some none. Early must be 0. Both kinds of handler
are measured, and the ordinary one, called for each task, once more while others schedule 5,000 tasks a second in
messages of 50, all over the day that begins in an hour: then it may be twice as late.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.bench import DAY_MS, HOUR_MS, SECOND_MS, Bench, Span, now_ms
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.measures.punctuality import RATE_PER_S, steady

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.processes import Server

TITLE = "Lateness at 2,000/s"
SECONDS = 10
INSERTS_PER_S = 5_000
# p50, p99, p99.9
FLOORS_MS = (0.6, 1.5, 5.0)


async def run(bench: Bench) -> list[Figure]:
    return [
        *await _one(bench, "a handler per task", batches=False),
        *await _one(bench, "a handler of batches", batches=True),
        *await _one(bench, "while 5,000/s are inserted", batches=False, allowed=2.0, inserts=True),
    ]


async def _one(bench: Bench, name: str, *, batches: bool, allowed: float = 1.0, inserts: bool = False) -> list[Figure]:
    server = await bench.server()
    loader = await bench.loader(server)
    receiver = await bench.receiver(server, loader, "steady", batches=batches, compact=True)
    cpu_s = server.cpu_s()
    async with inserting(bench, server, inserts, SECONDS) as inserted:
        got = await steady(bench, loader, receiver, "steady", SECONDS)
    cpu_s = server.cpu_s() - cpu_s
    await receiver.stop()
    await bench.stack.aclose()
    return [
        *_percentiles(name, got, allowed, headline=not batches and not inserts),
        Figure(f"{name}, max", got["max_ms"], "ms"),
        Figure(f"{name}, early", got["early"], "tasks", at_most(0)),
        Figure(f"{name}, twice", got["received"] - bench.count(RATE_PER_S * SECONDS), "tasks", at_most(0)),
        *([_inserted(inserted)] if inserts else [_cpu(name, cpu_s, got)]),
    ]


def _inserted(done: dict[str, Any]) -> Figure:
    """Who inserts waits for each OK: a server that takes in fewer is no easier measure."""
    return Figure("inserted meanwhile", done["stored"] / done["seconds"], "tasks/s", at_least(0.95 * INSERTS_PER_S))


def _cpu(name: str, cpu_s: float, got: dict[str, Any]) -> Figure:
    return Figure(f"{name}, server CPU from schedule to delivery", cpu_s / got["received"] * 1e6, "us/task")


def _percentiles(name: str, got: dict[str, Any], allowed: float, *, headline: bool) -> list[Figure]:
    p50, p99, p999 = (at_most(allowed * floor_ms) for floor_ms in FLOORS_MS)
    return [
        Figure(f"{name}, p50", got["p50_ms"], "ms", p50, headline, more={"curve": got["curve"], "label": name}),
        Figure(f"{name}, p99", got["p99_ms"], "ms", p99, headline),
        Figure(f"{name}, p99.9", got["p999_ms"], "ms", p999, headline),
    ]


@asynccontextmanager
async def inserting(bench: Bench, server: Server, inserts: bool, steady_s: int) -> AsyncIterator[dict[str, Any]]:
    """Others schedule, from before the first task is due until after the last; how many, and how long it took."""
    inserted: dict[str, Any] = {}
    if not inserts:
        yield inserted
        return
    other = await bench.loader(server)
    span = Span(now_ms() + HOUR_MS, DAY_MS)
    # Of its own: the same store may be asked several times, and what was inserted before is not to be counted again.
    queue = f"others-{span.from_ms}"
    count = bench.count(RATE_PER_S * steady_s)
    seconds = (bench.lead_ms(count) + count * SECOND_MS / RATE_PER_S) / 1e3
    running = asyncio.create_task(other.trickle(queue, INSERTS_PER_S, seconds, span))
    yield inserted
    inserted |= await running
    await other.verify_stored(queue, inserted["stored"], span)
