"""A cluster with a worker on each instance, a schedule over some buckets, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self

from timerd.core.cluster.membership import Timing
from timerd.core.cluster.placement import holder_of
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.sdk.values.times import datetime_of_ms, instant_ms
from timerd.testing import Cluster, Worker
from timerd.worker import Delivery

QUEUE = "mails"


@dataclass
class Crowd:
    """`after` says how handlers go on; by default they acknowledge at once."""

    names: tuple[str, ...] = ("a", "b", "c")
    timing: Timing = field(default_factory=Timing)
    planned: dict[bytes, datetime] = field(default_factory=dict)
    got: list[tuple[bytes, datetime, str]] = field(default_factory=list)
    after: Callable[[Delivery], Awaitable[None]] | None = None
    workers: dict[str, Worker] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        self.cluster = Cluster(*self.names, timing=self.timing)
        await self.cluster.__aenter__()
        for name in self.names:
            await self.works(name, *(other for other in self.names if other != name))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cluster.__aexit__()

    async def works(self, name: str, *others: str) -> None:
        """A worker that is at home there, and with the others when that one is gone."""
        worker = self.workers[name] = self.cluster.worker(name, *others)

        @worker.on(QUEUE, concurrency=64)
        async def take(delivery: Delivery) -> None:
            self.got.append((delivery.payload, self.cluster.now, name))
            if self.after is not None:
                await self.after(delivery)

        await worker.start()

    async def kill(self, name: str) -> None:
        """With its worker."""
        await self.workers.pop(name).kill()
        await self.cluster.kill(name)

    async def plan(self, count: int, span: timedelta, name: str = "a", first: timedelta = timedelta(seconds=3)) -> None:
        start = self.cluster.now + first
        new = {b"%d" % (len(self.planned) + n): start + span * n / count for n in range(count)}
        self.planned |= new
        await self.cluster.client(name).schedule_many(QUEUE, list(new.items()))

    def current(self) -> Partition:
        return Partition(TIME_SCOPE, bucket_of(instant_ms(self.cluster.now, "now")), 0)

    def bucket_that(self, chosen: Callable[[Partition], bool]) -> Partition:
        """The first from now on."""
        bucket = self.current()
        while not chosen(bucket):
            bucket = bucket._replace(bucket_ms=bucket.bucket_ms + BUCKET_MS)
        return bucket

    def bucket_of(self, name: str, *among: str) -> Partition:
        """The first from now on that is placed there."""
        return self.bucket_that(lambda bucket: holder_of(bucket, among or self.names) == name)

    def bucket_start_of(self, name: str) -> datetime:
        """Of the first bucket that is placed there."""
        return datetime_of_ms(self.bucket_of(name).bucket_ms)

    @property
    def missing(self) -> set[bytes]:
        return self.planned.keys() - {payload for payload, _, _ in self.got}

    @property
    def twice(self) -> list[bytes]:
        return [payload for payload, n in Counter(payload for payload, _, _ in self.got).items() if n > 1]

    def lateness_s(self) -> list[float]:
        """Of first deliveries, by when they came."""
        seen: dict[bytes, datetime] = {}
        for payload, at, _ in self.got:
            seen.setdefault(payload, at)
        return [(at - self.planned[payload]).total_seconds() for payload, at in seen.items()]
