"""Progress on several instances: whichever has sent the task keeps what its worker says."""

from __future__ import annotations

import pytest

from timerd.client import Progress
from timerd.model import codec
from timerd.testing import Cluster
from timerd.worker import Delivery, Retry

TASKS = 12


async def fail_once(cluster: Cluster) -> dict[bytes, Progress | None]:
    """What the second attempts were told. The worker is on one instance, the tasks are on all."""
    told: dict[bytes, Progress | None] = {}
    worker = cluster.worker("a")

    @worker.on("exports")
    async def export(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            await delivery.progress(0.5, delivery.payload)
            raise Retry(1)
        told[delivery.payload] = delivery.previous_progress

    await worker.start()
    for n in range(TASKS):
        await cluster.client("a").schedule("exports", b"%d" % n, delay=60 + n * 120)
    await cluster.advance(minutes=30)
    return told


async def test_the_instance_that_has_sent_the_task_keeps_it() -> None:
    async with Cluster("a", "b") as cluster:
        assert await fail_once(cluster) == {b"%d" % n: Progress(0.5, b"%d" % n) for n in range(TASKS)}


async def test_while_an_instance_does_not_know_it_nobody_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster("a") as cluster:
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.PROGRESS})
            await cluster.add("old")
        await cluster.advance(seconds=5)
        assert await fail_once(cluster) == dict.fromkeys((b"%d" % n for n in range(TASKS)), None)
