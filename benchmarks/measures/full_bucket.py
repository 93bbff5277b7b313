"""A full bucket: 3.5 million tasks of 200 bytes within five minutes, loaded ahead by a fresh server, then fired.

The server is started anew before its bucket comes near, so that its peak of memory is the load's and not that of
storing. Lateness is that of all 3.5 million over the five minutes, 11,600 a second, settles and seals included.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.bench import MINUTE_MS, SECOND_MS, SMALL, Bench, Loader, Span, now_ms
from benchmarks.figures import BenchmarkFailed, Figure, TooBusy, at_most

TITLE = "3.5 million in one bucket"
TASKS = 3_500_000
BUCKET_MS = 5 * MINUTE_MS
# A bucket is loaded so long before it begins.
AHEAD_MS = 90 * SECOND_MS
RESTART_MS = 10 * SECOND_MS
SMALL_IN_MS = 4 * SECOND_MS
MIB = 1 << 20
LOOK_EVERY_S = 0.02
PATIENCE_S = 900.0
LONG = True


async def run(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader = await bench.loader(server)
    count = bench.count(TASKS)
    span = _bucket(bench, count)
    await loader.schedule("full", count, span)
    await server.stop()
    server = await bench.again(server)
    receiver = await bench.receiver(server, loader, "full", batches=True, compact=True)
    load_s = await _loaded(loader, count, span)
    peak_bytes = server.rss_peak_bytes()
    got = await receiver.collect(count, compact=True, patience_s=PATIENCE_S)
    whole_bytes = server.rss_peak_bytes()
    await receiver.stop()
    await bench.stack.aclose()
    return [
        Figure("load", load_s, "s", at_most(5), headline=True),
        Figure("RSS peak of the load", peak_bytes / MIB, "MiB", at_most(920 * 1e6 / MIB), headline=True),
        Figure("RSS peak of all", whole_bytes / MIB, "MiB", at_most(920 * 1e6 / MIB)),
        Figure("lateness, p50", got["p50_ms"], "ms"),
        Figure("lateness, p99", got["p99_ms"], "ms", at_most(5), headline=True),
        Figure("early", got["early"], "tasks", at_most(0)),
        Figure("twice", got["received"] - count, "tasks", at_most(0)),
    ]


def _bucket(bench: Bench, count: int) -> Span:
    """The next whole one that is not near yet when all are stored. In a small run, a few seconds of what is near."""
    first_ms = now_ms() + bench.lead_ms(count) + RESTART_MS + AHEAD_MS
    if bench.scale < SMALL:
        return Span(now_ms() + bench.slack * SMALL_IN_MS, SECOND_MS)
    return Span(-(-first_ms // BUCKET_MS) * BUCKET_MS, BUCKET_MS)


async def _loaded(loader: Loader, count: int, span: Span) -> float:
    """From the first task that is seen loaded to the last."""
    begun = None
    end_s = time.monotonic() + PATIENCE_S
    while (loaded := (await loader.info())["loaded"]) < count:
        if begun is None and loaded:
            begun = time.monotonic()
        if now_ms() > span.from_ms:
            raise TooBusy(f"{loaded:,} of {count:,} tasks were loaded when the first was due.")
        if time.monotonic() > end_s:
            raise BenchmarkFailed(f"{loaded:,} of {count:,} tasks were loaded after {PATIENCE_S:.0f} s.")
        await asyncio.sleep(LOOK_EVERY_S)
    return time.monotonic() - begun if begun else 0.0
