"""What a cluster asks of its store at rest and at work: lightweight transactions, serial reads and row calls a second.

    python -m benchmarks.store_calls [--rates 0,100,10000] [--instances 3] [--shards 4]

Three instances on one store in RAM, with a clock that is turned: numbers of calls, not how long they take. Tasks come
once a second, those of a second are due at one instant ten seconds later, and are acknowledged at once. The slower
rates are watched over a whole bucket and its end, the fastest for twenty seconds within one.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

from timerd.adapters.memory import MemoryStore
from timerd.model.registers import RegisterKey
from timerd.model.storage import Cas
from timerd.ports import Store
from timerd.testing import Cluster
from timerd.testing.async_server import CONFIG
from timerd.worker import Delivery

QUEUE = "mails"
LEAD_S = 10
LONG_S, SHORT_S = 330, 20
# From here on a whole bucket would be millions of tasks.
MANY = 5_000
MESSAGE = 5_000
# In hand of one worker.
AT_ONCE = 4_000


class Counting:
    """A store that counts what it is asked for."""

    def __init__(self, store: Store) -> None:
        self.traits = store.traits
        self.counts: Counter[str] = Counter()
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)

        async def counted(*given: Any, **settings: Any) -> object:  # noqa: ANN401 - any call of the store
            if name == "cas":
                self.counts.update(f"cas {change.key.table}" for change in cast(Sequence[Cas], given[0]))
            elif name == "read":
                self.counts.update(f"serial read {key.table}" for key in cast(Sequence[RegisterKey], given[0]))
            else:
                self.counts[name] += 1
            return await method(*given, **settings)

        return counted


async def measure(rate: int, instances: int, shards: int, seconds: int) -> Counter[str]:
    """Calls in a second of the whole cluster, by kind."""
    store = Counting(cast(Store, MemoryStore()))
    names = [f"i{n}" for n in range(instances)]
    config = replace(CONFIG, shards=shards)
    async with Cluster(*names, store=cast(Store, store), config=config, patience_s=120) as cluster:
        for name in names:
            worker = cluster.worker(name)

            @worker.on(QUEUE, concurrency=AT_ONCE)
            async def take(delivery: Delivery) -> None:
                """Acknowledged by returning."""

            await worker.start()
        client = cluster.client(names[0])

        async def work(span_s: int) -> None:
            for _ in range(span_s):
                due = cluster.now + timedelta(seconds=LEAD_S)
                for first in range(0, rate, MESSAGE):
                    count = min(MESSAGE, rate - first)
                    items = [(b"x" * 200, due)] * count
                    await client.schedule_many(QUEUE, items)
                await cluster.advance(seconds=1)

        await work(LEAD_S + 5)
        before = store.counts.copy()
        await work(seconds)
        return Counter({kind: n / seconds for kind, n in (store.counts - before).items()})


def show(rate: int, calls: Counter[str]) -> None:
    cas = sum(n for kind, n in calls.items() if kind.startswith("cas"))
    reads = sum(n for kind, n in calls.items() if kind.startswith("serial"))
    print(f"\n{rate:,} tasks/s: {cas:.2f} LWT/s, {reads:.2f} serial reads/s", flush=True)
    for kind, per_s in sorted(calls.items(), key=lambda item: -item[1]):
        print(f"  {kind:<32} {per_s:9.2f} /s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="0,100,10000")
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--shards", type=int, default=4)
    given = parser.parse_args()
    logging.disable(logging.ERROR)
    for rate in map(int, given.rates.split(",")):
        seconds = LONG_S if rate < MANY else SHORT_S
        show(rate, asyncio.run(measure(rate, given.instances, given.shards, seconds)))


if __name__ == "__main__":
    main()
