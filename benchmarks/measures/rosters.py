"""The roster of a cycle whose members timerd keeps: how many are put and listed in a second, what each costs on disk
and all in memory, and how many are put while their slot is under way.

Keys of 16 bytes, put in messages of 10,000 by one client; the payload of a member is its key. The cycle of a day has
slots of 84 s, so hardly a member of it is due. Another one has a single slot, which is recorded already: there each
member gets its entry and its task before the reply.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from benchmarks.bench import HOUR_MS, Bench, Span, none_lost
from benchmarks.figures import Figure, at_most
from timerd.client import Client

TITLE = "Members of a cycle"
MEMBERS = 200_000
UNDER_WAY = 50_000
# Of the second cycle: its slot begins so much later, and is recorded by then.
BEFORE_S = 60
RECORDED_S = 1.0
REST_S = 8.0
MIB = 1 << 20
HOUR = timedelta(hours=1)


async def run(bench: Bench) -> list[Figure]:
    return [*await _roster(bench), *await _under_way(bench)]


def _keys(count: int) -> Iterable[str]:
    return (f"member-{number:09}" for number in range(count))


async def _roster(bench: Bench) -> list[Figure]:
    server = await bench.server()
    await asyncio.sleep(bench.seconds(REST_S))
    idle_bytes, count = server.pss_bytes(), bench.count(MEMBERS)
    async with Client(server.address, timeout=60) as client:
        await client.cycles.create("kept", every=timedelta(days=1), queue="members")
        put_s = await _put(client, "kept", count)
        begun_s = time.perf_counter()
        none_lost("listed", count, len({each.key async for each in client.cycles.members("kept")}))
        list_s = time.perf_counter() - begun_s
    await asyncio.sleep(bench.seconds(REST_S))
    beyond_bytes = server.pss_bytes() - idle_bytes
    await bench.stack.aclose()
    return [
        Figure("put, messages of 10,000", count / put_s, "members/s", headline=True),
        Figure("listed", count / list_s, "members/s"),
        Figure("disk of each, payload included", server.disk_bytes() / count, "B", at_most(64)),
        Figure("memory beyond an idle server", beyond_bytes / MIB, "MiB", at_most(64)),
    ]


async def _put(client: Client, cycle_id: str, count: int) -> float:
    begun_s = time.perf_counter()
    none_lost("put", count, await client.cycles.put(cycle_id, _keys(count)))
    return time.perf_counter() - begun_s


async def _under_way(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader, count = await bench.loader(server), bench.count(UNDER_WAY)
    origin = datetime.now(UTC).replace(microsecond=0) - HOUR + timedelta(seconds=BEFORE_S)
    async with Client(server.address, timeout=60) as client:
        await client.cycles.create("one", every=HOUR, slots=1, queue="members", origin=origin)
        await asyncio.sleep(RECORDED_S)
        seconds = await _put(client, "one", count)
    span = Span(round((origin + HOUR).timestamp() * 1e3), HOUR_MS)
    await loader.verify_stored("members", count, span)
    await bench.stack.aclose()
    return [Figure("put while their slot is under way, each with its task", count / seconds, "members/s")]
