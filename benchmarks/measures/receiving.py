"""Receive: 20,000 tasks due at one instant for one client that wants no stream, by gRPC and then by HTTP.

The client asks for up to 100 tasks, each of them a plain message, finishes them with one call, and asks again. It makes
one call after the other, so each figure has two ways there and back for a hundred tasks, and a commit. *With an Extend*
there are three ways: the leases of each hundred begin anew before they are finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import aiohttp

from benchmarks.bench import PATIENCE_S, Bench, Loader, Span, none_lost, now_ms
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.processes import Server
from timerd.client import Client
from timerd.demo.processes import free_port

TITLE = "Receive without a stream"
TASKS = 20_000
AT_ONCE = 100
LONG = True
# Takes some tasks, finishes them, and says their delivery ids.
Take = Callable[[], Awaitable[Collection[str]]]


async def run(bench: Bench) -> list[Figure]:
    port = free_port()
    server = await bench.server("--http", f"127.0.0.1:{port}")
    loader, count = await bench.loader(server), bench.count(TASKS)
    async with Client(server.address) as client, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        by_grpc = await _taken(bench, server, loader, "plain", count, _by_grpc(client, "plain"))
        extended = await _taken(bench, server, loader, "longer", count, _by_grpc(client, "longer", is_extended=True))
        by_http = await _taken(bench, server, loader, "http", count, _by_http(session, "http"))
    return [
        *_figures("gRPC", count, *by_grpc),
        *_figures("gRPC with an Extend", count, *extended),
        *_figures("HTTP", count, *by_http),
    ]


def _figures(way: str, count: int, span_s: float, cpu_s: float, twice: int) -> list[Figure]:
    return [
        Figure(f"by {way}", count / span_s, "tasks/s", at_least(3_000), headline=way == "gRPC"),
        Figure(f"by {way}, server CPU", cpu_s / count * 1e6, "us/task"),
        Figure(f"by {way}, twice", twice, "tasks", at_most(0)),
    ]


async def _taken(
    bench: Bench, server: Server, loader: Loader, queue: str, count: int, take: Take
) -> tuple[float, float, int]:
    """(seconds from their instant until all are finished, processor time of the server meanwhile, tasks that came more
    than once)."""
    span = Span(now_ms() + bench.lead_ms(count), 1)
    await loader.schedule(queue, count, span)
    await asyncio.sleep(max(0, span.from_ms - now_ms()) / 1e3)
    cpu_s, seen, came = server.cpu_s(), set[str](), 0
    async with asyncio.timeout(PATIENCE_S):
        while len(seen) < count:
            taken = await take()
            came += len(taken)
            seen.update(taken)
    span_s = max((now_ms() - span.from_ms) / 1e3, 1e-3)
    none_lost("received", count, len(seen))
    return span_s, server.cpu_s() - cpu_s, came - len(seen)


def _by_grpc(client: Client, queue: str, *, is_extended: bool = False) -> Take:
    async def take() -> Collection[str]:
        tasks = await client.receive(queue, max=AT_ONCE)
        if is_extended:
            none_lost("extended", len(tasks), len(tasks) - len(await client.extend(tasks)))
        await client.finish(tasks)
        return [each.delivery_id for each in tasks]

    return take


def _by_http(session: aiohttp.ClientSession, queue: str) -> Take:
    async def take() -> Collection[str]:
        tasks: list[dict[str, Any]] = await _asked(session, f"/v1/queues/{queue}/receive?max={AT_ONCE}", {})
        tokens = [each["ack_token"] for each in tasks]
        await _asked(session, "/v1/finish", {"ack_tokens": tokens})
        return [each["delivery_id"] for each in tasks]

    return take


async def _asked(session: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    async with session.post(path, json=body) as reply:
        reply.raise_for_status()
        return await reply.json()
