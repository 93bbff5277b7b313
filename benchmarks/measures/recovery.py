"""Recovery: 50,000 tasks in the middle of things when a process is killed without notice, and started again at once.

Three deaths: the server's in the middle of a burst, while the worker lives; the worker's with all tasks in its hands,
while another worker waits; and both together. Counted is the time from the kill until the last task has come, and how
many came twice to a worker that lived: what was delivered and whose end the server had not made durable.
"""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.bench import Bench, Loader, Receiver, Span, now_ms
from benchmarks.figures import Figure, at_most
from benchmarks.processes import Server

TITLE = "Recovery with 50,000 in flight"
TASKS = 50_000
# Of a burst at full speed this is before the middle: 50,000 take 0.17 s.
INTO_BURST_S = 0.03
QUIET_S = 1.5
FLOOR = at_most(2.0)


async def run(bench: Bench) -> list[Figure]:
    return [*await _server_dies(bench), *await _worker_dies(bench), *await _both_die(bench)]


async def _server_dies(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader = await bench.loader(server)
    receiver = await bench.receiver(server, loader, "burst", batches=True)
    count = bench.count(TASKS)
    due = Span(now_ms() + bench.lead_ms(count), 1)
    await loader.schedule("burst", count, due)
    await asyncio.sleep((due.from_ms - now_ms()) / 1e3 + bench.seconds(INTO_BURST_S, 0.002))
    await server.kill()
    killed_ms = now_ms()
    await bench.again(server)
    got = await receiver.collect(count, since_ms=killed_ms, quiet_s=bench.seconds(QUIET_S))
    await bench.stack.aclose()
    twice = Figure("server killed in a burst, came twice", got["received"] - count, "tasks")
    return [_figure("server killed in a burst", got), twice]


def _figure(name: str, got: dict[str, Any]) -> Figure:
    """Until the last of all tasks had come for the first time."""
    last_ms = next(at_ms for at_ms, seen in got["timeline"] if seen == got["distinct"])
    more = {"timeline": got["timeline"], "label": name}
    return Figure(f"{name}, all have come", max(0.0, last_ms) / 1e3, "s", FLOOR, headline=True, more=more)


async def _in_hand(bench: Bench, name: str) -> tuple[Server, Loader, Receiver, int]:
    """A worker that has all of them and ends none."""
    server = await bench.server()
    loader = await bench.loader(server)
    count = bench.count(TASKS)
    receiver = await bench.receiver(server, loader, name, batches=False, holds=count)
    await loader.schedule(name, count, Span(now_ms() + bench.lead_ms(count), 1))
    await receiver.collect(count)
    return server, loader, receiver, count


async def _worker_dies(bench: Bench) -> list[Figure]:
    server, loader, receiver, count = await _in_hand(bench, "held")
    second = await bench.receiver(server, loader, "held", batches=True)
    await receiver.child.kill()
    got = await second.collect(count, since_ms=now_ms())
    await bench.stack.aclose()
    return [_figure("worker killed with all in hand", got)]


async def _both_die(bench: Bench) -> list[Figure]:
    server, loader, receiver, count = await _in_hand(bench, "both")
    await asyncio.gather(receiver.child.kill(), server.kill())
    killed_ms = now_ms()
    again = await bench.again(server)
    second = await bench.receiver(again, loader, "both", batches=True)
    got = await second.collect(count, since_ms=killed_ms)
    await bench.stack.aclose()
    return [_figure("both killed with all in hand", got)]
