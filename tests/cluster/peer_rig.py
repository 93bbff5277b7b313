"""Two instances, a and b, in a bucket that is placed on b; calls go through a."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Self

import pytest

from timerd.client import Client
from timerd.core.cluster.placement import holder_of
from timerd.model.identity import parse_task_id
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.ports import Hints, Store
from timerd.sdk.values.times import datetime_of_ms, instant_ms
from timerd.services.engine.verbs import AskedMove
from timerd.services.peers.peers import Peers
from timerd.testing import Cluster, Worker
from timerd.testing.async_server import START
from timerd.worker import Delivery

NAMES = ("a", "b")
# A machine that is busy with other things is not to be taken for a dead holder.
PATIENCE_S = 20.0


def bucket_on(name: str, after: datetime = START) -> Partition:
    """The first one from there that is placed on the instance."""
    bucket_ms = bucket_of(instant_ms(after, "after"))
    while holder_of(Partition(TIME_SCOPE, bucket_ms, 0), NAMES) != name:
        bucket_ms += BUCKET_MS
    return Partition(TIME_SCOPE, bucket_ms, 0)


@dataclass
class Pair:
    """Its clock stands a few seconds into the bucket."""

    bucket: Partition = field(default_factory=lambda: bucket_on("b"))
    got: list[tuple[bytes, datetime]] = field(default_factory=list)
    patch: pytest.MonkeyPatch = field(default_factory=pytest.MonkeyPatch)
    hints: Callable[[], Hints] | None = None
    store: Store | None = None

    async def __aenter__(self) -> Self:
        self.patch.setattr("timerd.services.peers.peers.DEADLINE_S", PATIENCE_S)
        start = datetime_of_ms(self.bucket.bucket_ms)
        self.cluster = Cluster(*NAMES, store=self.store, start=start, hints=self.hints)
        await self.cluster.__aenter__()
        self.client = self.cluster.client("a")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cluster.__aexit__()
        self.patch.undo()

    @property
    def payloads(self) -> list[bytes]:
        return [payload for payload, _ in self.got]

    async def works(
        self, name: str = "b", after: Callable[[Delivery], object] | None = None, *, shield: bool = False
    ) -> Worker:
        """For the queue "q", at home with that instance."""
        worker = self.cluster.worker(name)

        @worker.on("q", shield=shield)
        async def take(delivery: Delivery) -> None:
            self.got.append((delivery.payload, self.cluster.now))
            if after is not None:
                found = after(delivery)
                if asyncio.iscoroutine(found):
                    await found

        await worker.start()
        return worker

    async def b_holds(self, bucket: Partition | None = None) -> Client:
        """Returns when b holds the bucket, with a client of b."""
        client = self.cluster.client("b")
        bucket = bucket or self.bucket
        await client.schedule("other", b"", at=datetime_of_ms(bucket.end_ms - 1))
        await self.cluster.settle()
        assert await self.cluster.holders(bucket) == ["b"]
        return client

    async def hinted(self, name: str = "b", rows: int = 1) -> None:
        """Until so many rows wait there."""
        scheduler = self.cluster.instances[name].node.scheduler
        await until(lambda: sum(m.waiting_rows for m in scheduler.machines.values()) >= rows)

    async def moves_at_once(self, task: str, seconds: float) -> None:
        """As a's server answers it; the client would try again and again."""
        named = parse_task_id(task)
        assert named is not None
        fire_at_ms = instant_ms(self.cluster.now, "now") + int(seconds * 1000)
        asked = AskedMove("move", named, fire_at_ms, 0)
        (said,) = await self.cluster.instances["a"].node.engine.reschedule("default", [asked])
        if not isinstance(said, int):
            raise said

    def in_a_second(self) -> datetime:
        return self.cluster.now + timedelta(seconds=1)


async def until(is_so: Callable[[], bool]) -> None:
    """What travels between instances takes real time."""
    async with asyncio.timeout(PATIENCE_S):
        for _ in count():
            if is_so():
                return
            await asyncio.sleep(0.001)


def hints_are_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Peers, "hint", lambda *_: None)


def holder_hangs(patch: pytest.MonkeyPatch) -> None:
    """Questions reach it and are not answered, as by a process that was stopped."""

    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    patch.setattr("timerd.services.peers.peer_service.admit", hang)
    patch.setattr("timerd.services.peers.peers.DEADLINE_S", 0.2)
