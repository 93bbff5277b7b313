"""Results and waits on several instances: one has the worker, one holds the task, one has who waits."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from timerd.client import FailedPrecondition, TaskState
from timerd.model import codec
from timerd.testing import Cluster
from timerd.worker import Delivery

TASKS = 12
DAY = timedelta(hours=24)


async def doubles(cluster: Cluster, name: str) -> None:
    worker = cluster.worker(name)

    @worker.on("sums")
    async def double(delivery: Delivery) -> bytes:
        return delivery.payload * 2

    await worker.start()


async def test_whoever_holds_the_task_its_result_is_there_when_it_has_ended() -> None:
    """Over several buckets, so that each instance holds some."""
    async with Cluster("a", "b", "c") as cluster:
        await doubles(cluster, "a")
        tasks = [
            await cluster.client("b").schedule("sums", b"%d" % n, delay=20 + n * 30, keep_result=DAY)
            for n in range(TASKS)
        ]
        waits = [asyncio.create_task(cluster.client("c").wait(task.id)) for task in tasks]
        await cluster.advance(minutes=8)
        ended = await asyncio.gather(*waits)
    assert [(each.state, each.result) for each in ended] == [(TaskState.ACKED, b"%d%d" % (n, n)) for n in range(TASKS)]


async def test_a_wait_at_an_instance_that_is_killed_goes_on_at_another() -> None:
    async with Cluster("a", "b") as cluster:
        await doubles(cluster, "a")
        task = await cluster.client("a").schedule("sums", b"1", delay=120, keep_result=DAY)
        await cluster.kill("b")
        await cluster.advance(minutes=3)
        assert (await cluster.client("a").wait(task.id)).result == b"11"


async def test_while_an_instance_does_not_know_results_no_task_keeps_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would deliver the task without saying that its result is kept."""
    async with Cluster("a") as cluster:
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.KEEPS_RESULTS})
            await cluster.add("b")
        await cluster.advance(seconds=5)
        with pytest.raises(FailedPrecondition, match="Not every instance knows keep_result: b is of an older release"):
            await cluster.client("a").schedule("sums", b"1", delay=60, keep_result=DAY)
        await cluster.client("a").schedule("sums", b"1", delay=60)
