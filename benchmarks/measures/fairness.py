"""Limit keys: one with a million tasks waiting beside a thousand with one task a second each; then three with weights.

The worker has 40 slots and a handler of 20 ms, so it does 2,000 tasks a second, and the thousand need half of them. How
late they come is what they wait behind the million. The *three* have a backlog each and weights of 1, 2 and 4; counted
is how many of each began while all of them still waited, with a share of 1, which is more than their weights ask for.
"""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.bench import SECOND_MS, Bench, Loader, Span, none_lost, now_ms
from benchmarks.figures import Figure, at_most
from benchmarks.loader import SERIES
from benchmarks.measures.ordering import collected, keyed_worker
from benchmarks.processes import Child
from timerd.client import Client, KeyRules

TITLE = "Limit keys"
LONG = True
SLOTS, HANDLER_MS = 40, 20
WAITING = 1_000_000
CUSTOMERS, SECONDS = 1_000, 20
WEIGHTS = (1, 2, 4)
OF_EACH = 4_000


async def run(bench: Bench) -> list[Figure]:
    return [*await _beside_a_million(bench), *await _by_weights(bench)]


async def _beside_a_million(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader, waiting = await bench.loader(server), bench.count(WAITING)
    worker = await keyed_worker(bench, server, loader, "jobs", at_once=SLOTS, takes_ms=HANDLER_MS)
    due_ms = now_ms() + 2 * bench.lead_ms(waiting)
    await loader.schedule("jobs", waiting, Span(due_ms, 1), first=SERIES, keys={"limit_keys": 1})
    got, begun = await _customers(bench, loader, worker, due_ms)
    await bench.stack.aclose()
    return [
        Figure("1,000 customers beside a million tasks of one, p50", got["p50_ms"], "ms"),
        Figure(
            "1,000 customers beside a million tasks of one, p99", got["p99_ms"], "ms", at_most(2 * HANDLER_MS), True
        ),
        Figure("begun of the one meanwhile", begun - got["received"], "tasks"),
    ]


async def _customers(bench: Bench, loader: Loader, worker: Child, due_ms: int) -> tuple[dict[str, Any], int]:
    """(how late they came, how many began of all until then)."""
    customers, count = bench.count(CUSTOMERS, 20), bench.count(CUSTOMERS * SECONDS)
    span = Span(due_ms + 2 * SECOND_MS, count * SECOND_MS // customers)
    await loader.schedule("jobs", count, span, first=2 * SERIES, keys={"limit_keys": customers})
    await asyncio.sleep(max(0, span.from_ms + span.span_ms + SECOND_MS - now_ms()) / 1e3)
    begun = (await worker.ask("collect", count=0, patience_s=0))["received"]
    got = await worker.ask("due_between", from_ms=span.from_ms, until_ms=span.from_ms + span.span_ms)
    none_lost("delivered", count, got["distinct"])
    return got, begun


async def _by_weights(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader, each = await bench.loader(server), bench.count(OF_EACH, 100)
    names = [f"key-1-{number}" for number in range(len(WEIGHTS))]
    async with Client(server.address) as client:
        await client.queues.put("jobs", keys=KeyRules(share=1, weights=dict(zip(names, WEIGHTS, strict=True))))
    worker = await keyed_worker(bench, server, loader, "jobs", at_once=SLOTS, takes_ms=HANDLER_MS)
    count = each * len(WEIGHTS)
    span = Span(now_ms() + bench.lead_ms(count), 1)
    await loader.schedule("jobs", count, span, first=SERIES, keys={"limit_keys": len(WEIGHTS)})
    await collected(worker, count)
    # While the one of the greatest weight still has tasks.
    begun = (await worker.ask("shares", keys=len(WEIGHTS), first=each * sum(WEIGHTS) * 9 // max(WEIGHTS) // 10))["of"]
    await bench.stack.aclose()
    return [Figure("weights of 1, 2 and 4: furthest from them", 100 * _furthest(begun), "%", at_most(5))]


def _furthest(begun: list[int]) -> float:
    """Of a share from what its weight asks for."""
    wanted = [sum(begun) * weight / sum(WEIGHTS) for weight in WEIGHTS]
    return max(abs(got / share - 1) for got, share in zip(begun, wanted, strict=True))
