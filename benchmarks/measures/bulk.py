"""Bulk schedule: how many tasks a second one client process gets an OK for, in messages of 1,000 over one stream.

OK means committed with fsync. The due times decide what a commit costs: close together they share a few buckets, spread
over a month each message touches hundreds of them. No worker is connected, so nothing else runs meanwhile. The client
has its tasks as two columns (`schedule_columns`).
"""

from __future__ import annotations

from benchmarks.bench import DAY_MS, HOUR_MS, MINUTE_MS, Bench, Span, now_ms
from benchmarks.figures import Figure, at_least

TITLE = "Bulk schedule"
TASKS = 200_000
SPANS = {"due within 5 min": 5 * MINUTE_MS, "due within 1 h": HOUR_MS, "due over 30 days": 30 * DAY_MS}
# The first due time is this far away, so that no task fires while others are stored.
LEAD_MS = MINUTE_MS
FLOOR = at_least(100_000)


async def run(bench: Bench) -> list[Figure]:
    return [figure for name, span_ms in SPANS.items() for figure in await _one(bench, name, span_ms)]


async def _one(bench: Bench, name: str, span_ms: int) -> list[Figure]:
    server = await bench.server()
    loader = await bench.loader(server)
    count, span = bench.count(TASKS), Span(now_ms() + LEAD_MS, span_ms)
    cpu_s = server.cpu_s()
    stored = await loader.schedule("bulk", count, span)
    cpu_s = server.cpu_s() - cpu_s
    await loader.verify_stored("bulk", count, span)
    await bench.stack.aclose()
    return [
        Figure(name, count / stored["seconds"], "tasks/s", FLOOR, headline=True),
        Figure(f"{name}, server CPU", cpu_s / count * 1e6, "us/task"),
    ]
