"""Cancel by id: one after the other from eight processes, and in messages of 1,000 with four under way, as when a
customer leaves and all reminders go.

Each CANCELLED is durable and true: for tasks that are near due, the one who would have fired them has been asked. What
was not cancelled, and no more, is pending afterwards.
"""

from __future__ import annotations

import asyncio

from benchmarks.bench import HOUR_MS, MINUTE_MS, SECOND_MS, Bench, Span, none_lost, now_ms
from benchmarks.figures import Figure, at_least

TITLE = "Cancel by id"
TASKS = 50_000
SPANS = {"due within 1 h": (30 * MINUTE_MS, HOUR_MS), "near due, loaded": (75 * SECOND_MS, 10 * SECOND_MS)}
CALLERS = 8
EACH = 4_000
SECONDS = 3.0
START_IN_MS = 300
BATCHED = at_least(200_000)


async def run(bench: Bench) -> list[Figure]:
    spans = SPANS.items()
    batched = [figure for name, (in_ms, span_ms) in spans for figure in await _one(bench, name, in_ms, span_ms)]
    return [*batched, *await _singles(bench)]


async def _one(bench: Bench, name: str, in_ms: int, span_ms: int) -> list[Figure]:
    server = await bench.server()
    loader = await bench.loader(server)
    await bench.receiver(server, loader, "cancel", batches=True)
    count = bench.count(TASKS)
    span = Span(now_ms() + in_ms, span_ms)
    await loader.schedule("cancel", count, span)
    cpu_s = server.cpu_s()
    answer = await loader.cancel()
    cpu_s = server.cpu_s() - cpu_s
    none_lost("cancelled", count, answer["cancelled"])
    none_lost("pending after the cancels", 0, await loader.count("cancel", span))
    await bench.stack.aclose()
    return [
        Figure(f"batches, {name}", count / answer["seconds"], "tasks/s", BATCHED, headline=True),
        Figure(f"batches, {name}, server CPU", cpu_s / count * 1e6, "us/task"),
    ]


async def _singles(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loaders = [await bench.loader(server) for _ in range(bench.processes(CALLERS))]
    count, span = bench.count(EACH, least=40), Span(now_ms() + HOUR_MS, HOUR_MS)
    await asyncio.gather(*(loader.schedule("cancel", count, span) for loader in loaders))
    start_ms, cpu_s = now_ms() + START_IN_MS, server.cpu_s()
    answers = await asyncio.gather(*(one.cancel_singles(start_ms, bench.seconds(SECONDS)) for one in loaders))
    cpu_s, done = server.cpu_s() - cpu_s, sum(answer["cancelled"] for answer in answers)
    none_lost("cancelled", sum(answer["asked"] for answer in answers), done)
    left = await loaders[0].count("cancel", span)
    none_lost("pending after the cancels", len(loaders) * count - done, left)
    await bench.stack.aclose()
    seconds = (max(answer["ended_ms"] for answer in answers) - start_ms) / 1e3
    return [
        Figure("8 processes with one caller", done / seconds, "tasks/s", headline=True),
        Figure("8 processes with one caller, server CPU", cpu_s / done * 1e6, "us/task"),
    ]
