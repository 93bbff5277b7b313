"""A rate of each limit key on several instances: each starts by the tokens that it has drawn from the keeper of the
key, so together they keep to it, key by key."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

import pytest

from tests.cluster.lending import TTL_S, senders, wait
from timerd.client import FailedPrecondition, KeyLimit, KeyRules
from timerd.core.regulation import AHEAD_MS, KeyAsk, KeyUse, LimitedKey, LimitLabels
from timerd.core.taken import QueueKey
from timerd.model import codec
from timerd.model.regulations import Mode
from timerd.testing import Cluster
from timerd.worker import Delivery, Throttled

NAMES = ("a", "b", "c")
CUSTOMERS = ("acme", "globex")
ACME = LimitedKey(LimitLabels("default", "mails", ""), "acme")


class Starts:
    """When handlers have begun, of each customer, by the clock of the cluster. `throttled`: the first of this customer
    is told to wait so long, by a limit of that name or by the queue."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.at: dict[str, list[datetime]] = defaultdict(list)
        self.done: set[str] = set()
        self.throttled: dict[str, Throttled] = {}

    async def work(self, *names: str, queues: tuple[str, ...] = ("mails",)) -> None:
        worker = self._cluster.worker(*names)
        for queue in queues:

            @worker.on(queue, concurrency=50)
            async def handle(delivery: Delivery) -> None:
                name = delivery.payload.decode()
                customer = name.partition(" ")[0]
                self.at[customer].append(self._cluster.now)
                if (told := self.throttled.pop(customer, None)) is not None:
                    raise told
                self.done.add(name)

        await worker.start()

    def most_in(self, customer: str, seconds: float) -> int:
        """In any so long stretch, its ends among it."""
        at = sorted(each.timestamp() for each in self.at[customer])
        return max((sum(first <= each <= first + seconds for each in at[n:]) for n, first in enumerate(at)), default=0)

    def check(self, customer: str, rate: float, burst: int) -> None:
        """In any w seconds no more than the rate gives in w + 1 s, and the burst."""
        for seconds in (0.0, 0.2, 1.0, 3.0, 10.0):
            assert self.most_in(customer, seconds) <= rate * (seconds + 1) + burst, (customer, seconds)


async def begun(cluster: Cluster, starts: Starts, tasks: int, keys: KeyRules) -> None:
    """Tasks of two customers are due at several instances, and the first are on their way."""
    for name in NAMES:
        await starts.work(name, *sorted({*NAMES} - {name}))
    assert (await cluster.client("b").queues.put("mails", keys=keys)).keys is not None
    await due(cluster, "mails", tasks)
    await cluster.client("c").queues.resume("mails")


async def due(cluster: Cluster, queue: str, tasks: int) -> None:
    """Over several buckets, while the queue is paused: then each instance holds some that are due."""
    client = cluster.client(next(iter(cluster.instances)))
    await client.queues.pause(queue)
    for n in range(tasks):
        customer = CUSTOMERS[n % len(CUSTOMERS)]
        name = f"{customer} {queue} {n}".encode()
        await client.schedule(queue, name, delay=10 + n * 600 / tasks, limit_key=customer)
    await cluster.advance(minutes=11)


async def test_three_instances_keep_to_the_rate_of_each_key_and_reach_it() -> None:
    async with Cluster(*NAMES) as cluster:
        starts = Starts(cluster)
        rules = KeyRules(KeyLimit(rate="5/s", burst=3), overrides={"globex": KeyLimit(rate="2/s", burst=1)})
        await begun(cluster, starts, tasks=60, keys=rules)
        await wait(cluster, seconds=7)
        starts.check("acme", rate=5, burst=3)
        starts.check("globex", rate=2, burst=1)
        assert len(senders(cluster)) == len(NAMES)
        assert len(starts.at["acme"]) == 30
        assert 12 <= len(starts.at["globex"]) <= 17
        await wait(cluster, seconds=10)
        assert len(starts.done) == 60


async def test_a_queue_and_its_keys_with_low_rates_start_what_one_server_would() -> None:
    """The queue might start more than its keys, and its tokens come where one of these may start. So it is also when
    the rules have changed: then the queue may start less."""
    async with Cluster(*NAMES) as cluster:
        starts = Starts(cluster)
        keys = KeyRules(KeyLimit(rate="20/m"), share=1, overrides={"globex": KeyLimit(rate="1/m")})
        for name in NAMES:
            await starts.work(name, *sorted({*NAMES} - {name}))
        await cluster.client("b").queues.put("mails", rate="30/m", keys=keys)
        await due(cluster, "mails", 60)
        await cluster.client("c").queues.resume("mails")
        await wait(cluster, seconds=36)
        assert len(starts.at["acme"]) >= 11, "on one server it is 12"
        starts.check("acme", rate=1 / 3, burst=1)
        before = sum(map(len, starts.at.values()))
        await cluster.client("b").queues.put("mails", rate="15/m", keys=keys)
        await wait(cluster, seconds=42)
        assert 9 <= sum(map(len, starts.at.values())) - before <= 12, "on one server it is 10"


@pytest.mark.parametrize("killed", [False, True])
async def test_the_next_keeper_of_a_key_begins_with_nothing_to_give(killed: bool) -> None:
    """One that leaves is succeeded at once; one that was killed when it is known to be dead."""
    async with Cluster(*NAMES) as cluster:
        starts = Starts(cluster)
        await begun(cluster, starts, tasks=90, keys=KeyRules(KeyLimit(rate="1/s", burst=10)))
        await wait(cluster, seconds=1)
        gone, before = keeper_of(cluster, ACME), len(starts.at["acme"])
        assert before >= 10
        await (cluster.kill(gone) if killed else cluster.stop(gone))
        # So long nothing starts by the limits of the home.
        await cluster.advance(seconds=TTL_S + 3 if killed else 0)
        await wait(cluster, seconds=6)
        for customer in CUSTOMERS:
            starts.check(customer, rate=1, burst=10)
        assert keeper_of(cluster, ACME) not in ("", gone)
        assert len(starts.at["acme"]) >= before + 3


async def test_who_stood_still_hands_out_nothing_by_what_it_kept_of_a_key() -> None:
    async with Cluster(*NAMES) as cluster:
        starts = Starts(cluster)
        await begun(cluster, starts, tasks=60, keys=KeyRules(KeyLimit(rate="1/s", burst=8)))
        await wait(cluster, seconds=1)
        frozen = keeper_of(cluster, ACME)
        cluster.freeze(frozen)
        await wait(cluster, seconds=2)
        await cluster.advance(seconds=TTL_S + 3)
        cluster.thaw(frozen)
        before = len(starts.at["acme"])
        await wait(cluster, seconds=6)
        for customer in CUSTOMERS:
            starts.check(customer, rate=1, burst=8)
        assert len(starts.at["acme"]) >= before + 3


async def test_queues_share_the_rate_of_each_customer_and_keep_to_both() -> None:
    """No token is drawn while there is no permit to use it with."""
    async with Cluster("a", "b") as cluster:
        starts = Starts(cluster)
        for name in ("a", "b"):
            await starts.work(name, queues=("mails", "letters"))
        client = cluster.client("a")
        overrides = {"globex": KeyLimit(rate="30/m", burst=1)}
        put = await client.limits.put("post", rate="4/s", burst=2, max_in_hand=3, keyed=True, overrides=overrides)
        assert put.keyed
        for queue in ("mails", "letters"):
            await client.queues.put(queue, limits=["post"])
            await due(cluster, queue, tasks=24)
        for queue in ("mails", "letters"):
            await cluster.client("b").queues.resume(queue)
        await wait(cluster, seconds=4)
        held = [each for name in ("a", "b") for each in (await cluster.client(name).limits.get("post")).keys_at_limit]
        assert {each.limit_key for each in held} <= set(CUSTOMERS)
        (globex, *_) = [each for each in held if each.limit_key == "globex"]
        assert globex.next_time is not None
        assert 0 < (globex.next_time - cluster.now).total_seconds() <= 2
        await wait(cluster, seconds=6)
        starts.check("acme", rate=4, burst=2)
        starts.check("globex", rate=0.5, burst=1)
        drawn = [_of_post(cluster, name) for name in ("a", "b")]
        started = len(starts.at["acme"]) + len(starts.at["globex"])
        assert started <= sum(each.drawn for each in drawn) <= started + sum(each.lapsed for each in drawn) + 4
        assert len(starts.at["acme"]) == 24
        assert 4 <= len(starts.at["globex"]) <= 7


def _of_post(cluster: Cluster, name: str) -> KeyUse:
    ruled = cluster.instances[name].node.regulating
    assert ruled is not None
    assert ruled.key_limits is not None
    return ruled.key_limits.use.at(0)[LimitLabels("default", "", "post")]


@pytest.mark.parametrize("limit", ["", "post"])
async def test_a_customer_that_was_throttled_on_one_instance_is_held_on_all(limit: str) -> None:
    async with Cluster(*NAMES) as cluster:
        starts = Starts(cluster)
        for name in NAMES:
            await starts.work(name, *sorted({*NAMES} - {name}))
        client = cluster.client("a")
        if limit:
            await client.limits.put("post", rate="3/s", keyed=True)
            await client.queues.put("mails", limits=["post"])
        else:
            await client.queues.put("mails", keys=KeyRules(KeyLimit(rate="3/s")))
        starts.throttled["acme"] = Throttled(after=12, by_key=not limit, limit=limit)
        await due(cluster, "mails", tasks=60)
        await client.queues.resume("mails")
        # What had been drawn by then may start for a second.
        await wait(cluster, seconds=2 + AHEAD_MS / 1000)
        before, others = len(starts.at["acme"]), len(starts.at["globex"])
        assert before
        await wait(cluster, seconds=8)
        assert (len(starts.at["acme"]), len(starts.at["globex"]) > others + 10) == (before, True)
        await wait(cluster, seconds=5)
        assert len(starts.at["acme"]) > before


async def test_what_waits_for_the_rate_of_its_key_says_until_when() -> None:
    async with Cluster("a", "b") as cluster:
        starts = Starts(cluster)
        await starts.work("a", "b")
        client = cluster.client("a")
        await client.queues.put("mails", keys=KeyRules(KeyLimit(rate="6/m", burst=1)))
        tasks = [await client.schedule("mails", b"acme %d" % n, delay=1, limit_key="acme") for n in range(2)]
        await wait(cluster, seconds=3)
        (late,) = [task for task in tasks if (await client.get(task.id)).state.name != "ACKED"]
        waiting = (await client.get(late.id)).waiting_for
        assert waiting is not None
        assert (waiting.reason.name, waiting.limit_key) == ("LIMIT", "acme")
        assert waiting.until is not None
        assert 5 < (waiting.until - cluster.now).total_seconds() <= 10


async def test_a_key_without_a_rate_and_a_task_without_a_key_wait_for_nobody() -> None:
    async with Cluster("a", "b") as cluster:
        starts = Starts(cluster)
        for name in ("a", "b"):
            await starts.work(name)
        rules = KeyRules(KeyLimit(rate="6/m", burst=1), overrides={"globex": KeyLimit()})
        client = cluster.client("a")
        await client.queues.put("mails", keys=rules)
        for n in range(4):
            for customer in ("acme", "globex", ""):
                await client.schedule("mails", f"{customer} {n}".encode(), delay=2, limit_key=customer)
        await wait(cluster, seconds=4)
        assert {customer: len(at) for customer, at in starts.at.items()} == {"acme": 1, "globex": 4, "": 4}


async def test_who_is_not_sure_of_its_lease_hands_out_nothing_of_a_key() -> None:
    """T4: another one may keep its home by now."""
    async with Cluster("a", "b") as cluster:
        starts = Starts(cluster)
        await starts.work("a", "b")
        await cluster.client("a").queues.put("mails", keys=KeyRules(KeyLimit(rate="10/s")))
        await cluster.client("a").schedule("mails", b"acme one", delay=0, limit_key="acme")
        await wait(cluster, seconds=1)
        assert len(starts.done) == 1
        kept = cluster.instances[keeper_of(cluster, ACME)]
        assert kept.node.regulating is not None
        assert kept.node.regulating.key_drawing is not None
        issuer, asks = kept.node.regulating.key_drawing.issuer, {ACME: KeyAsk(1, 0)}
        assert (await issuer.drawn(ACME.home, "b", asks)).grants is not None
        kept.member.trust.ttl_ms = 0
        assert (await issuer.drawn(ACME.home, "b", asks)).grants is None


async def test_older_instances_are_refused_a_rate_of_keys_and_send_nothing_of_one_that_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Cluster("a") as cluster:
        client = cluster.client("a")
        await client.limits.put("post", rate="10/s", keyed=True)
        await client.queues.put("mails", keys=KeyRules(KeyLimit(rate="10/s")))
        await client.queues.put("letters", limits=["post"])
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.DRAWS_KEYS})
            codec._needs.cache_clear()
            await cluster.add("old")
            ruled = cluster.instances["old"].node.regulating
            assert ruled is not None
            assert ruled.known.mode(QueueKey("default", "mails"), 0) is Mode.STOPPED
            assert ruled.limits.allow(QueueKey("default", "letters"), 1, 0).tasks == 0
        await cluster.advance(seconds=5)
        for change in (
            client.queues.put("calls", keys=KeyRules(KeyLimit(rate="10/s"))),
            client.queues.put("calls", keys=KeyRules(overrides={"acme": KeyLimit(rate="10/s")})),
            client.queues.put("calls", limits=["post"]),
            client.limits.put("call", max_in_hand=2, keyed=True, overrides={"acme": KeyLimit(rate="10/s")}),
        ):
            with pytest.raises(FailedPrecondition, match="by the rate of a limit key: old is of an older") as refused:
                await change
            assert refused.value.reason == "LIMIT_IN_CLUSTER"
        assert (await client.queues.put("calls", keys=KeyRules(KeyLimit(max_in_hand=3)))).keys is not None


def keeper_of(cluster: Cluster, key: LimitedKey) -> str:
    """Who keeps its home."""
    for name, each in cluster.instances.items():
        ruled = each.node.regulating
        assert ruled is not None
        assert ruled.key_borrowing is not None
        if ruled.key_borrowing.keepers.books_of(key.home) is not None:
            return name
    return ""
