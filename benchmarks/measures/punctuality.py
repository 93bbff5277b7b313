"""Lateness at a steady rate, shared by the measures that ask for it."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import SECOND_MS, Bench, Loader, Receiver, Span, now_ms

RATE_PER_S = 2_000


async def steady(bench: Bench, loader: Loader, receiver: Receiver, queue: str, seconds: int) -> dict[str, Any]:
    """Due at random instants, 2,000 a second on average, all stored before the first."""
    count = bench.count(RATE_PER_S * seconds)
    span = Span(now_ms() + bench.lead_ms(count), count * SECOND_MS // RATE_PER_S)
    await loader.schedule(queue, count, span)
    return await receiver.collect(count)
