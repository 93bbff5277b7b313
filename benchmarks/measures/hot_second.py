"""A popular second: 200,000 tasks due within it, beside a queue with 500 a second that has nothing to do with it.

The popular queue drains at its own rate; the other one must not wait for it.
"""

from __future__ import annotations

import asyncio

from benchmarks.bench import SECOND_MS, Bench, Span, now_ms
from benchmarks.figures import Figure, at_most

TITLE = "A second with 200,000 tasks"
TASKS = 200_000
SPAN_S = 1.0
OTHERS_PER_S = 500
# The other queue is watched from before until after.
BEFORE_S, AFTER_S = 2.0, 4.0
FLOOR = at_most(20)


async def run(bench: Bench) -> list[Figure]:
    return await beside(bench, TASKS, SPAN_S, AFTER_S)


async def beside(bench: Bench, tasks: int, span_s: float, after_s: float) -> list[Figure]:
    """So many within a span, and others before, meanwhile and after."""
    server = await bench.server()
    loader, other = await bench.loader(server), await bench.loader(server)
    popular = await bench.receiver(server, loader, "popular", batches=True, compact=True)
    calm = await bench.receiver(server, loader, "calm", batches=False, compact=True)
    count, span_ms = bench.count(tasks), round(bench.seconds(span_s) * SECOND_MS)
    begin_ms = now_ms() + bench.lead_ms(count)
    hot = Span(begin_ms + round(bench.seconds(BEFORE_S) * SECOND_MS), span_ms)
    calm_ms = hot.from_ms + span_ms + round(bench.seconds(after_s) * SECOND_MS) - begin_ms
    others = max(50, OTHERS_PER_S * calm_ms // SECOND_MS)
    await loader.schedule("popular", count, hot)
    await other.schedule("calm", others, Span(begin_ms, calm_ms))
    got, calm_got = await asyncio.gather(popular.collect(count, compact=True), calm.collect(others))
    await bench.stack.aclose()
    return [
        Figure("drained at", count / max(got["span_s"], 1e-3), "tasks/s", headline=True),
        Figure("popular queue, p50", got["p50_ms"], "ms"),
        Figure("popular queue, p99", got["p99_ms"], "ms"),
        Figure("popular queue, max", got["max_ms"], "ms"),
        Figure("other queue, p50", calm_got["p50_ms"], "ms"),
        Figure("other queue, p99", calm_got["p99_ms"], "ms", FLOOR, headline=True),
        Figure("other queue, max", calm_got["max_ms"], "ms"),
        Figure("early", got["early"] + calm_got["early"], "tasks", at_most(0)),
    ]
