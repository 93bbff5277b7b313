"""Disk per pending task: the data folder after a clean stop, payload of 200 bytes included.

Concentrated tasks share a few minutes, so that each row group is large. Scattered ones lie anywhere within 30 days.
"""

from __future__ import annotations

from benchmarks.bench import DAY_MS, HOUR_MS, MINUTE_MS, Bench, Span, now_ms
from benchmarks.figures import Figure, Floor, at_most

TITLE = "Disk per pending task"
TASKS = 200_000
SPANS = {
    "concentrated in 5 min": (5 * MINUTE_MS, at_most(260)),
    "scattered over 30 days": (30 * DAY_MS, at_most(300)),
}


async def run(bench: Bench) -> list[Figure]:
    return [await _one(bench, name, span_ms, floor) for name, (span_ms, floor) in SPANS.items()]


async def _one(bench: Bench, name: str, span_ms: int, floor: Floor) -> Figure:
    server = await bench.server()
    loader = await bench.loader(server)
    count, span = bench.count(TASKS), Span(now_ms() + HOUR_MS, span_ms)
    await loader.schedule("disk", count, span)
    await loader.verify_stored("disk", count, span)
    await bench.stack.aclose()
    return Figure(name, server.disk_bytes() / count, "B/task", floor, headline=True)
