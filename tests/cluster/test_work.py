"""Work across whole instances on one store: any worker anywhere gets any task, once, whatever dies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from timerd.client import WaitReason
from timerd.core.cluster.placement import holder_of
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.testing import Cluster
from timerd.testing.async_server import CONFIG, START
from timerd.worker import Delivery, Reject, Retry

# Longer than the leases of instances and of deliveries.
HANDLER_S = 35.0


class Book:
    """What handlers were given, in the order in which they began."""

    def __init__(self) -> None:
        self.began: list[bytes] = []
        self.attempts: list[int] = []
        self.running = self.most_running = 0

    def begin(self, delivery: Delivery) -> None:
        self.began.append(delivery.payload)
        self.attempts.append(delivery.attempt)
        self.running += 1
        self.most_running = max(self.most_running, self.running)

    def end(self) -> None:
        self.running -= 1

    def twice(self) -> list[bytes]:
        return [payload for payload, times in Counter(self.began).items() if times > 1]


def payloads(tasks: int) -> list[bytes]:
    return [b"%d" % number for number in range(tasks)]


async def schedule(cluster: Cluster, name: str, tasks: int, *, every_s: float = 20.0, first_s: float = 5.0) -> None:
    """Over so many buckets that every instance holds some of them."""
    client = cluster.client(name)
    for number, payload in enumerate(payloads(tasks)):
        await client.schedule("mails", payload, delay=first_s + number * every_s)


def start_in(fits: Callable[[Partition], bool]) -> datetime:
    """The beginning of a bucket."""
    bucket_ms = bucket_of(int(START.timestamp() * 1000))
    while not fits(Partition(TIME_SCOPE, bucket_ms, 0)):
        bucket_ms += BUCKET_MS
    return datetime.fromtimestamp(bucket_ms / 1000, UTC)


def held_by(name: str, *, of: str) -> Callable[[Partition], bool]:
    return lambda partition: holder_of(partition, list(of)) == name


async def test_a_worker_gets_the_tasks_of_every_partition_and_its_acks_reach_the_holders() -> None:
    async with Cluster("a", "b", "c") as cluster:
        book = Book()
        worker = cluster.worker("a")

        @worker.on("mails")
        async def send(delivery: Delivery) -> None:
            book.begin(delivery)
            book.end()

        await worker.start()
        await schedule(cluster, "b", 30, every_s=28.0)
        holders = set()
        for _ in range(3):
            holders |= {name for name, each in cluster.instances.items() if each.holds()}
            await cluster.advance(minutes=5)
        assert sorted(book.began) == sorted(payloads(30))
        assert set(book.attempts) == {1}
        assert len(holders) > 1
        assert (await cluster.instances["a"].node.engine.facts()).ledger["acked"] == 30


async def test_a_worker_of_concurrency_one_never_has_two_tasks() -> None:
    async with Cluster("a", "b", "c") as cluster:
        book = Book()
        worker = cluster.worker("c")

        @worker.on("mails", concurrency=1)
        async def send(delivery: Delivery) -> None:
            book.begin(delivery)
            await asyncio.sleep(0)
            book.end()

        await schedule(cluster, "b", 60, every_s=14.0)
        # All of them are due by now, in the hands of several instances.
        await cluster.advance(minutes=14.2)
        assert sum(bool(each.holds()) for each in cluster.instances.values()) > 1
        await worker.start()
        await cluster.advance(seconds=5)
        assert sorted(book.began) == sorted(payloads(60))
        assert book.most_running == 1


async def test_every_instance_knows_of_a_worker_that_one_of_them_has() -> None:
    """So none says that a queue has no worker, where a worker is only busy."""
    async with Cluster("a", "b", "c") as cluster:
        task_id = (await cluster.client("b").schedule("mails", b"x", delay=1)).id
        await cluster.advance(seconds=3)

        async def reasons() -> set[WaitReason]:
            waiting = [(await cluster.client(name).get(task_id)).waiting_for for name in "abc"]
            return {each.reason for each in waiting if each is not None}

        async def lacking() -> list[bool]:
            found = [await cluster.client(name).overview() for name in "abc"]
            return [queue.lacks_worker for each in found for queue in each.queues if queue.queue == "mails"]

        assert (await reasons(), await lacking()) == ({WaitReason.WORKER}, [True] * 3)
        first = await cluster.client("a").schedule("mails", b"first", delay=0)
        worker = cluster.worker("c")

        @worker.on("mails", concurrency=1)
        async def send(_: Delivery) -> None:
            await cluster.sleep(seconds=3_600)

        await worker.start()
        await cluster.advance(seconds=5)
        states = {(await cluster.client("a").get(each)).state.name: each for each in (task_id, first.id)}
        assert sorted(states) == ["IN_FLIGHT", "PENDING"]
        task_id = states["PENDING"]
        assert (await reasons(), await lacking()) == ({WaitReason.SLOT}, [False] * 3)


async def test_an_instance_that_is_killed_with_deliveries_out_costs_no_second_delivery() -> None:
    async with Cluster("a", "b", "c", start=start_in(held_by("b", of="abc"))) as cluster:
        book = Book()
        worker = cluster.worker("a")

        @worker.on("mails", concurrency=100)
        async def send(delivery: Delivery) -> None:
            book.begin(delivery)
            await cluster.sleep(seconds=HANDLER_S)
            book.end()

        await worker.start()
        await schedule(cluster, "a", 20, every_s=0.1, first_s=1.0)
        await cluster.advance(seconds=4)
        assert cluster.instances["b"].node.delivery.in_flight == 20
        await cluster.kill("b")
        await cluster.advance(seconds=HANDLER_S + 5)
        assert (book.twice(), book.running, len(book.began)) == ([], 0, 20)
        await cluster.advance(seconds=10)
        assert (await cluster.instances["a"].node.engine.facts()).ledger["acked"] == 20


async def test_an_instance_that_stops_hands_its_deliveries_over_and_costs_no_second_delivery() -> None:
    async with Cluster("a", "b", "c", start=start_in(held_by("b", of="abc"))) as cluster:
        book = Book()
        worker = cluster.worker("a", lease=6.0)

        @worker.on("mails", concurrency=100)
        async def send(delivery: Delivery) -> None:
            book.begin(delivery)
            await cluster.sleep(seconds=HANDLER_S)
            book.end()

        await worker.start()
        await schedule(cluster, "a", 20, every_s=0.1, first_s=1.0)
        await cluster.advance(seconds=4)
        assert cluster.instances["b"].node.delivery.in_flight == 20
        await cluster.stop("b")
        await cluster.advance(seconds=HANDLER_S + 5)
        assert (book.twice(), book.running, len(book.began)) == ([], 0, 20)
        await cluster.advance(seconds=10)
        assert (await cluster.instances["a"].node.engine.facts()).ledger["acked"] == 20


@pytest.mark.parametrize("home", ["a", "b"])
async def test_tasks_in_hand_stay_there_when_their_partition_goes_to_an_instance_that_joins(home: str) -> None:
    fits = [held_by("a", of="ab"), held_by("c", of="abc")]
    start = start_in(lambda partition: all(each(partition) for each in fits))
    async with Cluster("a", "b", start=start) as cluster:
        book = Book()
        worker = cluster.worker(home, lease=6.0)

        @worker.on("mails", concurrency=100)
        async def send(delivery: Delivery) -> None:
            book.begin(delivery)
            await cluster.sleep(seconds=HANDLER_S)
            book.end()

        await worker.start()
        await schedule(cluster, "a", 20, every_s=0.1, first_s=1.0)
        await cluster.advance(seconds=4)
        assert cluster.instances["a"].node.delivery.in_flight == 20
        await cluster.add("c")
        await cluster.advance(seconds=12)
        assert cluster.instances["c"].holds()
        assert cluster.instances["a"].node.delivery.in_flight == 0
        await cluster.advance(seconds=HANDLER_S)
        assert (book.twice(), book.running, len(book.began)) == ([], 0, 20)
        await cluster.advance(seconds=10)
        assert (await cluster.instances["a"].node.engine.facts()).ledger["acked"] == 20


async def test_a_worker_whose_home_is_killed_goes_on_at_another_one() -> None:
    async with Cluster("a", "b", "c", start=start_in(held_by("b", of="abc"))) as cluster:
        book = Book()
        worker = cluster.worker("a", "c")

        @worker.on("mails", concurrency=100)
        async def send(delivery: Delivery) -> None:
            book.begin(delivery)
            await cluster.sleep(seconds=HANDLER_S)
            book.end()

        await worker.start()
        await schedule(cluster, "c", 20, every_s=0.1, first_s=1.0)
        await cluster.advance(seconds=4)
        assert len(book.began) == 20
        await cluster.kill("a")
        await cluster.advance(seconds=HANDLER_S + 5)
        assert (book.twice(), book.running) == ([], 0)
        await cluster.advance(seconds=10)
        assert (await cluster.instances["c"].node.engine.facts()).ledger["acked"] == 20


async def test_failures_of_tasks_whose_partition_went_elsewhere_count() -> None:
    async with Cluster("a", "b", "c", start=start_in(held_by("b", of="abc"))) as cluster:
        book = Book()
        worker = cluster.worker("a")

        @worker.on("mails", concurrency=100)
        async def send(delivery: Delivery) -> None:
            book.begin(delivery)
            await cluster.sleep(seconds=10)
            book.end()
            if delivery.payload == b"0":
                raise Reject("hopeless")
            if delivery.attempt == 1:
                raise Retry(delay=1.0)

        await worker.start()
        await schedule(cluster, "a", 5, every_s=0.1, first_s=1.0)
        await cluster.advance(seconds=3)
        await cluster.stop("b")
        await cluster.advance(seconds=24)
        assert sorted(book.attempts) == [1] * 5 + [2] * 4
        assert book.running == 0
        [dead] = [letter async for letter in cluster.client("a").dead_letters("mails")]
        assert (dead.task.payload, dead.last_error) == (b"0", "hopeless")


async def test_backlog_opens_everywhere_when_a_worker_comes_anywhere() -> None:
    async with Cluster("a", "b", "c", config=replace(CONFIG, max_mark_lag_ms=30_000)) as cluster:
        await schedule(cluster, "b", 60, every_s=14.0)
        await cluster.advance(minutes=16)
        assert not any(each.holds() for each in cluster.instances.values()), "all of it is in the backlog"
        book = Book()
        worker = cluster.worker("c")

        @worker.on("mails")
        async def send(delivery: Delivery) -> None:
            book.begin(delivery)
            book.end()

        await worker.start()
        await cluster.settle()
        opened = [name for name, each in cluster.instances.items() if any(p.scope != TIME_SCOPE for p in each.holds())]
        assert len(opened) > 1
        await cluster.advance(seconds=5)
        assert sorted(book.began) == sorted(payloads(60))
