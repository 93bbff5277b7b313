"""A cancel goes to the instance that holds the task, and its worker may hang on any other one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from timerd.client import CancelOutcome, TaskState
from timerd.core.dispatch import Interrupts
from timerd.testing import Cluster
from timerd.worker import Delivery, InterruptReason

# The first two are in hand for more than ten minutes in the end.
TASKS, OLD = 6, 2


class Work:
    """A handler that is at it for an hour, by a worker of the instance "b". What is in hand for less than ten minutes
    is held by "a"."""

    def __init__(self, cluster: Cluster) -> None:
        self.begun: dict[bytes, int] = {}
        self.reasons: dict[bytes, InterruptReason | None] = {}
        self.ids: dict[bytes, str] = {}
        self._cluster = cluster
        self.worker = cluster.worker("b")
        self.worker.on("exports", concurrency=2 * TASKS)(self._handle)

    async def _handle(self, delivery: Delivery) -> None:
        self.begun[delivery.payload] = delivery.attempt
        try:
            await self._cluster.sleep(hours=1)
        except asyncio.CancelledError:
            self.reasons[delivery.payload] = delivery.interrupted.reason
            raise

    async def begin(self) -> None:
        """Over so many buckets that both instances hold some."""
        await self.worker.start()
        for n in range(TASKS):
            task = await self._cluster.client("a").schedule("exports", b"%d" % n, delay=60 + n * 120)
            self.ids[b"%d" % n] = task.id
        await self._cluster.advance(minutes=14)
        assert self.begun == dict.fromkeys(self.ids, 1)

    async def cancel(self) -> None:
        outcomes = [await self._cluster.client("b").cancel(task) for task in self.ids.values()]
        assert outcomes == [CancelOutcome.IN_FLIGHT] * TASKS

    async def states(self) -> set[TaskState]:
        client = self._cluster.client("b")
        return {(await client.get(task)).state for task in self.ids.values()}


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster("a", "b") as running:
        yield running


async def test_wherever_the_task_is_held_its_worker_is_told(cluster: Cluster) -> None:
    work = Work(cluster)
    await work.begin()
    assert cluster.instances["a"].node.delivery.in_flight, "not where their worker is"
    await work.cancel()
    await cluster.settle()
    young = dict.fromkeys((b"%d" % n for n in range(OLD, TASKS)), InterruptReason.CANCELLED)
    assert young.items() <= work.reasons.items()
    # What a worker has for ten minutes may have another holder by then, who hears of the worker when it extends.
    await cluster.advance(seconds=2)
    assert work.reasons == dict.fromkeys(work.ids, InterruptReason.CANCELLED)
    assert await work.states() == {TaskState.CANCELLED}
    await cluster.advance(minutes=5)
    assert set(work.begun.values()) == {1}


async def test_what_is_lost_on_the_way_is_said_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(cluster)
    await work.begin()
    with monkeypatch.context() as lossy:
        lossy.setattr(Interrupts, "_tell_of", lambda *_: None)
        await work.cancel()
        await cluster.settle()
    assert work.reasons == {}
    await cluster.advance(seconds=2)
    assert work.reasons == dict.fromkeys(work.ids, InterruptReason.CANCELLED)
    assert await work.states() == {TaskState.CANCELLED}


async def test_when_the_instance_that_knows_of_it_is_gone_the_store_is_asked(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that it held are orphans of their worker's home then: all that can tell of the cancel is its mark."""
    work = Work(cluster)
    await work.begin()
    with monkeypatch.context() as lossy:
        lossy.setattr(Interrupts, "_tell_of", lambda *_: None)
        await work.cancel()
        await cluster.kill("a")
    await cluster.advance(minutes=2)
    assert work.reasons == dict.fromkeys(work.ids, InterruptReason.CANCELLED)
    await cluster.advance(minutes=5)
    assert set(work.begun.values()) == {1}
    client = cluster.client("b")
    assert {(await client.get(task)).state for task in work.ids.values()} == {TaskState.CANCELLED}


async def test_a_cancel_that_waits_hears_of_an_end_on_another_instance(cluster: Cluster) -> None:
    work = Work(cluster)
    await work.begin()
    client = cluster.client("b")
    cancels = [asyncio.create_task(client.cancel(task, wait=60)) for task in work.ids.values()]
    ends = cluster.instances["b"].node.server.api.ends
    while ends.waiting + sum(each.done() for each in cancels) < TASKS:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.001)
    await cluster.advance(seconds=2)
    outcomes = await asyncio.gather(*cancels)
    assert outcomes == [CancelOutcome.CANCELLED] * TASKS
