"""Redis streams: 50,000 tasks due at one instant for one stream, each known for an hour, then without that.

What an entry takes of a core of the server is what bounds an instance: it is made, sent in a round of up to 500, and
its task acknowledged. Redis has each round on disk before its answer (appendfsync always). With it beside the server on
two cores, the rate by the clock is lower than what a core could do.
"""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from benchmarks.bench import PATIENCE_S, Bench, Loader, Span, none_lost, now_ms
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.processes import Server
from benchmarks.redis_process import start_redis

TITLE = "Redis streams"
TASKS = 50_000
# Queue (and stream) -> for how many seconds a repeat is known.
QUEUES = {"known": 3_600, "unknown": 0}
LOOK_EVERY_S = 0.02


async def run(bench: Bench) -> list[Figure]:
    folder = bench.folder / "redis"
    folder.mkdir()
    url = f"redis://127.0.0.1:{await start_redis(bench.stack, folder)}"
    file = bench.folder / "streams.toml"
    file.write_text("".join(f'[{name}]\nurl = "{url}"\nrepeats_known_s = {s}\n' for name, s in QUEUES.items()))
    server = await bench.server("--set", f"streams.targets_file={file}")
    loader = await bench.loader(server)
    redis: Redis = Redis.from_url(url, protocol=2)
    bench.stack.push_async_callback(redis.aclose)
    figures: list[Figure] = []
    for queue, name in (("known", "repeats known"), ("unknown", "repeats not known")):
        count = bench.count(TASKS)
        span_s, cpu_s = await _appended(bench, server, loader, redis, queue, count)
        floor = at_least(10_000) if queue == "known" else None
        figures += [
            Figure(f"{name}, a core of the server", count / cpu_s, "entries/s", floor, headline=floor is not None),
            Figure(f"{name}, by the clock", count / span_s, "entries/s"),
        ]
        figures.append(Figure(f"{name}, twice", await redis.xlen(queue) - count, "entries", at_most(0)))
    return figures


async def _appended(
    bench: Bench, server: Server, loader: Loader, redis: Redis, queue: str, count: int
) -> tuple[float, float]:
    """(seconds from their instant until all are in the stream, processor time of the server meanwhile)."""
    span = Span(now_ms() + bench.lead_ms(count), 1)
    await loader.schedule(queue, count, span)
    await asyncio.sleep(max(0, span.from_ms - now_ms() - 50) / 1e3)
    cpu_s = server.cpu_s()
    async with asyncio.timeout(PATIENCE_S):
        while await redis.xlen(queue) < count:  # noqa: ASYNC110 - Redis tells nobody
            await asyncio.sleep(LOOK_EVERY_S)
    span_s = (now_ms() - span.from_ms) / 1e3
    none_lost("appended", count, await redis.xlen(queue))
    # The last acknowledgements are written yet.
    await asyncio.sleep(bench.seconds(0.5, least=0.1))
    return max(span_s, 1e-3), max(server.cpu_s() - cpu_s, 1e-3)
