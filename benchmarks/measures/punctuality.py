"""Lateness at a steady rate, and the rate at which a burst is drained, shared by the measures that ask for them."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.bench import SECOND_MS, Bench, Loader, Receiver, Span, now_ms
from benchmarks.processes import Server

RATE_PER_S = 2_000
BURST = 100_000
BURSTS = 3
# The instant of what is due together.
INSTANT_MS = 1


async def steady(bench: Bench, loader: Loader, receiver: Receiver, queue: str, seconds: int) -> dict[str, Any]:
    """Due at random instants, 2,000 a second on average, all stored before the first."""
    count = bench.count(RATE_PER_S * seconds)
    span = Span(now_ms() + bench.lead_ms(count), count * SECOND_MS // RATE_PER_S)
    await loader.schedule(queue, count, span)
    return await receiver.collect(count)


async def drained_per_s(bench: Bench, server: Server, loader: Loader) -> float:
    """Of what is due at one instant, to a worker with a handler for batches: the median of three bursts."""
    return statistics.median([await _burst(bench, server, loader) for _ in range(BURSTS)])


async def _burst(bench: Bench, server: Server, loader: Loader) -> float:
    receiver = await bench.receiver(server, loader, "burst", batches=True, compact=True)
    count = bench.count(BURST)
    await loader.schedule("burst", count, Span(now_ms() + bench.lead_ms(count), INSTANT_MS))
    got = await receiver.collect(count, compact=True)
    await receiver.stop()
    rate: float = count / got["max_ms"] * 1e3
    return rate
