"""Modes of a queue on several instances: who pauses waits for all that live, and who comes reads before it sends."""

from __future__ import annotations

from collections import Counter

import pytest

from timerd.client import Client, FailedPrecondition, QueueMode
from timerd.core.taken import QueueKey
from timerd.model import codec
from timerd.testing import Cluster
from timerd.worker import Delivery

TASKS = 40


class Came:
    """What the workers of a cluster got."""

    def __init__(self) -> None:
        self.payloads: Counter[bytes] = Counter()

    async def work(self, cluster: Cluster, name: str) -> None:
        worker = cluster.worker(name)

        @worker.on("mails")
        async def handle(delivery: Delivery) -> None:
            self.payloads[delivery.payload] += 1

        await worker.start()


async def schedule(client: Client, seconds: float) -> None:
    """Over several buckets, so that each instance holds some."""
    for n in range(TASKS):
        await client.schedule("mails", b"%d" % n, delay=seconds + n * 15)


async def test_a_pause_by_one_instance_holds_on_all() -> None:
    async with Cluster("a", "b", "c") as cluster:
        came = Came()
        await came.work(cluster, "a")
        await came.work(cluster, "b")
        await schedule(cluster.client("b"), 20)
        paused = await cluster.client("c").queues.pause("mails")
        assert (paused.mode, paused.silent) == (QueueMode.PAUSED, ())
        await cluster.advance(minutes=12)
        assert came.payloads == Counter()
        assert (await cluster.client("a").queues.get("mails")).mode is QueueMode.PAUSED
        await cluster.client("b").queues.resume("mails")
        await cluster.advance(seconds=5)
        assert came.payloads == Counter({b"%d" % n: 1 for n in range(TASKS)})


async def test_a_queue_that_takes_nothing_in_does_so_at_no_instance() -> None:
    async with Cluster("a", "b") as cluster:
        await cluster.client("a").queues.drain("mails")
        for name in ("a", "b"):
            with pytest.raises(FailedPrecondition, match="DRAINING"):
                await cluster.client(name).schedule("mails", b"x", delay=1)


async def test_who_does_not_answer_is_named_until_it_is_known_to_be_dead() -> None:
    async with Cluster("a", "b", "c") as cluster:
        client = cluster.client("a")
        await cluster.kill("c")
        pending = await client.queues.pause("mails", request_id="once")
        assert (pending.mode, pending.silent) == (QueueMode.PAUSED, ("c",))
        await cluster.advance(seconds=20)
        # The very same call: what was PENDING is asked for again.
        paused = await client.queues.pause("mails", request_id="once")
        assert (paused.mode, paused.revision, paused.silent) == (QueueMode.PAUSED, pending.revision, ())


async def test_who_comes_later_sends_nothing_either() -> None:
    async with Cluster("a") as cluster:
        came = Came()
        await schedule(cluster.client("a"), 60)
        await cluster.client("a").queues.pause("mails")
        await cluster.add("b")
        await came.work(cluster, "b")
        await cluster.stop("a")
        await cluster.advance(minutes=12)
        assert came.payloads == Counter()
        await cluster.client("b").queues.resume("mails")
        await cluster.advance(seconds=5)
        assert set(came.payloads.values()) == {1}
        assert len(came.payloads) == TASKS


async def test_who_was_frozen_beyond_its_lease_sends_nothing_when_it_goes_on() -> None:
    """It was dead for the others, so nobody asked it: it reads all rules again before it sends."""
    async with Cluster("a", "b") as cluster:
        came = Came()
        await came.work(cluster, "b")
        await schedule(cluster.client("a"), 60)
        cluster.freeze("b")
        await cluster.advance(seconds=30)
        assert (await cluster.client("a").queues.pause("mails")).silent == ()
        ruled = cluster.instances["b"].node.regulating
        assert ruled is not None
        assert ruled.known.of(QueueKey("default", "mails")).revision == 0
        cluster.thaw("b")
        await cluster.advance(minutes=12)
        assert came.payloads == Counter()
        assert ruled.known.of(QueueKey("default", "mails")).revision == 1
        await cluster.client("b").queues.resume("mails")
        await cluster.advance(seconds=5)
        assert len(came.payloads) == TASKS


async def test_who_missed_the_call_reads_it_within_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster("a", "b") as cluster:
        ruled = cluster.instances["b"].node.regulating
        assert ruled is not None
        with monkeypatch.context() as deaf:
            deaf.setattr(ruled.known, "heard", lambda *_: False)
            await cluster.client("a").queues.stop("mails")
        await cluster.advance(seconds=11)
        with pytest.raises(FailedPrecondition, match="STOPPED"):
            await cluster.client("b").schedule("mails", b"x", delay=1)


async def test_while_an_instance_knows_no_rules_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster("a") as cluster:
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", frozenset({codec.KEEPS_FIELDS}))
            await cluster.add("old")
        await cluster.advance(seconds=5)
        with pytest.raises(FailedPrecondition, match=r"old is of an older release. Upgrade it") as refused:
            await cluster.client("a").queues.pause("mails")
        assert refused.value.reason == "OLDER_RELEASE"
        assert (await cluster.client("a").queues.get("mails")).revision == 0
