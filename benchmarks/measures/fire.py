"""Fire: 100,000 tasks due at one instant, to one worker process.

The rate is all tasks over the time from that instant until the user's handler was entered for the last of them. It is
measured for a handler that takes batches and for one that is called for each task: a thousand of these at once, and
as many as there are where nothing is said. All are stored before.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from benchmarks.bench import Bench, Span, now_ms
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.processes import Server
from timerd.worker import Worker

TITLE = "100,000 due at one instant, one worker"
TASKS = 100_000
# By whether the handler takes batches.
FLOORS = {True: 50_000, False: 30_000}
BY_DEFAULT = int(signature(Worker.on).parameters["concurrency"].default)


async def run(bench: Bench) -> list[Figure]:
    return [
        *await _one(bench, "a handler of batches", batches=True),
        *await _one(bench, "a handler per task", batches=False),
        *await _one(bench, f"a handler per task, {BY_DEFAULT} at once", batches=False, at_once=BY_DEFAULT),
    ]


async def _one(bench: Bench, name: str, *, batches: bool, at_once: int = 0) -> list[Figure]:
    count = bench.count(TASKS)
    got, cpu_s = await burst(bench, await bench.server(), count, bench.lead_ms(count), batches=batches, at_once=at_once)
    return [
        Figure(name, count / got["max_ms"] * 1e3, "tasks/s", at_least(FLOORS[batches]), headline=True),
        Figure(f"{name}, first delivery", got["first_ms"], "ms", at_most(5)),
        Figure(f"{name}, early", got["early"], "tasks", at_most(0)),
        Figure(f"{name}, twice", got["received"] - count, "tasks", at_most(0)),
        Figure(f"{name}, server CPU", cpu_s / count * 1e6, "us/task"),
    ]


async def burst(
    bench: Bench, server: Server, count: int, lead_ms: int, *, batches: bool, at_once: int = 0
) -> tuple[dict[str, Any], float]:
    """(what the receiver has seen, the server's CPU seconds meanwhile). The processes of `bench` are ended."""
    loader = await bench.loader(server)
    receiver = await bench.receiver(server, loader, "fire", batches=batches, at_once=at_once)
    await loader.schedule("fire", count, Span(now_ms() + lead_ms, 1))
    before_s = server.cpu_s()
    await receiver.came(count)
    cpu_s = server.cpu_s() - before_s
    got = await receiver.collect(count)
    await receiver.stop()
    await bench.stack.aclose()
    return got, cpu_s
