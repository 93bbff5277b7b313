"""Schedules: how many are created and listed in a second, what each one costs on disk and in memory, and an idle server
that has them.

Daily ones with a payload of 100 bytes, at each minute of the day, over many time zones, created in messages of 1,000 by
one client. Memory is what the server has beyond its idle start, after a restart: a schedule that is not due has no part
in it. The first fire is that of a schedule of every second, from the start of a server that has all the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from zoneinfo import available_timezones

from benchmarks.bench import PATIENCE_S, Bench, none_lost
from benchmarks.figures import BenchmarkFailed, Figure, at_least, at_most
from benchmarks.processes import Server
from timerd.client import Client, NewSchedule
from timerd.worker import Delivery, Worker

TITLE = "Schedules that are not due"
SCHEDULES = 20_000
PAYLOAD = b"x" * 100
ZONES = sorted(zone for zone in available_timezones() if "/" in zone)
IDLE_S = 5.0
REST_S = 8.0
MIB = 1 << 20
MINUTES_OF_A_DAY = 1_440


async def run(bench: Bench) -> list[Figure]:
    server = await bench.server()
    await asyncio.sleep(bench.seconds(REST_S))
    idle_bytes, count = server.pss_bytes(), bench.count(SCHEDULES)
    async with Client(server.address, timeout=60) as client:
        figures = [await _created(client, server, count), await _listed(client, count)]
        await client.schedules.create("often", queue="often", every=1)
    await server.stop()
    disk = Figure("disk of each, payload included", server.disk_bytes() / count, "B", at_most(900))
    figures += [disk, *await _again(bench, server, idle_bytes)]
    await bench.stack.aclose()
    return figures


async def _created(client: Client, server: Server, count: int) -> Figure:
    made = list(_daily(count))
    begun_s = time.perf_counter()
    results = await client.schedules.create_many(made)
    seconds = time.perf_counter() - begun_s
    none_lost("created", count, sum(each.revision == 1 for each in results))
    return Figure("created, messages of 1,000", count / seconds, "schedules/s", at_least(5_000), headline=True)


def _daily(count: int) -> Iterator[NewSchedule]:
    for number in range(count):
        hour, minute = divmod(number % MINUTES_OF_A_DAY, 60)
        zone = ZONES[number % len(ZONES)]
        yield NewSchedule(f"d{number}", queue="daily", payload=PAYLOAD, cron=f"{minute} {hour} * * *", zone=zone)


async def _listed(client: Client, count: int) -> Figure:
    begun_s = time.perf_counter()
    ids = {each.id async for each in client.schedules.list()}
    seconds = time.perf_counter() - begun_s
    none_lost("listed", count, len(ids))
    return Figure("listed", count / seconds, "schedules/s", at_least(20_000))


async def _again(bench: Bench, server: Server, idle_bytes: int) -> list[Figure]:
    """After a restart."""
    came = asyncio.Event()
    worker = Worker(server.address)

    @worker.on("often")
    async def note(delivery: Delivery) -> None:
        came.set()

    begun_s = time.perf_counter()
    again = await bench.again(server)
    working = asyncio.create_task(worker.run())
    try:
        await asyncio.wait_for(came.wait(), PATIENCE_S)
    except TimeoutError:
        raise BenchmarkFailed(f"Nothing of a schedule of every second came within {PATIENCE_S:.0f} s.") from None
    finally:
        fired_s = time.perf_counter() - begun_s
        await worker.stop()
        await working
    async with Client(again.address) as client:
        await client.schedules.pause("often")
    return [Figure("first fire after a start", fired_s, "s", at_most(2.0)), *await _at_rest(bench, again, idle_bytes)]


async def _at_rest(bench: Bench, server: Server, idle_bytes: int) -> list[Figure]:
    await asyncio.sleep(bench.seconds(REST_S))
    cpu_s, seconds = server.cpu_s(), bench.seconds(IDLE_S)
    await asyncio.sleep(seconds)
    share = (server.cpu_s() - cpu_s) / seconds
    return [
        Figure("memory beyond an idle server", (server.pss_bytes() - idle_bytes) / MIB, "MiB", at_most(20)),
        Figure("processor while idle", 100 * share, "%", at_most(1.0)),
    ]
