"""Ordering keys in a cluster: tasks of a key start in order and one at a time, whichever instance takes them in, has
the workers, or keeps the key, and whoever is killed."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from timerd.client import Client, FailedPrecondition, NotFound, OnFailure, WaitReason
from timerd.model import codec
from timerd.model.partition import BUCKET_MS, FIRST_KEY_SHARD, KEY_SHARDS, TIME_SCOPE, Partition, key_shard_of
from timerd.services.node import Node
from timerd.testing import Cluster
from timerd.worker import Delivery, OrderFence, Reject

KEYS = tuple(f"doc-{n}" for n in range(6))
TASKS = 8


async def test_an_instance_of_an_older_release_has_keys_refused_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Cluster("a") as cluster:
        client: Client = cluster.client("a")
        for key in KEYS:
            await client.schedule("docs", b"%s 0" % key.encode(), delay=20, ordering_key=key)
        publishers = Publishers(cluster)
        await publishers.work("a")
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.KEY_SHARDS})
            await cluster.add("old")
        await cluster.advance(seconds=5)
        assert places(cluster.instances["a"].node) == {"a"}
        with pytest.raises(FailedPrecondition, match="old is of an older release, and would send the tasks") as refused:
            await client.schedule("docs", b"y", delay=1, ordering_key="doc-42")
        assert refused.value.reason == "ORDERING_IN_CLUSTER"
        await client.schedule("letters", b"without", delay=1)
        # What was taken in before stays with those that know of it.
        await cluster.advance(seconds=30)
        assert publishers.first == {key: [0] for key in KEYS}
        await cluster.stop("old")
        await cluster.advance(seconds=30)
        await client.schedule("docs", b"doc-42 1", delay=1, ordering_key="doc-42")


def places(node: Node) -> set[str]:
    """Of all key shards of a bucket that nobody holds yet."""
    far_ms = 9 * BUCKET_MS
    shards = range(FIRST_KEY_SHARD, FIRST_KEY_SHARD + KEY_SHARDS)
    return {node.scheduler.hand_over.place_of(Partition(TIME_SCOPE, far_ms, shard)) for shard in shards}


class Publishers:
    """Handlers on several instances. `first`: by key, the tasks in the order in which they were started first."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.first: defaultdict[str, list[int]] = defaultdict(list)
        self.beside: list[str] = []
        self.done: set[bytes] = set()
        self.fences: defaultdict[str, list[OrderFence]] = defaultdict(list)
        self._in_hand: Counter[str] = Counter()

    async def work(self, *names: str) -> None:
        worker = self._cluster.worker(*names)

        @worker.on("docs", concurrency=20)
        async def publish(delivery: Delivery) -> None:
            key, number = delivery.ordering_key, int(delivery.payload.rpartition(b" ")[2])
            assert delivery.order_fence is not None
            self.fences[key].append(delivery.order_fence)
            if number not in self.first[key]:
                self.first[key].append(number)
            self._in_hand[key] += 1
            self.beside += [key] if self._in_hand[key] > 1 else []
            try:
                await self._cluster.sleep(seconds=2)
                self.done.add(delivery.payload)
            finally:
                self._in_hand[key] -= 1

        await worker.start()


async def schedule(cluster: Cluster, over_s: float) -> None:
    """Each task of a key by another instance than the one before."""
    clients = [cluster.client(name) for name in cluster.instances]
    for n in range(TASKS):
        for m, key in enumerate(KEYS):
            client = clients[(n + m) % len(clients)]
            await client.schedule("docs", f"{key} {n}".encode(), delay=5 + n * over_s / TASKS, ordering_key=key)


async def test_three_instances_start_the_tasks_of_a_key_in_order_and_one_at_a_time() -> None:
    async with Cluster("a", "b", "c") as cluster:
        publishers = Publishers(cluster)
        for names in ("abc", "bca", "cab"):
            await publishers.work(*names)
        await schedule(cluster, over_s=330)
        await cluster.advance(seconds=380)
        assert publishers.first == {key: list(range(TASKS)) for key in KEYS}
        assert publishers.beside == []
        assert all(fences == sorted(set(fences)) for fences in publishers.fences.values())


async def test_an_instance_that_is_killed_and_one_that_leaves_change_nothing_of_the_order() -> None:
    async with Cluster("a", "b", "c") as cluster:
        publishers = Publishers(cluster)
        await publishers.work("b", "c")
        await publishers.work("c")
        await schedule(cluster, over_s=20)
        await cluster.advance(seconds=12)
        await cluster.kill("a")
        await cluster.advance(seconds=40)
        await cluster.stop("b")
        await cluster.advance(seconds=60)
        assert publishers.first == {key: list(range(TASKS)) for key in KEYS}
        assert publishers.beside == []
        assert len(publishers.done) == len(KEYS) * TASKS


def keeper_of(cluster: Cluster, key: str) -> str:
    shard = key_shard_of("default", "docs", key)
    nodes = {name: running.node for name, running in cluster.instances.items()}
    [keeper] = [name for name, node in nodes.items() if shard in node.scheduler.memory.order_keys.kept_shards]
    return keeper


class Slow:
    """A handler of others than the keeper of a key. It is at the first task of it for a minute."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.begun: list[bytes] = []
        self.done: list[bytes] = []

    async def __call__(self, delivery: Delivery) -> None:
        self.begun.append(delivery.payload)
        if delivery.payload == b"0":
            await self._cluster.sleep(seconds=60)
        self.done.append(delivery.payload)

    async def begins(self) -> tuple[str, list[str]]:
        """The keeper of the key, and the others, when the first of its three tasks is in hand."""
        client = self._cluster.client("b")
        for n in range(3):
            await client.schedule("docs", b"%d" % n, delay=2, ordering_key="doc-1")
        await self._cluster.advance(seconds=1)
        keeper = keeper_of(self._cluster, "doc-1")
        others = [name for name in self._cluster.instances if name != keeper]
        worker = self._cluster.worker(*others)
        worker.on("docs", concurrency=10)(self)
        await worker.start()
        await self._cluster.advance(seconds=10)
        assert self.begun == [b"0"]
        return keeper, others


async def test_a_keeper_is_lost_while_a_task_of_the_key_is_in_hand() -> None:
    """The one in hand may come once more; nothing behind it comes before it has ended."""
    async with Cluster("a", "b", "c") as cluster:
        slow = Slow(cluster)
        keeper, others = await slow.begins()
        await cluster.kill(keeper)
        await cluster.advance(seconds=40)
        assert set(slow.begun) == {b"0"}
        assert keeper_of(cluster, "doc-1") in others
        await cluster.advance(seconds=90)
        assert list(dict.fromkeys(slow.done)) == [b"0", b"1", b"2"]
        assert slow.begun.index(b"1") > slow.begun.count(b"0") - 1


async def test_a_keeper_leaves_while_a_task_of_the_key_is_in_hand() -> None:
    async with Cluster("a", "b", "c") as cluster:
        slow = Slow(cluster)
        keeper, others = await slow.begins()
        await cluster.stop(keeper)
        await cluster.advance(seconds=30)
        assert slow.begun == [b"0"]
        assert keeper_of(cluster, "doc-1") in others
        await cluster.advance(seconds=60)
        assert slow.done == [b"0", b"1", b"2"]


async def halted(cluster: Cluster) -> tuple[list[str], list[bytes]]:
    """The ids of three tasks of a key, of which the first one has failed for good; the payloads that came since."""
    came: list[bytes] = []
    rejected = {b"0"}
    client = cluster.client("a")
    await client.queues.put("docs", ordering="halt")
    worker = cluster.worker(*cluster.instances)

    @worker.on("docs", concurrency=10)
    async def publish(delivery: Delivery) -> None:
        came.append(delivery.payload)
        if delivery.payload in rejected:
            rejected.discard(delivery.payload)
            raise Reject("no")

    await worker.start()
    tasks = [await client.schedule("docs", b"%d" % n, delay=2 + n, ordering_key="doc-1") for n in range(3)]
    await cluster.advance(seconds=20)
    assert came == [b"0"]
    return [task.id for task in tasks], came


async def test_any_instance_says_what_stands_still_and_who_waits_for_what() -> None:
    async with Cluster("a", "b", "c") as cluster:
        (first, second, _), _ = await halted(cluster)
        for name in cluster.instances:
            client = cluster.client(name)
            [key] = await client.queues.keys("docs")
            assert (key.key, key.halted, key.task_id, key.waiting) == ("doc-1", True, first, 2)
            waiting = (await client.get(second)).waiting_for
            assert waiting is not None
            assert (waiting.reason, waiting.task_id) == (WaitReason.KEY, first)
            advice = (await client.server_info()).advice
            assert any("'doc-1' of the queue 'docs' stands still" in each for each in advice)
            assert await client.purge_dead_letters("docs", force=True) == 0
        assert (await client.queues.get("docs")).ordering is OnFailure.HALT


async def test_a_key_stands_still_over_the_loss_of_its_keeper_until_any_instance_is_told_to_skip() -> None:
    async with Cluster("a", "b", "c") as cluster:
        (first, *_), came = await halted(cluster)
        await cluster.kill(keeper_of(cluster, "doc-1"))
        await cluster.advance(seconds=60)
        assert came == [b"0"]
        keeper = keeper_of(cluster, "doc-1")
        [other] = [name for name in cluster.instances if name != keeper]
        another = first[:-1] + ("A" if first[-1] != "A" else "E")
        with pytest.raises(NotFound, match="does not halt"):
            await cluster.client(other).queues.skip_key("docs", "doc-1", task_id=another)
        assert await cluster.client(other).queues.skip_key("docs", "doc-1") == first
        await cluster.advance(seconds=10)
        assert came == [b"0", b"1", b"2"]
        for name in cluster.instances:
            assert not any(key.halted for key in await cluster.client(name).queues.keys("docs"))
            assert not any("doc-1" in each for each in (await cluster.client(name).server_info()).advice)


async def test_a_task_that_another_instance_redrives_is_the_next_of_its_key() -> None:
    async with Cluster("a", "b", "c") as cluster:
        (first, *_), came = await halted(cluster)
        keeper = keeper_of(cluster, "doc-1")
        other = next(name for name in cluster.instances if name != keeper)
        assert await cluster.client(other).redrive([first]) == 1
        await cluster.advance(seconds=20)
        assert came == [b"0", b"0", b"1", b"2"]
        late = await cluster.client(other).schedule("docs", b"late", delay=1, ordering_key="doc-1")
        await cluster.advance(seconds=10)
        assert came[4:] == [b"late"]
        assert (await cluster.client(keeper).get(late.id)).waiting_for is None
        assert await cluster.client(keeper).queues.keys("docs") == ()
