"""A popular second: 200,000 tasks due within it, beside a queue with 2,000 a second that has nothing to do with it.

The other queue must not wait for it: its lateness is that of what was due from the first instant of that second until
the last popular task was received. And of the popular queue no task may be later than the rate explains at which a
worker of the same kind drains a queue. That rate is measured in the same run, afterwards: 100,000 due at one instant,
three times. Served at it in the order of the due instants, each task has an instant at which it comes at the latest.

Some lateness no queue explains: what comes fast is sent in steps of 2 to 3 ms, and of 200,000 or 700,000 tasks the
latest meets what else the machine did (at an ordinary load p99.9 is 2 ms, and the latest 5 to 11 ms). So 20 ms are
allowed, nearly twice what the latest has been, and what the other queue is allowed too.
"""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.bench import SECOND_MS, Bench, Span, now_ms
from benchmarks.figures import Figure, at_most
from benchmarks.measures.punctuality import drained_per_s

TITLE = "A second with 200,000 tasks"
TASKS = 200_000
SPAN_S = 1.0
OTHERS_PER_S = 2_000
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
    hot, calm_span, count, others = _planned(bench, tasks, span_s, after_s)
    await loader.schedule("popular", count, hot)
    await other.schedule("calm", others, calm_span)
    got, whole = await asyncio.gather(popular.collect(count, compact=True), calm.collect(others))
    meanwhile = await calm.due_between(hot.from_ms, got["last_ms"])
    rate_per_s = await drained_per_s(bench, server, loader)
    unexplained_ms = await popular.unexplained_ms(rate_per_s)
    await bench.stack.aclose()
    twice = got["received"] + whole["received"] - count - others
    odd = (("early", got["early"] + whole["early"]), ("twice", twice))
    none_of_them = [Figure(name, found, "tasks", at_most(0)) for name, found in odd]
    return [*_popular(got, count, rate_per_s, unexplained_ms), *_other(meanwhile, whole), *none_of_them]


def _planned(bench: Bench, tasks: int, span_s: float, after_s: float) -> tuple[Span, Span, int, int]:
    """Where the popular ones lie and where the others, how many they are and how many the others."""
    count, span_ms = bench.count(tasks), round(bench.seconds(span_s) * SECOND_MS)
    before_ms, after_ms = (round(bench.seconds(s) * SECOND_MS) for s in (BEFORE_S, after_s))
    calm_ms = before_ms + span_ms + after_ms
    others = OTHERS_PER_S * calm_ms // SECOND_MS
    begin_ms = now_ms() + bench.lead_ms(count + others)
    return Span(begin_ms + before_ms, span_ms), Span(begin_ms, calm_ms), count, others


def _popular(got: dict[str, Any], count: int, rate_per_s: float, unexplained_ms: float) -> list[Figure]:
    """As fast as they came: that is how fast they fell due, unless the queue was too slow."""
    return [
        Figure("popular queue, received at", count / max(got["span_s"], 1e-3), "tasks/s"),
        Figure("popular queue, p50", got["p50_ms"], "ms"),
        Figure("popular queue, p99", got["p99_ms"], "ms"),
        Figure("popular queue, max", got["max_ms"], "ms"),
        Figure("a burst is drained at", rate_per_s, "tasks/s", headline=True),
        Figure("later than that rate explains, at most", unexplained_ms, "ms", FLOOR, headline=True),
    ]


def _other(meanwhile: dict[str, Any], whole: dict[str, Any]) -> list[Figure]:
    return [
        Figure("other queue meanwhile, p50", meanwhile["p50_ms"], "ms"),
        Figure("other queue meanwhile, p99", meanwhile["p99_ms"], "ms", FLOOR, headline=True),
        Figure("other queue meanwhile, max", meanwhile["max_ms"], "ms"),
        Figure("other queue, before and after too, p99", whole["p99_ms"], "ms"),
        Figure("other queue, before and after too, max", whole["max_ms"], "ms"),
    ]
