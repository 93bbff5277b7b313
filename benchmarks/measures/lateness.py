"""Lateness: the time from a task's instant until the user's handler is entered, at 2,000 tasks a second for 20 s.

The instants are random, so some milliseconds have several tasks and some none. Early must be 0. Both kinds of handler
are measured; a handler per task is the ordinary one, and has the floor.
"""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.figures import Figure, at_most
from benchmarks.measures.punctuality import RATE_PER_S, steady

TITLE = "Lateness at 2,000/s"
SECONDS = 20
FLOOR = at_most(5)


async def run(bench: Bench) -> list[Figure]:
    return [
        *await _one(bench, "a handler per task", batches=False),
        *await _one(bench, "a handler of batches", batches=True),
    ]


async def _one(bench: Bench, name: str, *, batches: bool) -> list[Figure]:
    server = await bench.server()
    loader = await bench.loader(server)
    receiver = await bench.receiver(server, loader, "steady", batches=batches)
    cpu_s = server.cpu_s()
    got = await steady(bench, loader, receiver, "steady", SECONDS)
    cpu_s = server.cpu_s() - cpu_s
    await receiver.stop()
    await bench.stack.aclose()
    return [
        Figure(f"{name}, p50", got["p50_ms"], "ms", headline=not batches),
        Figure(f"{name}, p99", got["p99_ms"], "ms", FLOOR, headline=not batches),
        Figure(f"{name}, p99.9", got["p999_ms"], "ms", headline=not batches),
        Figure(f"{name}, max", got["max_ms"], "ms"),
        Figure(f"{name}, early", got["early"], "tasks", at_most(0)),
        Figure(f"{name}, twice", got["received"] - bench.count(RATE_PER_S * SECONDS), "tasks", at_most(0)),
        Figure(f"{name}, server CPU from schedule to delivery", cpu_s / got["received"] * 1e6, "us/task"),
    ]
