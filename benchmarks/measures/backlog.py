"""A million due tasks on a queue that nobody works, beside a queue that is worked.

The abandoned queue must cost neither memory that grows with it nor the punctuality of the other one. So: lateness of
the worked queue before, then the million becomes due, in four steps with the memory after each, then lateness again.
"""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.bench import SECOND_MS, Bench, Loader, Span, now_ms
from benchmarks.figures import Figure, at_most
from benchmarks.measures.punctuality import steady
from benchmarks.processes import Server

TITLE = "A million due tasks on a queue without a worker"
TASKS = 1_000_000
STEPS = 4
SPAN_S = 1.0
# Until what became due has been looked at, a settle included.
REST_S = 3.0
SECONDS = 10
MIB = 1 << 20


async def run(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader = await bench.loader(server)
    receiver = await bench.receiver(server, loader, "worked", batches=False)
    before = await steady(bench, loader, receiver, "worked", SECONDS)
    sizes_bytes = await _abandon(bench, server, loader)
    after = await steady(bench, loader, receiver, "worked", SECONDS)
    await receiver.stop()
    await bench.stack.aclose()
    return [*_memory(sizes_bytes), *_lateness("before", before), *_lateness("after", after)]


async def _abandon(bench: Bench, server: Server, loader: Loader) -> list[int]:
    """The memory before, and after each step has become due."""
    count, sizes_bytes = bench.count(TASKS // STEPS), [server.pss_bytes()]
    span_ms = round(bench.seconds(SPAN_S) * SECOND_MS)
    for _ in range(STEPS):
        span = Span(now_ms() + bench.lead_ms(count), span_ms)
        await loader.schedule("abandoned", count, span)
        await loader.verify_stored("abandoned", count, span)
        await asyncio.sleep(max(0, span.from_ms + span_ms - now_ms()) / 1e3 + bench.seconds(REST_S))
        sizes_bytes.append(server.pss_bytes())
    return sizes_bytes


def _memory(sizes_bytes: list[int]) -> list[Figure]:
    names = ["memory before", *(f"memory with {step}/{STEPS} of the million due" for step in range(1, STEPS + 1))]
    figures = [Figure(name, size / MIB, "MiB") for name, size in zip(names, sizes_bytes, strict=True)]
    grown = (sizes_bytes[-1] - sizes_bytes[1]) / MIB
    return [*figures, Figure("growth from the first to the last quarter", grown, "MiB", headline=True)]


def _lateness(when: str, got: dict[str, Any]) -> list[Figure]:
    return [
        Figure(f"other queue's lateness {when}, p50", got["p50_ms"], "ms"),
        Figure(f"other queue's lateness {when}, p99", got["p99_ms"], "ms", headline=True),
        Figure(f"other queue's lateness {when}, p99.9", got["p999_ms"], "ms"),
        Figure(f"other queue early {when}", got["early"], "tasks", at_most(0)),
    ]
