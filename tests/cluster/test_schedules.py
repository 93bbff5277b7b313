"""Schedules on several instances: any of them takes calls, each works the ticks that it holds, and one that dies
neither loses nor doubles an instant."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from timerd.testing import Cluster
from timerd.worker import Delivery


class Log:
    """What the workers of a cluster have been given: for each instant its tasks, and the payloads."""

    def __init__(self) -> None:
        self.tasks: defaultdict[datetime, set[str]] = defaultdict(set)
        self.payloads: dict[datetime, bytes] = {}

    async def work(self, cluster: Cluster, name: str) -> None:
        worker = cluster.worker(name)

        @worker.on("reports")
        async def handle(delivery: Delivery) -> None:
            assert delivery.occurrence is not None
            self.tasks[delivery.occurrence.instant].add(delivery.task_id)
            self.payloads[delivery.occurrence.instant] = delivery.payload

        await worker.start()

    def check(self, start: datetime, every_s: int, count: int) -> None:
        assert sorted(self.tasks) == [start + timedelta(seconds=every_s * (n + 1)) for n in range(count)]
        assert [each for each, ids in self.tasks.items() if len(ids) > 1] == []


async def test_an_instance_that_dies_takes_no_instant_along() -> None:
    async with Cluster("a", "b") as cluster:
        log, start = Log(), cluster.now
        await log.work(cluster, "a")
        client = cluster.client("a")
        await client.schedules.create("often", queue="reports", every=20, catch_up="all", start=start)
        await cluster.advance(seconds=70)
        await cluster.kill("b")
        await cluster.advance(seconds=420)
        first = min(log.tasks)
        log.check(first - timedelta(seconds=20), 20, len(log.tasks))
        assert len(log.tasks) >= 20
        assert max(log.tasks) > cluster.now - timedelta(seconds=21)


async def test_calls_through_one_instance_change_what_another_one_holds() -> None:
    async with Cluster("a", "b", "c") as cluster:
        log = Log()
        await log.work(cluster, "c")
        one, other = cluster.client("a").schedules, cluster.client("b").schedules
        await one.create("often", queue="reports", payload="old", every=20, catch_up="all")
        await cluster.advance(seconds=65)
        changed = await other.update("often", payload="new")
        changed_at = cluster.now
        await cluster.advance(seconds=120)
        await one.pause("often")
        seen = len(log.tasks)
        await cluster.advance(seconds=60)
        assert changed.revision == 2
        assert len(log.tasks) == seen
        assert [each for each, ids in log.tasks.items() if len(ids) > 1] == []
        assert {each: log.payloads[each] for each in log.tasks} == {
            each: b"old" if each <= changed_at else b"new" for each in log.tasks
        }


async def test_two_tasks_are_never_open_at_once_whoever_works_the_ticks() -> None:
    """One instance dies while a task is with a worker of the other one."""
    async with Cluster("a", "b") as cluster:
        begun: list[datetime] = []
        now, most = 0, 0
        worker = cluster.worker("a")

        @worker.on("apart")
        async def handle(delivery: Delivery) -> None:
            nonlocal now, most
            assert delivery.occurrence is not None
            begun.append(delivery.occurrence.instant)
            now += 1
            most = max(most, now)
            try:
                await cluster.sleep(seconds=50)
            finally:
                now -= 1

        await worker.start()
        schedules = cluster.client("a").schedules
        await schedules.create("apart", queue="apart", every=20, overlap="buffer_one", catch_up="all")
        await cluster.advance(seconds=130)
        await cluster.kill("b")
        await cluster.advance(seconds=300)
        seen = await schedules.get("apart")
        assert most == 1
        assert len(begun) == len({*begun}) >= 5
        assert seen.skipped >= 5
        assert seen.waiting <= 1
