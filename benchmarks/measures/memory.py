"""Memory per pending task: what the server's processes hold (PSS), divided by the tasks.

Near due, tasks are loaded: their bucket is held, their worker is connected, their instant is more than a minute away.
Far ones cost nothing. For both, the idle server with its connections is subtracted; for far ones the first half of the
tasks belongs to it too, because buffers that it fills once are no cost of a task; and it is given the time until it has
given back what is spare, without which the moment decides and not the tasks. What stands without subtraction is
all memory of the server divided by the tasks.
"""

from __future__ import annotations

import asyncio

from benchmarks.bench import DAY_MS, SECOND_MS, Bench, Span, now_ms
from benchmarks.figures import Figure, at_most
from benchmarks.processes import Server

TITLE = "Memory per pending task"
TASKS = 1_000_000
FAR_TASKS = 600_000
# A bucket is loaded 90 s before its start, so whatever is due before that is loaded.
NEAR_MS = 75 * SECOND_MS
NEAR_SPAN_MS = 10 * SECOND_MS
FAR_MS = DAY_MS
FAR_SPAN_MS = 30 * DAY_MS
# Two settles and a commit later nothing of the schedule is under way any more.
REST_S = 2.0
# Until the writer has rested as well.
FAR_REST_S = 8.0
MIB = 1 << 20
NEAR_FLOOR = at_most(260)
FAR_FLOOR = at_most(0)


async def run(bench: Bench) -> list[Figure]:
    return [*await _near(bench), *await _far(bench)]


async def _rested_bytes(bench: Bench, server: Server, rest_s: float = REST_S) -> int:
    await asyncio.sleep(bench.seconds(rest_s))
    return server.pss_bytes()


async def _near(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader = await bench.loader(server)
    await bench.receiver(server, loader, "near", batches=True)
    count, idle_bytes = bench.count(TASKS), await _rested_bytes(bench, server)
    await loader.schedule("near", count, Span(now_ms() + NEAR_MS, NEAR_SPAN_MS))
    await loader.wait_for(f"{count:,} tasks to be loaded", lambda info: info["loaded"] >= count)
    full_bytes = await _rested_bytes(bench, server)
    await bench.stack.aclose()
    return [
        Figure("near due", (full_bytes - idle_bytes) / count, "B/task", NEAR_FLOOR, headline=True),
        Figure("near due, nothing subtracted", full_bytes / count, "B/task"),
        Figure("idle server", idle_bytes / MIB, "MiB", headline=True),
    ]


async def _far(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader = await bench.loader(server)
    await bench.receiver(server, loader, "far", batches=True)
    count, sizes_bytes = bench.count(FAR_TASKS), [await _rested_bytes(bench, server)]
    span = Span(now_ms() + FAR_MS, FAR_SPAN_MS)
    for _ in range(2):
        await loader.schedule("far", count, span)
        sizes_bytes.append(await _rested_bytes(bench, server, FAR_REST_S))
    await loader.verify_stored("far", 2 * count, span)
    await bench.stack.aclose()
    idle_bytes, half_bytes, full_bytes = sizes_bytes
    return [
        Figure("far", (full_bytes - half_bytes) / count, "B/task", FAR_FLOOR, headline=True),
        Figure("far, first half", (half_bytes - idle_bytes) / count, "B/task"),
        Figure("far, nothing subtracted", full_bytes / (2 * count), "B/task"),
    ]
