"""`python -m tests.engines.outage`: nobody was there for 72 hours, each bucket of which has tasks; then instances start
on a real Cassandra, and others schedule what is due now (guarantee G14).

What was missed is put into the store as if it had been scheduled in good time. Said is how long it took to catch up,
whether the oldest came first, and how late what was on time was meanwhile and afterwards. The exit code is 0 only if
everything came once and in order.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import numpy as np

from tests.engines.finding import Found
from tests.engines.instances import Instance, end_all, start_all
from tests.engines.keyspace import opened, settings_for
from tests.engines.starting import CANNOT_START, fresh_store
from timerd.client import Client
from timerd.core.instance_machine import MISSED_OPEN
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.ports import Append
from timerd.testing.contracts.build import MAILS, tasks
from timerd.worker import Delivery, Worker

ON_TIME = "punctual"
EVERY_S = 0.05
LEAD = timedelta(seconds=1)
PATIENCE_S = 1_800.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Outage:
    """`bucket_every`: one bucket of so many has tasks."""

    hours: int = 72
    bucket_every: int = 1
    tasks: int = 4
    shards: int = 4

    def missed(self, until_ms: int) -> list[int]:
        """The instants of the tasks, all different, the oldest first."""
        last_ms = bucket_of(until_ms) - 3 * BUCKET_MS
        step_ms = self.bucket_every * BUCKET_MS
        buckets = range(last_ms - self.hours * 3_600_000, last_ms, step_ms)
        return [bucket_ms + n * (BUCKET_MS // self.tasks) for bucket_ms in buckets for n in range(self.tasks)]


@dataclass
class Story:
    """What came, in its order. `late_ms`: of tasks that were on time, while others were made up for, and after."""

    missed: Sequence[int]
    instances: int = 1
    arrived: list[int] = field(default_factory=list)
    late_ms: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})
    early: int = 0
    seconds: float = 0.0
    made_up_for: asyncio.Event = field(default_factory=asyncio.Event)
    _left: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._left = set(self.missed)

    def take(self, delivery: Delivery) -> None:
        self.arrived.append(delivery.fire_at_ms)
        self._left.discard(delivery.fire_at_ms)
        if not self._left:
            self.made_up_for.set()

    def take_on_time(self, delivery: Delivery) -> None:
        late_ms = time.time_ns() / 1e6 - delivery.fire_at_ms
        self.early += late_ms < 0
        self.late_ms[self.made_up_for.is_set()].append(late_ms)

    @property
    def lost(self) -> int:
        return len(set(self.missed) - set(self.arrived))

    @property
    def twice(self) -> int:
        return sum(count - 1 for count in Counter(self.arrived).values())

    @property
    def most_ahead(self) -> int:
        """How many older buckets something of had not come yet when a task of a bucket came, at most."""
        left = Counter(bucket_of(at_ms) for at_ms in self.missed)
        order, most = sorted(left), 0
        for at_ms in dict.fromkeys(self.arrived):
            while order and not left[order[0]]:
                order.pop(0)
            older = [bucket_ms for bucket_ms in order[: 2 * self.allowed_ahead] if bucket_ms < bucket_of(at_ms)]
            most = max(most, sum(left[bucket_ms] > 0 for bucket_ms in older))
            left[bucket_of(at_ms)] -= 1
        return most

    @property
    def allowed_ahead(self) -> int:
        """Each instance has so many open at a time."""
        return MISSED_OPEN * self.instances

    @property
    def holds(self) -> bool:
        return not (self.lost or self.twice or self.early) and self.most_ahead <= self.allowed_ahead


async def put(found: Found, keyspace: str, outage: Outage) -> list[int]:
    """What nobody has seen to; returns the instants."""
    missed = outage.missed(now_ms())
    group = tasks("missed", missed)
    buckets = group.columns["position_ms"] // BUCKET_MS * BUCKET_MS
    shards = group.columns["index"] % outage.shards
    parts = [
        (
            Partition(TIME_SCOPE, bucket_ms, shard),
            group.select(np.flatnonzero((buckets == bucket_ms) & (shards == shard))),
        )
        for bucket_ms in np.unique(buckets).tolist()
        for shard in range(outage.shards)
    ]
    store = await opened(settings_for(found, keyspace=keyspace), now_ms)
    try:
        await store.append([Append(tuple((p, rows) for p, rows in parts if len(rows)), b"missed......", b"stored")])
    finally:
        await store.close()
    return missed


@asynccontextmanager
async def served(found: Found, keyspace: str, folder: Path, count: int, shards: int) -> AsyncIterator[list[Instance]]:
    options = ("--shards", str(shards))
    instances = [Instance(f"timerd-{n + 1}", found, keyspace, folder, *options) for n in range(count)]
    try:
        await asyncio.to_thread(start_all, instances)
        yield instances
        await asyncio.gather(*(asyncio.to_thread(instance.terminate) for instance in instances))
    finally:
        end_all(instances)


async def caught_up(addresses: Sequence[str], story: Story, afterwards_s: float) -> None:
    """Until all that was missed has come, and so long on."""
    worker = Worker("ipv4:" + ",".join(addresses))

    @worker.on(MAILS.queue, concurrency=200)
    async def take(delivery: Delivery) -> None:
        story.take(delivery)

    @worker.on(ON_TIME, concurrency=200)
    async def take_on_time(delivery: Delivery) -> None:
        story.take_on_time(delivery)

    begun_s = time.monotonic()
    running = [asyncio.create_task(worker.run()), asyncio.create_task(_on_time(addresses[0]))]
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(story.made_up_for.wait(), PATIENCE_S)
        story.seconds = time.monotonic() - begun_s
        await asyncio.sleep(afterwards_s)
        running[1].cancel()
        await worker.stop()
    finally:
        for each in running:
            each.cancel()
        await asyncio.wait(running)


async def _on_time(address: str) -> None:
    """Something is due all the time."""
    async with Client(address) as client:
        while True:
            await client.schedule(ON_TIME, b"now", delay=LEAD)
            await asyncio.sleep(EVERY_S)


async def played(
    found: Found, keyspace: str, folder: Path, outage: Outage, instances: int = 1, afterwards_s: float = 1.0
) -> Story:
    story = Story(await put(found, keyspace, outage), instances)
    async with served(found, keyspace, folder, instances, outage.shards) as running:
        await caught_up([each.address for each in running], story, afterwards_s)
    return story


def said(story: Story, outage: Outage) -> str:
    buckets = len({bucket_of(at_ms) for at_ms in story.missed})
    lines = [
        f"{outage.hours} h without anybody, {buckets} buckets of {outage.shards} shards and {len(story.missed)} tasks, "
        f"then {story.instances} instance(s)",
        f"caught up after {story.seconds:.1f} s: {buckets / story.seconds:.1f} buckets/s",
        f"lost {story.lost}, twice {story.twice}, early {story.early}; at most {story.most_ahead} older buckets "
        f"were passed, of {story.allowed_ahead} that may be",
    ]
    for is_after, when in ((False, "meanwhile"), (True, "afterwards")):
        late_ms = sorted(story.late_ms[is_after])
        if late_ms:
            p50, p99 = late_ms[len(late_ms) // 2], late_ms[len(late_ms) * 99 // 100]
            lines.append(f"on time, {when}: {len(late_ms)} tasks, late p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.engines.outage", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=int, default=Outage.hours)
    parser.add_argument("--tasks", type=int, default=Outage.tasks, help="of each bucket")
    parser.add_argument("--shards", type=int, default=Outage.shards)
    parser.add_argument("--instances", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outage = Outage(given.hours, 1, given.tasks, given.shards)
    try:
        with fresh_store("timerd_outage") as (found, keyspace), tempfile.TemporaryDirectory() as folder:
            story = asyncio.run(played(found, keyspace, Path(folder), outage, given.instances, afterwards_s=20.0))
    except CANNOT_START as reason:
        print(reason, file=sys.stderr)
        return 1
    print(said(story, outage))
    return 0 if story.holds else 1


if __name__ == "__main__":
    sys.exit(main())
