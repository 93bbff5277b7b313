"""How fast the Cassandra store takes rows in and gives them back, beside the bare driver on the same node in one run.

    python -m benchmarks.store_cassandra [--rows 40000] [--rounds 3] [--seed 1]

The node is that of TIMERD_TEST_CASSANDRA, or one is started from jars. The bare driver writes the same rows with the
same statement, one by one or a hundred in an unlogged batch, at the best of several in-flight settings, and reads
nothing afterwards; the store also reads what it must know of each partition. Compare within a run only.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from cassandra.query import BatchStatement, BatchType

from benchmarks.store_bulk import MINUTE_MS, machine, message
from tests.engines.finding import Found, cassandra
from tests.engines.keyspace import settings_for
from timerd.adapters.cassandra.codec import TASK_KIND, Shape
from timerd.adapters.cassandra.driver import ROWS, Driver
from timerd.adapters.cassandra.schema import apply_schema, check_schema
from timerd.adapters.cassandra.store import CassandraStore
from timerd.adapters.cassandra.tasks import insert_of
from timerd.model.codec import dump_json
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.registers import control_key
from timerd.ports import Append, Cas, CasStatus

IN_FLIGHT = (16, 64, 256)
BATCH = 100
Send = Callable[[Any], Awaitable[object]]


@dataclass
class Arm:
    """One way to write, and the best it reached."""

    name: str
    best_rows_per_s: float = 0.0
    in_flight: int = 0

    def note(self, rows_per_s: float, in_flight: int) -> None:
        if rows_per_s > self.best_rows_per_s:
            self.best_rows_per_s, self.in_flight = rows_per_s, in_flight

    def __str__(self) -> str:
        return f"{self.name:<44} {self.best_rows_per_s:>9,.0f} rows/s   at {self.in_flight} in flight"


async def driven(work: Sequence[Any], send: Send, in_flight: int) -> float:
    """Seconds."""
    waiting = iter(work)

    async def sender() -> None:
        for one in waiting:
            await send(one)

    begun = time.perf_counter()
    await asyncio.gather(*(sender() for _ in range(in_flight)))
    return time.perf_counter() - begun


class Bare:
    """The driver by itself, on the same bridge to the event loop, with nothing of ours around it."""

    def __init__(self, driver: Driver) -> None:
        self._session = driver._session
        self._send = driver._send
        self._insert = driver.prepare(insert_of(Shape.PLAIN), ROWS).prepared

    async def one(self, values: Sequence[object]) -> None:
        await self._send(self._insert.bind(values), ROWS, None)

    async def batch(self, rows: Sequence[Sequence[object]]) -> None:
        batch = BatchStatement(BatchType.UNLOGGED)
        for values in rows:
            batch.add(self._insert, values)
        await self._send(batch, ROWS, None)


def rows_of(messages: Sequence[Append], numbers: Iterator[int]) -> Iterator[tuple[object, ...]]:
    """What the bare driver binds."""
    for each in messages:
        for partition, group in each.groups:
            number, template = next(numbers), dump_json(group.templates[0].to_json())
            for at, key in enumerate(group.keys()):
                body = group.payload(at)
                yield (*partition, *key, TASK_KIND, number, template, len(body), body)


async def writes(store: CassandraStore, bare: Bare, arguments: argparse.Namespace) -> None:
    chance, numbers = np.random.default_rng(arguments.seed), count(1)
    names = ("bare, one by one", "store, messages of 1", "bare, batches", "store, messages of 1,000")
    arms = {name: Arm(name) for name in names}
    for _ in range(arguments.rounds):
        for in_flight in IN_FLIGHT:
            few = arguments.rows // 4
            singles = [message(chance, n, 1, 5 * MINUTE_MS) for n in range(2 * few)]
            values = list(rows_of(singles[:few], numbers))
            arms["bare, one by one"].note(few / await driven(values, bare.one, in_flight), in_flight)
            callers = in_flight * 4
            seconds = await driven([[one] for one in singles[few:]], store.append, callers)
            arms["store, messages of 1"].note(few / seconds, callers)
            bulk = [message(chance, n, 1_000, 5 * MINUTE_MS) for n in range(2 * arguments.rows // 1_000)]
            half = len(bulk) // 2
            values = list(rows_of(bulk[:half], numbers))
            parts = [values[at : at + BATCH] for at in range(0, len(values), BATCH)]
            parts = [part for part in parts if len({row[:3] for row in part}) == 1]
            rows = sum(map(len, parts))
            arms["bare, batches"].note(rows / await driven(parts, bare.batch, in_flight // 4), in_flight // 4)
            seconds = await driven([[one] for one in bulk[half:]], store.append, in_flight // 4)
            arms["store, messages of 1,000"].note(half * 1_000 / seconds, in_flight // 4)
    for arm in arms.values():
        print(arm)
    for kind, own in (("one by one", "messages of 1"), ("batches", "messages of 1,000")):
        ratio = arms[f"store, {own}"].best_rows_per_s / arms[f"bare, {kind}"].best_rows_per_s
        print(f"store : bare driver, {kind:<23} {ratio:>9.2f}")


async def reads(store: CassandraStore, arguments: argparse.Namespace) -> None:
    chance = np.random.default_rng(arguments.seed + 1)
    one = message(chance, 1, 1_000, MINUTE_MS)
    partition = one.groups[0][0]._replace(shard=99)
    groups = [message(chance, n, 1_000, MINUTE_MS).groups[0][1] for n in range(arguments.rows // 1_000)]
    for group in groups:
        await store.append([replace(one, groups=((partition, group),))])
    for kind, keys_only in (("keys and payloads", False), ("keys", True)):
        seconds = [await scanned(store, partition, keys_only) for _ in range(arguments.rounds)]
        rows = 1_000 * len(groups)
        print(f"{f'scan of {rows:,} rows, {kind}':<44} {rows / min(seconds):>9,.0f} rows/s")
    await store.drop(partition)
    await transactions(store)


async def scanned(store: CassandraStore, partition: Partition, keys_only: bool) -> float:
    """Seconds."""
    begun, cursor, done = time.perf_counter(), 0, False
    while not done:
        page = await store.scan(partition, 0, 1 << 60, cursor, 8 << 20, keys_only=keys_only)
        cursor, done = page.cursor, page.done
    return time.perf_counter() - begun


async def transactions(store: CassandraStore) -> None:
    key = control_key(Partition(TIME_SCOPE, 0, 0))
    waits: list[float] = []
    (value,) = await store.read([key])
    for n in range(200):
        begun, new = time.perf_counter(), b"%d.%d" % (time.time_ns(), n)
        (result,) = await store.cas([Cas(key, value, new)])
        waits.append(time.perf_counter() - begun)
        value = new if result.status is CasStatus.APPLIED else (await store.read([key]))[0]
    waits.sort()
    print(f"{'compare-and-set of one register':<44} p50 {waits[100] * 1e3:.1f} ms   p99 {waits[198] * 1e3:.1f} ms")


async def run(found: Found, arguments: argparse.Namespace) -> None:
    settings = settings_for(found, keyspace="timerd_bench")
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, apply_schema, settings)
    store = await CassandraStore.open(settings, lambda: time.time_ns() // 1_000_000)
    driver = await loop.run_in_executor(None, Driver.connect, replace(settings, most_in_flight=max(IN_FLIGHT)))
    check_schema(driver)
    driver.attach(loop)
    await writes(store, Bare(driver), arguments)
    await reads(store, arguments)
    driver.run("DROP KEYSPACE timerd_bench")
    await store.close()
    await driver.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with cassandra(quick_start=False) as found:
        print("; ".join(machine()), f"; seed {arguments.seed}; {found.how}")
        asyncio.run(run(found, arguments))


if __name__ == "__main__":
    main()
