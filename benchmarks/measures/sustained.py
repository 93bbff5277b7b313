"""A billion tasks a day: 11,600 a second for a minute, from the schedule to the acknowledged handler.

All are stored before; the server's processor time counts from the first instant until the last handler was entered.
What storing took of it stands beside it, as a share of the same minute.
"""

from __future__ import annotations

import asyncio

from benchmarks.bench import SECOND_MS, Bench, Span, now_ms
from benchmarks.figures import Figure, at_most

TITLE = "11,600/s for a minute"
RATE_PER_S = 11_600
SECONDS = 60
LONG = True


async def run(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader = await bench.loader(server)
    receiver = await bench.receiver(server, loader, "steady", batches=True, compact=True)
    count = bench.count(RATE_PER_S * SECONDS)
    span = Span(now_ms() + bench.lead_ms(count), count * SECOND_MS // RATE_PER_S)
    idle_s = server.cpu_s()
    await loader.schedule("steady", count, span)
    stored_s = server.cpu_s() - idle_s
    await asyncio.sleep((span.from_ms - now_ms()) / 1e3)
    cpu_s = server.cpu_s()
    await receiver.came(count)
    cpu_s = server.cpu_s() - cpu_s
    got = await receiver.collect(count, compact=True)
    await receiver.stop()
    await bench.stack.aclose()
    return [
        Figure("share of one core in the server", 100 * cpu_s / (span.span_ms / SECOND_MS), "%", at_most(25), True),
        Figure("storing them before", 100 * stored_s / (span.span_ms / SECOND_MS), "%"),
        Figure("server CPU per fire", cpu_s / count * 1e6, "us/task"),
        Figure("lateness, p50", got["p50_ms"], "ms"),
        Figure("lateness, p99", got["p99_ms"], "ms", at_most(5), True),
        Figure("early", got["early"], "tasks", at_most(0)),
        Figure("twice", got["received"] - count, "tasks", at_most(0)),
    ]
