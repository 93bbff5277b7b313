"""Single schedule: callers that wait for the OK of one task before they send the next.

This is what a web request pays that schedules one task. Eight processes with one call in flight each have a connection
of their own, and use the client that blocks; eight callers in one process share a stream of the asyncio client. Both
wait for an fsync, which those who wait at the same time share.
"""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.bench import HOUR_MS, MINUTE_MS, Bench, Span, now_ms
from benchmarks.figures import Figure
from benchmarks.stats import percentile

TITLE = "Durable single schedule, 8 callers"
SECONDS = 5.0
CALLERS = 8
START_IN_MS = 300


async def run(bench: Bench) -> list[Figure]:
    return [
        *await _one(bench, "8 processes with one caller", CALLERS, 1),
        *await _one(bench, "one process with 8 callers", 1, CALLERS),
    ]


async def _one(bench: Bench, name: str, processes: int, callers: int) -> list[Figure]:
    server = await bench.server()
    loaders = [await bench.loader(server) for _ in range(bench.processes(processes) if processes > 1 else 1)]
    start_ms, span = now_ms() + START_IN_MS, Span(now_ms() + 10 * MINUTE_MS, HOUR_MS)
    seconds = bench.seconds(SECONDS)
    cpu_s = server.cpu_s()
    answers = await asyncio.gather(*(loader.single("single", callers, start_ms, seconds, span) for loader in loaders))
    cpu_s = server.cpu_s() - cpu_s
    await loaders[0].verify_stored("single", sum(answer["stored"] for answer in answers), span)
    await bench.stack.aclose()
    return _figures(name, answers, start_ms, cpu_s)


def _figures(name: str, answers: list[dict[str, Any]], start_ms: int, cpu_s: float) -> list[Figure]:
    count = sum(answer["stored"] for answer in answers)
    seconds = (max(answer["ended_ms"] for answer in answers) - start_ms) / 1e3
    waits_ms = sorted(wait_ms for answer in answers for wait_ms in answer["waits_ms"])
    return [
        Figure(name, count / seconds, "tasks/s", headline=True),
        Figure(f"{name}, p50", percentile(waits_ms, 0.5), "ms"),
        Figure(f"{name}, p99", percentile(waits_ms, 0.99), "ms"),
        Figure(f"{name}, server CPU", cpu_s / count * 1e6, "us/task"),
    ]
