"""Ordering keys: 200,000 tasks of 10,000 keys due at one instant, then a thousand tasks of one key, then a key that is
stuck with a million tasks beside 100 others.

The worker has a handler per task, a thousand at once, and looks whether the tasks of each key begin in order and one at
a time. *One key* goes as fast as its ends are durable, for each one waits for the end of the one before. The *stuck*
key's first handler does not end, and its million tasks are due; 500 tasks a second of the others come meanwhile. They
are compared with the same others before it was stuck. Memory is what the server takes when the million are due, beside
what it took when they were loaded.
"""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.bench import PATIENCE_S, SECOND_MS, Bench, Loader, Span, none_lost, now_ms
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.keyed_worker import LISTEN_S
from benchmarks.loader import SERIES
from benchmarks.processes import Child, Server

TITLE = "Ordering keys"
LONG = True
AT_ONCE = 1_000
TASKS, KEYS = 200_000, 10_000
OF_ONE_KEY = 1_000
STUCK = 1_000_000
OTHERS, OTHERS_PER_S, OTHERS_S = 100, 500, 20


async def run(bench: Bench) -> list[Figure]:
    return [*await _over_keys(bench), *await _of_one_key(bench), *await _beside_a_stuck_one(bench)]


async def keyed_worker(bench: Bench, server: Server, loader: Loader, queue: str, **how: float) -> Child:
    """Returns when the server knows it."""
    before = (await loader.info())["workers"]
    child = await Child.start("worker", "-m", "benchmarks.keyed_worker", log=bench.folder / "worker.log")
    bench.stack.push_async_callback(child.stop)
    await child.ask("start", target=server.address, queue=queue, **how)
    await loader.wait_for("the worker to connect", lambda info: info["workers"] > before)
    return child


async def collected(worker: Child, count: int) -> dict[str, Any]:
    got = await worker.ask("collect", count=count, patience_s=PATIENCE_S)
    none_lost("delivered", count, got["distinct"])
    return got


async def _over_keys(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader, count, keys = await bench.loader(server), bench.count(TASKS), bench.count(KEYS, 10)
    worker = await keyed_worker(bench, server, loader, "many", at_once=AT_ONCE, keys=keys)
    span = Span(now_ms() + 2 * bench.lead_ms(count), 1)
    await loader.schedule("many", count, span, keys={"ordering_keys": keys})
    cpu_s = server.cpu_s()
    got = await collected(worker, count)
    cpu_s = server.cpu_s() - cpu_s
    await bench.stack.aclose()
    return [
        Figure("over 10,000 keys", count / got["max_ms"] * 1e3, "tasks/s", at_least(20_000), headline=True),
        Figure("over 10,000 keys, server CPU", cpu_s / count * 1e6, "us/task"),
        *_kept("over 10,000 keys", got, count),
    ]


def _kept(name: str, got: dict[str, Any], count: int) -> list[Figure]:
    return [
        Figure(f"{name}, out of order", got["out_of_order"], "tasks", at_most(0)),
        Figure(f"{name}, two of a key at once", got["two_at_once"], "tasks", at_most(0)),
        Figure(f"{name}, twice", got["received"] - count, "tasks", at_most(0)),
    ]


async def _of_one_key(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader, count = await bench.loader(server), bench.count(OF_ONE_KEY, 50)
    worker = await keyed_worker(bench, server, loader, "one", at_once=AT_ONCE, keys=1)
    await loader.schedule("one", count, Span(now_ms() + bench.lead_ms(count), 1), keys={"ordering_keys": 1})
    got = await collected(worker, count)
    await bench.stack.aclose()
    return [
        Figure("one key", count / got["max_ms"] * 1e3, "tasks/s", at_least(100)),
        *_kept("one key", got, count),
    ]


async def _beside_a_stuck_one(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader, stuck = await bench.loader(server), bench.count(STUCK)
    worker = await keyed_worker(bench, server, loader, "stuck", at_once=AT_ONCE, hangs=SERIES)
    before = await _others(bench, loader, worker)
    due_ms = now_ms() + 2 * bench.lead_ms(stuck)
    await loader.schedule("stuck", stuck, Span(due_ms, 1), first=SERIES, keys={"ordering_keys": 1})
    await asyncio.sleep(max(0, due_ms - now_ms() - SECOND_MS) / 1e3)
    loaded_bytes = server.pss_bytes()
    await worker.ask("begun", count=1, patience_s=PATIENCE_S)
    beside = await _others(bench, loader, worker, stuck_tasks=1)
    due_bytes = server.pss_bytes()
    await bench.stack.aclose()
    return [
        Figure("others, p99", before["p99_ms"], "ms"),
        Figure("others beside a stuck key, p99", beside["p99_ms"], "ms"),
        Figure("others beside a stuck key, p99 : without it", beside["p99_ms"] / before["p99_ms"], "", at_most(1.2)),
        Figure("stuck, memory when due", (due_bytes - loaded_bytes) / stuck, "B/task", at_most(4)),
    ]


async def _others(bench: Bench, loader: Loader, worker: Child, stuck_tasks: int = 0) -> dict[str, Any]:
    """500 tasks a second of a hundred keys. `stuck_tasks`: what began of the stuck key is no one of them."""
    count = bench.count(OTHERS_PER_S * OTHERS_S)
    span = Span(now_ms() + bench.lead_ms(count), count * SECOND_MS // OTHERS_PER_S)
    first = SERIES * (2 + stuck_tasks)
    await loader.schedule("stuck", count, span, first=first, keys={"ordering_keys": OTHERS})
    await asyncio.sleep(max(0, span.from_ms + span.span_ms - now_ms()) / 1e3 + LISTEN_S)
    await worker.ask("collect", count=count + stuck_tasks, patience_s=PATIENCE_S)
    got = await worker.ask("due_between", from_ms=span.from_ms, until_ms=span.from_ms + span.span_ms)
    none_lost("delivered", count, got["distinct"])
    return got
