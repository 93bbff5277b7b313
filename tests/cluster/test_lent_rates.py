"""A rate on several instances: each starts by the tokens that it has drawn, so together they keep to it."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.cluster.lending import TTL_S, keeper, senders, wait
from timerd.client import FailedPrecondition
from timerd.core.regulation import AHEAD_MS, LimitLabels
from timerd.model import codec
from timerd.testing import Cluster
from timerd.worker import Delivery, Throttled

NAMES = ("a", "b", "c")


class Starts:
    """When handlers have begun, by the clock of the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.at: list[datetime] = []
        self.payloads: list[bytes] = []

    async def work(self, *names: str, queues: tuple[str, ...] = ("mails",)) -> None:
        worker = self._cluster.worker(*names)
        for queue in queues:

            @worker.on(queue, concurrency=50)
            async def handle(delivery: Delivery) -> None:
                self.at.append(self._cluster.now)
                self.payloads.append(delivery.payload)

        await worker.start()

    def most_in(self, seconds: float) -> int:
        """In any so long stretch, its ends among it."""
        at = sorted(each.timestamp() for each in self.at)
        return max((sum(first <= each <= first + seconds for each in at[n:]) for n, first in enumerate(at)), default=0)

    def check(self, rate: float, burst: int) -> None:
        """In any w seconds no more than the rate gives in w + 1 s, and the burst."""
        for seconds in (0.0, 0.2, 1.0, 3.0, 10.0):
            assert self.most_in(seconds) <= rate * (seconds + 1) + burst


async def begun(cluster: Cluster, starts: Starts, tasks: int, rate: str, burst: int) -> None:
    """Tasks are due at several instances, and the first are on their way."""
    for name in NAMES:
        await starts.work(name, *sorted({*NAMES} - {name}))
    limit = (await cluster.client("b").queues.put("mails", rate=rate, burst=burst)).limit
    assert limit is not None
    await due(cluster, "mails", tasks)
    await cluster.client("c").queues.resume("mails")


async def due(cluster: Cluster, queue: str, tasks: int) -> None:
    """Over several buckets, while the queue is paused: then each instance holds some that are due."""
    client = cluster.client(next(iter(cluster.instances)))
    await client.queues.pause(queue)
    for n in range(tasks):
        await client.schedule(queue, b"%s %d" % (queue.encode(), n), delay=10 + n * 600 / tasks)
    await cluster.advance(minutes=11)


async def test_three_instances_keep_to_one_rate_and_reach_it() -> None:
    async with Cluster(*NAMES) as cluster:
        starts = Starts(cluster)
        await begun(cluster, starts, tasks=60, rate="10/s", burst=5)
        await wait(cluster, seconds=7)
        starts.check(rate=10, burst=5)
        assert len(senders(cluster)) == len(NAMES)
        assert len(starts.at) == len(set(starts.payloads)) == 60


@pytest.mark.parametrize("killed", [False, True])
async def test_the_next_keeper_begins_with_nothing_to_give(killed: bool) -> None:
    """One that leaves is succeeded at once; one that was killed when it is known to be dead."""
    async with Cluster(*NAMES) as cluster:
        starts = Starts(cluster)
        await begun(cluster, starts, tasks=90, rate="1/s", burst=20)
        await wait(cluster, seconds=1)
        gone, before = keeper(cluster), len(starts.at)
        assert before >= 20
        await (cluster.kill(gone) if killed else cluster.stop(gone))
        # So long nothing starts by the limit.
        await cluster.advance(seconds=TTL_S + 3 if killed else 0)
        await wait(cluster, seconds=6)
        starts.check(rate=1, burst=20)
        assert keeper(cluster) not in ("", gone)
        assert len(starts.at) >= before + 3


async def test_who_stood_still_hands_out_nothing_by_what_it_kept() -> None:
    async with Cluster(*NAMES) as cluster:
        starts = Starts(cluster)
        await begun(cluster, starts, tasks=60, rate="1/s", burst=10)
        await wait(cluster, seconds=1)
        frozen = keeper(cluster)
        cluster.freeze(frozen)
        await wait(cluster, seconds=2)
        await cluster.advance(seconds=TTL_S + 3)
        cluster.thaw(frozen)
        before = len(starts.at)
        await wait(cluster, seconds=6)
        starts.check(rate=1, burst=10)
        assert len(starts.at) >= before + 3


async def test_a_change_counts_within_two_seconds() -> None:
    async with Cluster(*NAMES) as cluster:
        starts = Starts(cluster)
        await begun(cluster, starts, tasks=60, rate="10/s", burst=2)
        await wait(cluster, seconds=1)
        await cluster.client("c").queues.put("mails", rate="2/s", burst=1)
        await wait(cluster, seconds=2)
        starts.at.clear()
        await wait(cluster, seconds=5)
        assert 8 <= len(starts.at) <= 2 * 5 + 1


async def test_what_was_throttled_on_one_instance_holds_all() -> None:
    async with Cluster(*NAMES) as cluster:
        starts, told = Starts(cluster), list[datetime]()
        await starts.work("a", "b", "c")
        worker = cluster.worker("b", "a", "c")

        @worker.on("charges")
        async def charge(_: Delivery) -> None:
            if not told:
                told.append(cluster.now)
                raise Throttled(after=12, limit="stripe")

        await worker.start()
        client = cluster.client("a")
        await client.limits.put("stripe", rate="5/s")
        await client.queues.put("mails", limits=["stripe"])
        await client.queues.put("charges", limits=["stripe"])
        await due(cluster, "mails", tasks=30)
        await client.queues.resume("mails")
        await wait(cluster, seconds=1)
        await client.schedule("charges", b"429", delay=0)
        while not told:
            await wait(cluster, seconds=0.2)
        # What had been drawn by then may start for a second.
        await wait(cluster, seconds=1 + AHEAD_MS / 1000)
        starts.at.clear()
        await cluster.advance(seconds=9)
        assert starts.at == []
        await wait(cluster, seconds=4)
        assert starts.at


async def test_a_limit_of_both_keeps_to_both() -> None:
    """No token is drawn while there is no permit to use it with."""
    async with Cluster(*NAMES) as cluster:
        starts = Starts(cluster)
        hands, most = list[int](), list[int]()
        worker = cluster.worker(*NAMES)

        @worker.on("calls", concurrency=20)
        async def call(_: Delivery) -> None:
            starts.at.append(cluster.now)
            hands.append(1)
            most.append(len(hands))
            await cluster.sleep(seconds=2)
            hands.pop()

        await worker.start()
        await cluster.client("a").limits.put("partner", rate="10/s", burst=4, max_in_hand=3)
        await cluster.client("a").queues.put("calls", limits=["partner"])
        await due(cluster, "calls", tasks=12)
        await cluster.client("b").queues.resume("calls")
        await wait(cluster, seconds=12)
        assert len(starts.at) == 12
        assert max(most) == 3
        starts.check(rate=10, burst=4)


async def test_what_waits_says_until_when() -> None:
    async with Cluster("a", "b") as cluster:
        starts = Starts(cluster)
        await starts.work("a", "b")
        client = cluster.client("a")
        await client.queues.put("mails", rate="6/m", burst=1)
        tasks = [await client.schedule("mails", b"%d" % n, delay=1) for n in range(2)]
        await wait(cluster, seconds=3)
        (late,) = [task for task in tasks if (await client.get(task.id)).state.name != "ACKED"]
        waiting = (await client.get(late.id)).waiting_for
        assert waiting is not None
        assert (waiting.reason.name, waiting.limit) == ("LIMIT", "")
        assert waiting.until is not None
        assert 5 < (waiting.until - cluster.now).total_seconds() <= 10


async def test_older_instances_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster("a") as cluster:
        client = cluster.client("a")
        await client.limits.put("stripe", rate="10/s")
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.DRAWS})
            await cluster.add("old")
        await cluster.advance(seconds=5)
        for change in (client.queues.put("mails", rate="10/s"), client.queues.put("mails", limits=["stripe"])):
            with pytest.raises(FailedPrecondition, match="old is of an older release, and would count for") as refused:
                await change
            assert refused.value.reason == "LIMIT_IN_CLUSTER"
        assert (await client.queues.put("mails", max_in_hand=3)).limit is not None


async def test_who_is_not_sure_of_its_lease_hands_out_nothing() -> None:
    """T4: another one may keep the limit by now."""
    async with Cluster("a", "b") as cluster:
        await begun_alone(cluster)
        kept = cluster.instances[keeper(cluster)]
        assert kept.node.regulating is not None
        assert kept.node.regulating.drawing is not None
        issuer, labels = kept.node.regulating.drawing.issuer, LimitLabels("default", "mails", "")
        assert (await issuer.drawn(labels, "b", 1, 0)).grant is not None
        kept.member.trust.ttl_ms = 0
        assert (await issuer.drawn(labels, "b", 1, 0)).grant is None


async def begun_alone(cluster: Cluster) -> None:
    """One task has started by a rate."""
    starts = Starts(cluster)
    await starts.work("a", "b")
    await cluster.client("a").queues.put("mails", rate="10/s")
    await cluster.client("a").schedule("mails", b"one", delay=0)
    await wait(cluster, seconds=1)
    assert len(starts.at) == 1
