"""Limits that each limit key has for itself, on several instances: they lend each other its permits, so no key is ever
above its limit, whoever sends its tasks, dies, comes or leaves."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster.lending import senders
from timerd.client import FailedPrecondition, KeyLimit, KeyRules
from timerd.core.regulation import LimitedKey, LimitLabels
from timerd.core.taken import QueueKey
from timerd.model import codec
from timerd.model.regulations import Mode
from timerd.testing import Cluster
from timerd.worker import Delivery

TASKS = 24
MOST = 2
LEASE_S, TTL_S = 30, 10
CUSTOMERS = ("acme", "globex")


class Handlers:
    """Handlers on several instances, each at a task for some seconds. `now` and `most`: so many of each customer are,
    and were, at work at a time."""

    def __init__(self, cluster: Cluster, seconds: float = 3) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.done: list[str] = []

    async def work(self, *names: str, queues: tuple[str, ...] = ("mails",)) -> None:
        worker = self._cluster.worker(*names)
        for queue in queues:

            @worker.on(queue, concurrency=40)
            async def handle(delivery: Delivery) -> None:
                name = delivery.payload.decode()
                customer = name.partition(" ")[0]
                self.now[customer] += 1
                self.most[customer] = max(self.most[customer], self.now[customer])
                try:
                    await self._cluster.sleep(seconds=self._seconds)
                    self.done.append(name)
                finally:
                    self.now[customer] -= 1

        await worker.start()


async def schedule(cluster: Cluster, queue: str = "mails", tasks: int = TASKS, what: str = "first") -> None:
    """Of each customer, over several buckets, while the queue is paused: then each instance holds some that are due."""
    client = cluster.client(next(iter(cluster.instances)))
    await client.queues.pause(queue)
    for n in range(tasks):
        customer = CUSTOMERS[n % len(CUSTOMERS)]
        name = f"{customer} {queue} {what} {n}".encode()
        await client.schedule(queue, name, delay=10 + n * 600 / tasks, limit_key=customer)
    await cluster.advance(minutes=11)


async def begun(cluster: Cluster, handlers: Handlers) -> None:
    """Tasks are due at several instances, and as many of each customer as may be are in hand."""
    for name in ("a", "b", "c"):
        await handlers.work(name, *sorted({"a", "b", "c"} - {name}))
    put = await cluster.client("b").queues.put("mails", keys=KeyRules(KeyLimit(max_in_hand=MOST)))
    assert put.keys is not None
    assert put.keys.limit is not None
    assert put.keys.limit.max_in_hand == MOST
    await schedule(cluster)
    await cluster.client("c").queues.resume("mails")
    await cluster.advance(seconds=4)
    assert handlers.now == dict.fromkeys(CUSTOMERS, MOST)


async def goes_on(cluster: Cluster, handlers: Handlers) -> None:
    """What has happened is over: all permits of each key are in use again, and never were more."""
    await cluster.advance(seconds=LEASE_S + TTL_S + 5 + 60)
    assert handlers.most == dict.fromkeys(CUSTOMERS, MOST)
    assert len(set(handlers.done)) == TASKS
    await schedule(cluster, what="second")
    handlers.most.clear()
    await cluster.client(next(iter(cluster.instances))).queues.resume("mails")
    await cluster.advance(seconds=60)
    assert handlers.most == dict.fromkeys(CUSTOMERS, MOST)
    assert len(set(handlers.done)) == 2 * TASKS


async def test_three_instances_keep_to_the_limit_of_each_key() -> None:
    async with Cluster("a", "b", "c") as cluster:
        handlers = Handlers(cluster)
        await begun(cluster, handlers)
        await cluster.advance(seconds=60)
        assert len(senders(cluster)) > 1
        assert handlers.most == dict.fromkeys(CUSTOMERS, MOST)
        assert len(handlers.done) == TASKS


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
        await cluster.advance(seconds=200)
        assert handlers.most == dict.fromkeys(CUSTOMERS, MOST)
        assert len(handlers.done) >= 2 * MOST * len(CUSTOMERS)


async def test_a_lower_limit_is_reached_as_deliveries_end() -> None:
    async with Cluster("a", "b", "c") as cluster:
        handlers = Handlers(cluster, seconds=10)
        await begun(cluster, handlers)
        await cluster.client("c").queues.update("mails", key_limits={"acme": KeyLimit(max_in_hand=1)})
        await cluster.advance(seconds=12)
        assert handlers.now["acme"] <= 1
        handlers.most.clear()
        await cluster.advance(seconds=30)
        assert handlers.most == {"acme": 1, "globex": MOST}


async def test_queues_share_a_limit_of_each_customer_over_two_instances() -> None:
    async with Cluster("a", "b") as cluster:
        handlers = Handlers(cluster)
        for name in ("a", "b"):
            await handlers.work(name, queues=("mails", "letters"))
        client = cluster.client("a")
        put = await client.limits.put("post", max_in_hand=2, keyed=True, overrides={"globex": KeyLimit(max_in_hand=1)})
        assert put.keyed
        for queue in ("mails", "letters"):
            await client.queues.put(queue, limits=["post"])
            await schedule(cluster, queue, tasks=12)
        for queue in ("mails", "letters"):
            await cluster.client("b").queues.resume(queue)
        await cluster.advance(seconds=3)
        at_limit = [each.limit_key for name in ("a", "b") for each in await _at_limit(cluster, name)]
        assert set(at_limit) == set(CUSTOMERS)
        await cluster.advance(seconds=90)
        assert (handlers.most, len(handlers.done)) == ({"acme": 2, "globex": 1}, 24)
        assert senders(cluster) | senders(cluster, "letters") == {"a", "b"}


async def _at_limit(cluster: Cluster, name: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    return (await cluster.client(name).limits.get("post")).keys_at_limit


async def test_a_customer_without_a_limit_and_a_task_without_a_customer_wait_for_nobody() -> None:
    async with Cluster("a", "b") as cluster:
        handlers = Handlers(cluster, seconds=20)
        for name in ("a", "b"):
            await handlers.work(name)
        rules = KeyRules(KeyLimit(max_in_hand=1), overrides={"globex": KeyLimit()})
        client = cluster.client("a")
        await client.queues.put("mails", keys=rules)
        for n in range(4):
            for customer in ("acme", "globex", ""):
                await client.schedule("mails", f"{customer} {n}".encode(), delay=5, limit_key=customer)
        await cluster.advance(seconds=10)
        assert handlers.now == {"acme": 1, "globex": 4, "": 4}


@pytest.mark.parametrize("killed", [False, True])
async def test_who_keeps_a_home_and_leaves_in_peace_leaves_word_to_the_next(killed: bool) -> None:
    """Who is killed does not: the next one lends nothing until the leases are over that it may have given."""
    async with Cluster("a", "b", "c") as cluster:
        handlers = Handlers(cluster)
        for name in ("a", "b", "c"):
            await handlers.work(name, *sorted({"a", "b", "c"} - {name}))
        client = cluster.client("a")
        await client.queues.put("mails", keys=KeyRules(KeyLimit(max_in_hand=MOST)))
        await client.schedule("mails", b"acme first", delay=5, limit_key="acme")
        await cluster.advance(seconds=20)
        gone = keeper_of_key(cluster, "acme")
        await (cluster.kill(gone) if killed else cluster.stop(gone))
        await cluster.advance(seconds=TTL_S + 2)
        later = cluster.client(next(iter(cluster.instances)))
        await later.schedule("mails", b"acme second", delay=1, limit_key="acme")
        await cluster.advance(seconds=10)
        assert handlers.done == (["acme first"] if killed else ["acme first", "acme second"])
        assert keeper_of_key(cluster, "acme") not in ("", gone)
        await cluster.advance(seconds=LEASE_S)
        assert handlers.done == ["acme first", "acme second"]


def keeper_of_key(cluster: Cluster, customer: str) -> str:
    """Who keeps its home."""
    home = LimitedKey(LimitLabels("default", "mails", ""), customer).home
    for name, each in cluster.instances.items():
        ruled = each.node.regulating
        assert ruled is not None
        assert ruled.key_borrowing is not None
        if ruled.key_borrowing.keepers.books_of(home) is not None:
            return name
    return ""


async def test_who_says_no_share_gives_none_and_what_was_read_can_be_put_again() -> None:
    async with Cluster("a") as cluster:
        client = cluster.client("a")
        put = await client.queues.put("mails", keys=KeyRules(KeyLimit(max_in_hand=2)))
        assert put.keys is not None
        assert put.keys.share == 1
        again = await client.queues.update("mails", key_weights={"acme": 3})
        assert again.keys is not None
        assert (again.keys.share, again.keys.limit) == (1, put.keys.limit)


async def test_a_share_is_one_of_what_all_instances_may_have_in_hand() -> None:
    async with Cluster("a", "b", "c") as cluster:
        handlers = Handlers(cluster)
        for name in ("a", "b", "c"):
            await handlers.work(name, *sorted({"a", "b", "c"} - {name}))
        rules = KeyRules(overrides={"globex": KeyLimit(max_in_hand=1)}, share=0.25)
        put = await cluster.client("b").queues.put("mails", max_in_hand=8, keys=rules)
        assert put.keys is not None
        assert put.keys.share == 0.25
        await schedule(cluster)
        await cluster.client("c").queues.resume("mails")
        await cluster.advance(seconds=4)
        assert handlers.now == {"acme": 2, "globex": 1}
        # A quarter of more is more, and all of it is used.
        await cluster.client("c").queues.update("mails", max_in_hand=16)
        await cluster.advance(seconds=45)
        assert (handlers.most, len(set(handlers.done))) == ({"acme": 4, "globex": 1}, TASKS)


async def test_a_share_of_what_nobody_counts_is_refused() -> None:
    async with Cluster("a") as cluster:
        client = cluster.client("a")
        for rules in (KeyRules(share=0.25), KeyRules(KeyLimit(max_in_hand=2), share=0.25)):
            with pytest.raises(FailedPrecondition, match="In a cluster the share of a limit key is one of") as refused:
                await client.queues.put("mails", keys=rules)
            assert refused.value.reason == "LIMIT_IN_CLUSTER"
        put = await client.queues.put("mails", max_in_hand=8, keys=KeyRules(share=0.25))
        assert put.keys is not None
        assert put.keys.share == 0.25
        for change in (client.queues.update("mails", rate="5/s", clear=["max_in_hand"]),):
            with pytest.raises(FailedPrecondition, match="In a cluster the share of a limit key is one of"):
                await change
        updated = await client.queues.update("mails", key_share=1, rate="5/s", clear=["max_in_hand"])
        assert updated.keys is not None
        assert updated.keys.share == 1


async def test_an_instance_that_knows_no_shares_in_a_cluster_sends_nothing_of_such_a_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Cluster("a") as cluster:
        client = cluster.client("a")
        await client.queues.put("mails", max_in_hand=8, keys=KeyRules(share=0.25))
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.SHARES_KEYS})
            codec._needs.cache_clear()
            await cluster.add("old")
            known = cluster.instances["old"].node.regulating.known  # type: ignore[union-attr]
            assert known.mode(QueueKey("default", "mails"), 0) is Mode.STOPPED
        await cluster.advance(seconds=5)
        with pytest.raises(FailedPrecondition, match="keeps to the share of a limit key: old is of an older release"):
            await client.queues.put("letters", max_in_hand=8, keys=KeyRules(share=0.25))
        assert (await client.queues.put("letters", max_in_hand=8, keys=KeyRules(KeyLimit(max_in_hand=2)))).keys


async def test_instances_that_count_for_themselves_send_nothing_of_such_a_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = QueueKey("default", "mails")
    async with Cluster("a") as cluster:
        client = cluster.client("a")
        await client.queues.put("mails", keys=KeyRules(KeyLimit(max_in_hand=2)))
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.LENDS_KEYS})
            codec._needs.cache_clear()
            await cluster.add("old")
            known = cluster.instances["old"].node.regulating.known  # type: ignore[union-attr]
            assert known.mode(queue, 0) is Mode.STOPPED
        await cluster.advance(seconds=5)
        with pytest.raises(FailedPrecondition, match="old is of an older release, and would count for itself"):
            await client.queues.put("letters", keys=KeyRules(KeyLimit(max_in_hand=2)))
        with pytest.raises(FailedPrecondition, match="old is of an older release, and would count for itself"):
            await client.limits.put("post", max_in_hand=2, keyed=True)
