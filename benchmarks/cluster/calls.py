"""What three instances ask of the store in a second, at rest and at work: lightweight transactions, serial reads, and
the share of what protects rather than stores: the read of the control row after each insert, and the reading of keys by
the sweep and after `closing` was raised.

The instances run in the process that counts, so numbers of requests are what counts here; `time` is the sum of how long
requests took, which says what a node and the way to it had to do with them. Messages are small: a hundred a second.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.bench import PATIENCE_S, SECOND_MS, Span, none_lost, now_ms
from benchmarks.cluster.counting import CONTROL_READS, KEY_SCANS, LWT, SERIAL_READS, CountingDriver
from benchmarks.figures import Figure
from timerd.adapters.alarm import make_alarm
from timerd.adapters.cassandra.store import CassandraStore
from timerd.adapters.clocks import SystemClock
from timerd.bootstrap import assemble
from timerd.config import ServerConfig
from timerd.core.cluster.membership import Timing
from timerd.services.node import Node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.bench import Bench
    from benchmarks.cluster.stage import Stage
    from timerd.adapters.cassandra.settings import CassandraSettings

TITLE = "What three instances ask of Cassandra"
RATES = (0, 100, 1_000)
SECONDS, LEAST_S = 30.0, 4.0
LEAD_S = 3
QUEUE = "calls"
DRAIN_MS = 1_000


@dataclass(frozen=True, slots=True)
class Asked:
    """By three instances in so many seconds."""

    seconds: float
    requests: Counter[str]
    microseconds: Counter[str]
    rows_read: Counter[str]

    def per_s(self, prefix: str) -> float:
        return sum(count for kind, count in self.requests.items() if kind.startswith(prefix)) / self.seconds

    def share(self, kind: str) -> float:
        return 100 * self.requests[kind] / max(1, self.requests.total())

    def time_share(self, kind: str) -> float:
        return 100 * self.microseconds[kind] / max(1, self.microseconds.total())


class Counted(NamedTuple):
    """An instance, and what it asks."""

    node: Node
    driver: CountingDriver


async def run(bench: Bench, stage: Stage) -> list[Figure]:
    figures: list[Figure] = []
    for rate in RATES:
        async with stage.keyspace() as settings, counted_instances(settings) as instances:
            asked = await _asked(bench, instances, rate)
        figures += _figures(rate, asked)
    return figures


def _figures(rate: int, asked: Asked) -> list[Figure]:
    at = f"at {rate:,} tasks/s"
    figures = [
        Figure(f"LWT, {at}", asked.per_s(LWT), "/s", headline=True),
        Figure(f"serial reads, {at}", asked.per_s(SERIAL_READS), "/s"),
        Figure(f"requests in all, {at}", asked.per_s(""), "/s"),
    ]
    if rate:
        figures.append(Figure(f"LWT a task, {at}", asked.per_s(LWT) / rate, ""))
    for kind in (CONTROL_READS, KEY_SCANS) if rate else (KEY_SCANS,):
        figures.append(Figure(f"{kind}, share of requests, {at}", asked.share(kind), "%"))
        figures.append(Figure(f"{kind}, share of their time, {at}", asked.time_share(kind), "%"))
    if rate:
        figures.append(Figure(f"keys read again a task, {at}", asked.rows_read[KEY_SCANS] / asked.seconds / rate, ""))
    return figures


@asynccontextmanager
async def counted_instances(settings: CassandraSettings) -> AsyncIterator[list[Counted]]:
    async with AsyncExitStack() as stack:
        instances = []
        for name in ("one", "two", "three"):
            instances.append(await _started(settings, name))
            stack.push_async_callback(instances[-1].node.stop, DRAIN_MS)
        yield instances


async def _started(settings: CassandraSettings, name: str) -> Counted:
    clock, loop = SystemClock(), asyncio.get_running_loop()
    driver = await asyncio.to_thread(CountingDriver.connect, settings)
    assert isinstance(driver, CountingDriver)
    driver.count_anew()
    store = await asyncio.to_thread(CassandraStore, driver, lambda: int(clock.wall_ms()))
    driver.attach(loop)
    config = replace(ServerConfig(), listen="127.0.0.1:0", store="cassandra")
    node = await assemble(config, store, clock, make_alarm, name, Timing())
    await node.start()
    return Counted(node, driver)


async def _asked(bench: Bench, instances: Sequence[Counted], rate: int) -> Asked:
    """After all had its beginning."""
    home, drivers = instances[0].node, [each.driver for each in instances]
    seconds = bench.seconds(SECONDS, LEAST_S)
    loader = await bench.loader(home)
    receiver = await bench.receiver(home, loader, QUEUE, batches=False)
    span = Span(now_ms() + LEAD_S * SECOND_MS, round((seconds + LEAD_S) * SECOND_MS))
    calling = asyncio.create_task(loader.trickle(QUEUE, rate, seconds + 2 * LEAD_S, span)) if rate else None
    await asyncio.sleep(2 * LEAD_S)
    for driver in drivers:
        driver.count_anew()
    await asyncio.sleep(seconds)
    asked = Asked(
        seconds,
        sum((driver.requests for driver in drivers), Counter()),
        sum((driver.microseconds for driver in drivers), Counter()),
        sum((driver.rows_read for driver in drivers), Counter()),
    )
    if calling is not None:
        stored = (await calling)["stored"]
        got = await receiver.child.ask("collect", count=stored, patience_s=PATIENCE_S)
        none_lost("delivered", stored, got["distinct"])
    await receiver.stop()
    await bench.stack.aclose()
    return asked
