"""Schedules on three instances: how fast they are created, and what each of their ticks asks of the store.

2,000 daily ones are created in messages of 500. Then 200 of every second have a minute, to a worker: what all three
instances ask in that time, beyond what they ask at rest, is held against their ticks. No fire asks for a lightweight
transaction: each task is an ordinary one.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import available_timezones

from benchmarks.cluster.calls import Counted, counted_instances
from benchmarks.cluster.counting import LWT, SERIAL_READS
from benchmarks.figures import Figure, at_least, at_most
from timerd.client import Client, NewSchedule
from timerd.worker import Delivery, Worker

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.cluster.stage import Stage

TITLE = "Schedules on three instances"
DAILY, MESSAGE = 2_000, 500
OFTEN = 200
REST_S, SECONDS, SETTLE_S = 20.0, 60.0, 5.0
ZONES = sorted(zone for zone in available_timezones() if "/" in zone)[:50]


class Asked(NamedTuple):
    """By all of them: `fires` came to the worker meanwhile."""

    lwt: float
    serial_reads: float
    ticks: int
    fires: int


async def run(bench: Bench, stage: Stage) -> list[Figure]:
    async with stage.keyspace() as settings, counted_instances(settings) as instances:
        async with Client(instances[0].node.address, timeout=60) as client:
            seconds = bench.seconds(REST_S, least=2)
            rest = await _asked(instances, seconds, [])
            created = await _created(client, bench.count(DAILY, least=50))
            work = await _often(bench, client, instances)
        return [created, *_of_ticks(rest, work, bench.seconds(SECONDS, least=3) / seconds)]


async def _created(client: Client, count: int) -> Figure:
    made = [
        NewSchedule(f"d{n}", queue="daily", cron=f"{n % 60} {n // 60 % 24} * * *", zone=ZONES[n % len(ZONES)])
        for n in range(count)
    ]
    begun_s = time.perf_counter()
    for at in range(0, count, MESSAGE):
        await client.schedules.create_many(made[at : at + MESSAGE])
    return Figure("created", count / (time.perf_counter() - begun_s), "schedules/s", at_least(300), headline=True)


async def _often(bench: Bench, client: Client, instances: Sequence[Counted]) -> Asked:
    worker, came = Worker(instances[0].node.address), list[str]()

    @worker.on("often")
    async def note(delivery: Delivery) -> None:
        came.append(delivery.task_id)

    working = asyncio.create_task(worker.run())
    await client.schedules.create_many(
        NewSchedule(f"s{n}", queue="often", every=1) for n in range(bench.count(OFTEN, least=5))
    )
    await asyncio.sleep(bench.seconds(SETTLE_S, least=1))
    asked = await _asked(instances, bench.seconds(SECONDS, least=3), came)
    await worker.stop()
    await working
    return asked


async def _asked(instances: Sequence[Counted], seconds: float, came: list[str]) -> Asked:
    for each in instances:
        each.driver.count_anew()
    ticks, fires = _ticks(instances), len(came)
    await asyncio.sleep(seconds)
    requests = sum((each.driver.requests for each in instances), Counter[str]())
    lwt, serial_reads = (
        sum(count for kind, count in requests.items() if kind.startswith(wanted)) for wanted in (LWT, SERIAL_READS)
    )
    return Asked(lwt, serial_reads, _ticks(instances) - ticks, len(came) - fires)


def _ticks(instances: Sequence[Counted]) -> int:
    workers = [each.node.ticks for each in instances]
    return sum(worker.stats.ticks.total() for worker in workers if worker is not None)


def _of_ticks(rest: Asked, work: Asked, times: float) -> list[Figure]:
    """`times`: how much longer the work was looked at than the rest."""
    ticks = max(1, work.ticks)
    return [
        Figure("LWT a tick", (work.lwt - times * rest.lwt) / ticks, "", at_most(1.5)),
        Figure("serial reads a tick", (work.serial_reads - times * rest.serial_reads) / ticks, "", at_most(1.5)),
        Figure("ticks", work.ticks, ""),
        Figure("fires meanwhile", work.fires, "tasks"),
    ]
