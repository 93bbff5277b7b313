"""Many queues: 500 tasks a second over one, 200 or 2,000 queues, each of which has a worker.

One queue for each customer or each kind of work is how a service grows. What a task costs the server, how late it is
and what an idle server takes must not grow with the queues. One process works all of them, 500 a connection; the tasks
are stored before, those of a queue in a message of its own. At this rate most tasks leave alone, whatever their queue.
"""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.bench import SECOND_MS, SMALL, Bench, Loader, Receiver, Span, now_ms
from benchmarks.figures import Figure, at_most
from benchmarks.processes import Server

TITLE = "Many queues"
QUEUES = (1, 200, 2_000)
FEW = (1, 20)
RATE_PER_S = 500
SECONDS = 10
IDLE_S = 5.0
# What a message takes the loader, at most.
MESSAGE_MS = 3
LONG = True


async def run(bench: Bench) -> list[Figure]:
    figures: list[Figure] = []
    costs_us: list[float] = []
    for queues in QUEUES if bench.scale >= SMALL else FEW:
        found, cost_us = await _with(bench, queues)
        figures += found
        costs_us.append(cost_us)
    return [
        *figures,
        Figure("a task of the most queues over one queue's", costs_us[-1] / costs_us[0], "x", headline=True),
    ]


async def _with(bench: Bench, queues: int) -> tuple[list[Figure], float]:
    server = await bench.server()
    loader = await bench.loader(server)
    receiver = await bench.receiver_of_many(server, loader, queues)
    idle = await _idle(bench, server)
    count = bench.count(RATE_PER_S * SECONDS)
    got, cpu_s = await _steady(bench, server, loader, receiver, queues, count)
    await receiver.stop()
    await bench.stack.aclose()
    cost_us, name = cpu_s / count * 1e6, f"{queues:,} queue{'s' * (queues > 1)}"
    return [
        Figure(f"{name}, server CPU", cost_us, "us/task"),
        Figure(f"{name}, idle", idle, "% of a core"),
        Figure(f"{name}, p50", got["p50_ms"], "ms"),
        Figure(f"{name}, p99", got["p99_ms"], "ms"),
        Figure(f"{name}, early", got["early"], "tasks", at_most(0)),
        Figure(f"{name}, twice", got["received"] - count, "tasks", at_most(0)),
    ], cost_us


async def _idle(bench: Bench, server: Server) -> float:
    cpu_s, seconds = server.cpu_s(), bench.seconds(IDLE_S)
    await asyncio.sleep(seconds)
    return 100 * (server.cpu_s() - cpu_s) / seconds


async def _steady(
    bench: Bench, server: Server, loader: Loader, receiver: Receiver, queues: int, count: int
) -> tuple[dict[str, Any], float]:
    """(what came, processor time of the server from just before the first instant)."""
    lead_ms = bench.lead_ms(count) + bench.slack * MESSAGE_MS * min(queues, count)
    span = Span(now_ms() + lead_ms, count * SECOND_MS // RATE_PER_S)
    await loader.spread(queues, count, span)
    await asyncio.sleep(max(0, span.from_ms - now_ms() - 50) / 1e3)
    cpu_s = server.cpu_s()
    await receiver.came(count)
    cpu_s = server.cpu_s() - cpu_s
    return await receiver.collect(count), cpu_s
