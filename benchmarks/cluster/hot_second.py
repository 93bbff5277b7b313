"""A second with 200,000 tasks, announced a while before, on three instances with a worker each: all of them fire it.

Here they share two processors with their workers and the node, so the rate is that of the machine; what it shows is
that no instance has much more to fire than the others, and that none is lost or comes twice.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from benchmarks.bench import SECOND_MS, Span, none_lost, now_ms
from benchmarks.figures import Figure, at_most
from timerd.client import Client

if TYPE_CHECKING:
    from benchmarks.bench import Bench, Loader
    from benchmarks.cluster.stage import Stage
    from benchmarks.processes import Server

TITLE = "A second with 200,000 tasks on three instances"
TASKS = 200_000
NAMES = ("one", "two", "three")
QUEUE = "popular"
# Slower than this, storing is a finding of its own.
STORED_PER_S = 5_000
# None knows how many it gets: it has all when nothing has come for so long. What comes twice comes within it.
QUIET_S = 5.0


async def run(bench: Bench, stage: Stage) -> list[Figure]:
    count = bench.count(TASKS)
    async with stage.keyspace() as settings:
        servers = [await stage.instance(bench, settings, name) for name in NAMES]
        loaders = [await bench.loader(server) for server in servers]
        second = Span(now_ms() + bench.slack * (8 * SECOND_MS + count * SECOND_MS // STORED_PER_S), SECOND_MS)
        shards = await _announced(servers[0], count, second)
        loaded, got = await _fired(bench, servers, loaders, count, second)
        await bench.stack.aclose()
    last_ms = max(each["max_ms"] for each in got)
    received = sum(each["received"] for each in got)
    none_lost("delivered", count, sum(each["distinct"] for each in got))
    return [
        Figure("drained at", count / max(last_ms, 1) * 1e3, "tasks/s", headline=True),
        Figure("last one late by", last_ms, "ms"),
        Figure("shards", shards, "shards"),
        *(Figure(f"fired by {name}", 100 * each / count, "%") for name, each in zip(NAMES, loaded, strict=True)),
        Figure("early", sum(each["early"] for each in got), "tasks", at_most(0)),
        Figure("twice", received - count, "tasks", at_most(0)),
    ]


async def _announced(server: Server, count: int, second: Span) -> int:
    async with Client(server.address) as client:
        at = datetime.fromtimestamp(second.from_ms / 1e3, UTC)
        return (await client.announce(at, count, payload_bytes=200)).shard_count


async def _fired(
    bench: Bench, servers: list[Server], loaders: list[Loader], count: int, second: Span
) -> tuple[list[int], list[dict[str, Any]]]:
    """(what each instance had to fire, what each worker has seen)."""
    receivers = [
        await bench.receiver(server, loader, QUEUE, batches=True)
        for server, loader in zip(servers, loaders, strict=True)
    ]
    parts = [count // len(loaders) + (number < count % len(loaders)) for number in range(len(loaders))]
    firsts = [sum(parts[:number]) for number in range(len(parts))]
    each = zip(loaders, parts, firsts, strict=True)
    await asyncio.gather(*(loader.schedule(QUEUE, part, second, first) for loader, part, first in each))
    await asyncio.sleep(max(0, second.from_ms - SECOND_MS - now_ms()) / SECOND_MS)
    loaded = [(await loader.info())["loaded"] for loader in loaders]
    quiet_s = bench.slack * bench.seconds(QUIET_S)
    given = {"count": count, "patience_s": 3 + quiet_s, "quiet_s": quiet_s}
    asked = (one.child.ask("collect", **given) for one in receivers)
    return loaded, list(await asyncio.gather(*asked))
