"""A limit of what is in hand on several instances: they lend each other its permits, so it is never passed."""

from __future__ import annotations

import pytest

from tests.cluster.lending import keeper, senders
from timerd.client import FailedPrecondition
from timerd.model import codec
from timerd.testing import Cluster
from timerd.worker import Delivery

TASKS = 24
MOST = 4
LEASE_S, TTL_S = 30, 10


class Handlers:
    """Handlers on several instances, each at a task for some seconds. `most`: so many were at work at a time."""

    def __init__(self, cluster: Cluster, seconds: float = 3) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self.now = self.most = 0
        self.done: list[bytes] = []

    async def work(self, *names: str, queues: tuple[str, ...] = ("mails",)) -> None:
        worker = self._cluster.worker(*names)
        for queue in queues:

            @worker.on(queue, concurrency=20)
            async def handle(delivery: Delivery) -> None:
                self.now += 1
                self.most = max(self.most, self.now)
                try:
                    await self._cluster.sleep(seconds=self._seconds)
                    self.done.append(delivery.payload)
                finally:
                    self.now -= 1

        await worker.start()


async def schedule(cluster: Cluster, queue: str = "mails", tasks: int = TASKS) -> None:
    """Over several buckets, while the queue is paused: then each instance holds some that are due."""
    client = cluster.client(next(iter(cluster.instances)))
    await client.queues.pause(queue)
    for n in range(tasks):
        await client.schedule(queue, b"%s %d" % (queue.encode(), n), delay=10 + n * 600 / tasks)
    await cluster.advance(minutes=11)


async def begun(cluster: Cluster, handlers: Handlers, most: int = MOST) -> None:
    """Tasks are due at several instances, and as many as may be are in hand."""
    for name in ("a", "b", "c"):
        await handlers.work(name, *sorted({"a", "b", "c"} - {name}))
    assert (await cluster.client("b").queues.put("mails", max_in_hand=most)).limit is not None
    await schedule(cluster)
    await cluster.client("c").queues.resume("mails")
    await cluster.advance(seconds=4)
    assert handlers.now == most


async def goes_on(cluster: Cluster, handlers: Handlers, most: int = MOST) -> None:
    """What has happened is over: all permits are in use again, and never were more."""
    await cluster.advance(seconds=LEASE_S + TTL_S + 5 + 60)
    assert handlers.most <= most
    assert len(set(handlers.done)) == TASKS
    handlers.done.clear()
    await schedule(cluster)
    handlers.most = 0
    await cluster.client(next(iter(cluster.instances))).queues.resume("mails")
    await cluster.advance(seconds=60)
    assert handlers.most == most
    assert len(set(handlers.done)) == TASKS


async def test_three_instances_keep_to_one_limit() -> None:
    async with Cluster("a", "b", "c") as cluster:
        handlers = Handlers(cluster)
        await begun(cluster, handlers)
        await cluster.advance(seconds=40)
        assert len(senders(cluster)) > 1
        assert (handlers.most, len(handlers.done)) == (MOST, TASKS)


@pytest.mark.parametrize("name", ["a", "c"])
async def test_an_instance_that_is_killed_takes_its_permits_along_until_the_leases_are_over(name: str) -> None:
    async with Cluster("a", "b", "c") as cluster:
        handlers = Handlers(cluster)
        await begun(cluster, handlers)
        await cluster.kill(name)
        await goes_on(cluster, handlers)


@pytest.mark.parametrize("name", ["a", "c"])
async def test_who_stood_still_beyond_its_lease_sends_nothing_by_what_it_had(name: str) -> None:
    async with Cluster("a", "b", "c") as cluster:
        handlers = Handlers(cluster)
        await begun(cluster, handlers)
        cluster.freeze(name)
        await cluster.advance(seconds=30)
        cluster.thaw(name)
        await goes_on(cluster, handlers)


@pytest.mark.parametrize("name", ["a", "c"])
async def test_one_leaves_and_one_comes(name: str) -> None:
    async with Cluster("a", "b", "c") as cluster:
        handlers = Handlers(cluster)
        await begun(cluster, handlers)
        await cluster.stop(name)
        await cluster.add("d")
        await goes_on(cluster, handlers)


async def test_what_is_in_hand_when_its_partition_moves_still_counts() -> None:
    """The instances that come get partitions whose deliveries are with workers."""
    async with Cluster("a", "b", "c") as cluster:
        handlers = Handlers(cluster, seconds=40)
        await begun(cluster, handlers)
        for name in ("d", "e", "f"):
            await cluster.add(name)
        await cluster.advance(seconds=130)
        assert handlers.most == MOST
        assert len(handlers.done) >= 2 * MOST


async def test_a_lower_limit_is_reached_as_deliveries_end() -> None:
    async with Cluster("a", "b", "c") as cluster:
        handlers = Handlers(cluster, seconds=10)
        await begun(cluster, handlers, most=6)
        await cluster.client("c").queues.put("mails", max_in_hand=2)
        await cluster.advance(seconds=11)
        assert handlers.now <= 2
        handlers.most = 0
        await cluster.advance(seconds=30)
        assert handlers.most == 2


async def test_older_instances_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster("a") as cluster:
        client = cluster.client("a")
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.LENDS})
            await cluster.add("old")
        await cluster.advance(seconds=5)
        with pytest.raises(
            FailedPrecondition, match="old is of an older release, and would count for itself"
        ) as refused:
            await client.queues.put("mails", max_in_hand=3)
        assert refused.value.reason == "LIMIT_IN_CLUSTER"
        assert (await client.queues.get("mails")).limit is None


async def test_queues_share_a_limit_with_a_name_over_all_instances() -> None:
    async with Cluster("a", "b") as cluster:
        handlers = Handlers(cluster)
        for name in ("a", "b"):
            await handlers.work(name, queues=("mails", "letters"))
        client = cluster.client("a")
        await client.limits.put("post", max_in_hand=3)
        for queue in ("mails", "letters"):
            await client.queues.put(queue, limits=["post"])
            await cluster.client("b").queues.pause(queue)
            await schedule(cluster, queue, tasks=9)
        # The other instance has heard of each change.
        assert (await cluster.client("b").limits.put("post", max_in_hand=2)).revision == 2
        for queue in ("mails", "letters"):
            await client.queues.resume(queue)
        await cluster.advance(seconds=60)
        assert (handlers.most, len(handlers.done)) == (2, 18)
        assert senders(cluster) | senders(cluster, "letters") == {"a", "b"}


@pytest.mark.parametrize("killed", [False, True])
async def test_who_keeps_a_limit_and_leaves_in_peace_leaves_word_to_the_next(killed: bool) -> None:
    """Who is killed does not: the next one lends nothing until the leases are over that it may have given."""
    async with Cluster("a", "b", "c") as cluster:
        handlers = Handlers(cluster)
        for name in ("a", "b", "c"):
            await handlers.work(name, *sorted({"a", "b", "c"} - {name}))
        client = cluster.client("a")
        await client.queues.put("mails", max_in_hand=MOST)
        await client.schedule("mails", b"first", delay=5)
        await cluster.advance(seconds=20)
        gone = keeper(cluster)
        await (cluster.kill(gone) if killed else cluster.stop(gone))
        await cluster.advance(seconds=TTL_S + 2)
        await cluster.client(next(iter(cluster.instances))).schedule("mails", b"second", delay=1)
        await cluster.advance(seconds=10)
        assert handlers.done == ([b"first"] if killed else [b"first", b"second"])
        assert keeper(cluster) not in ("", gone)
        await cluster.advance(seconds=LEASE_S)
        assert handlers.done == [b"first", b"second"]
