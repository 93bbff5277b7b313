"""Two instances with one file of targets: each posts the tasks that it holds, and has its own count and its own breaker
of the target."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

from aiohttp import web

from tests.webhooks.conftest import config_of
from tests.webhooks.receiver import Received, Receiver, accept, receiving, statuses
from timerd.client import Task, TaskState
from timerd.core.cluster.placement import holder_of
from timerd.core.sinks.breaker import TargetState
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.sdk.values.times import datetime_of_ms, instant_ms
from timerd.testing import Cluster
from timerd.testing.async_server import START

NAMES, IN_FLIGHT, EACH = ("a", "b"), 3, 8
OF_A, OF_B, AFTER_BOTH = timedelta(seconds=5), timedelta(seconds=15), timedelta(seconds=20)
BUSY = statuses(503, headers={"Retry-After": "1"})


def start() -> datetime:
    """Ten seconds before the end of a bucket that a holds; the next one is for b."""
    bucket_ms = bucket_of(instant_ms(START, "start"))
    while [holder_of(Partition(TIME_SCOPE, bucket_ms + more, 0), NAMES) for more in (0, BUCKET_MS)] != [*NAMES]:
        bucket_ms += BUCKET_MS
    return datetime_of_ms(bucket_ms + BUCKET_MS - 10_000)


@asynccontextmanager
async def both(folder: Path) -> AsyncIterator[tuple[Cluster, Receiver]]:
    async with receiving() as receiver:
        config = config_of(folder, {"mails": (receiver, f"in_flight = {IN_FLIGHT}\ntimeout_s = 600")})
        async with Cluster(*NAMES, config=config, start=start()) as cluster:
            yield cluster, receiver


def state_of(cluster: Cluster, name: str) -> TargetState:
    webhooks = cluster.instances[name].node.webhooks
    assert webhooks is not None
    return webhooks.sinks[0].state


async def due_on_both(cluster: Cluster, receiver: Receiver) -> list[Task]:
    """Tasks that have come due on either instance, and wait: the target has asked for a pause."""
    receiver.answer = BUSY
    client = cluster.client("a")
    spans = [OF_A, OF_B] * EACH
    tasks = [await client.schedule("mails", b"%d" % number, delay=span) for number, span in enumerate(spans)]
    await cluster.advance(AFTER_BOTH)
    return tasks


class HeldAfterOne:
    """The first request of each instance is accepted, which ends its pause; those that follow are held until
    `goes_on`. `held`: by instance."""

    def __init__(self, cluster: Cluster) -> None:
        self.held: dict[str, list[Received]] = {name: [] for name in NAMES}
        self.goes_on = asyncio.Event()
        self._holders = {
            f"{each.scope}.{each.bucket_ms}.{each.shard}": name
            for name, running in cluster.instances.items()
            for each in running.holds()
        }
        self._accepted: set[str] = set()

    async def __call__(self, received: Received) -> web.Response:
        name = self._holders[received.headers["timerd-fencing-scope"]]
        if name in self._accepted:
            self.held[name].append(received)
            await self.goes_on.wait()
        self._accepted.add(name)
        return await accept(received)

    async def is_full(self) -> None:
        while {len(each) for each in self.held.values()} != {IN_FLIGHT}:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def test_each_instance_has_so_many_requests_open(tmp_path: Path) -> None:
    async with both(tmp_path) as (cluster, receiver):
        tasks = await due_on_both(cluster, receiver)
        receiver.answer = holding = HeldAfterOne(cluster)
        await holding.is_full()
        assert receiver.open == len(NAMES) * IN_FLIGHT
        holding.goes_on.set()
        await cluster.advance(minutes=1)
        assert receiver.most_open == len(NAMES) * IN_FLIGHT
        client = cluster.client("b")
        assert {(await client.get(task.id)).state for task in tasks} == {TaskState.ACKED}


async def test_what_a_killed_instance_had_open_is_posted_by_the_other(tmp_path: Path) -> None:
    """Nothing is lost; what comes again has its id."""
    async with both(tmp_path) as (cluster, receiver):
        tasks = await due_on_both(cluster, receiver)
        receiver.answer = holding = HeldAfterOne(cluster)
        await holding.is_full()
        before = len(receiver.got)
        await cluster.kill("a")
        receiver.answer = accept
        holding.goes_on.set()
        await cluster.advance(minutes=2)
        client = cluster.client("b")
        assert {(await client.get(task.id)).state for task in tasks} == {TaskState.ACKED}
        again = {each.headers["webhook-id"] for each in receiver.got[before:]}
        assert {each.headers["webhook-id"] for each in holding.held["a"]} <= again
        assert not {each.headers["webhook-id"] for each in holding.held["b"]} & again


async def test_each_instance_hears_for_itself_how_the_target_is(tmp_path: Path) -> None:
    """One that was told that the target is gone says nothing to the other, which is told with its next request."""
    async with both(tmp_path) as (cluster, receiver):
        receiver.answer = statuses(410)
        client = cluster.client("a")
        for span in (OF_A, OF_B):
            await client.schedule("mails", b"first", delay=span)
            await client.schedule("mails", b"later", delay=span + timedelta(seconds=2))
        await cluster.advance(AFTER_BOTH)
        assert [state_of(cluster, name) for name in NAMES] == [TargetState.PAUSED] * 2
        assert len(receiver.got) == len(NAMES)
