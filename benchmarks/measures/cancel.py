"""Cancel by id, in messages of 1,000 with four under way: as when a customer leaves and all reminders go.

Each CANCELLED is durable and true: for tasks that are near due, the one who would have fired them has been asked.
"""

from __future__ import annotations

from benchmarks.bench import HOUR_MS, MINUTE_MS, SECOND_MS, Bench, Span, none_lost, now_ms
from benchmarks.figures import Figure

TITLE = "Cancel by id"
TASKS = 50_000
SPANS = {"due within 1 h": (30 * MINUTE_MS, HOUR_MS), "near due, loaded": (75 * SECOND_MS, 10 * SECOND_MS)}


async def run(bench: Bench) -> list[Figure]:
    spans = SPANS.items()
    return [figure for name, (in_ms, span_ms) in spans for figure in await _one(bench, name, in_ms, span_ms)]


async def _one(bench: Bench, name: str, in_ms: int, span_ms: int) -> list[Figure]:
    server = await bench.server()
    loader = await bench.loader(server)
    await bench.receiver(server, loader, "cancel", batches=True)
    count = bench.count(TASKS)
    await loader.schedule("cancel", count, Span(now_ms() + in_ms, span_ms))
    cpu_s = server.cpu_s()
    answer = await loader.cancel()
    cpu_s = server.cpu_s() - cpu_s
    none_lost("cancelled", count, answer["cancelled"])
    await bench.stack.aclose()
    return [
        Figure(name, count / answer["seconds"], "tasks/s", headline=True),
        Figure(f"{name}, server CPU", cpu_s / count * 1e6, "us/task"),
    ]
