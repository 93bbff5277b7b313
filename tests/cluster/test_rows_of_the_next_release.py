"""Instances of two releases on one store: a row that one of them does not understand goes to one that does."""

from __future__ import annotations

import asyncio

import pytest

from timerd.client import FailedPrecondition, NotFound, TaskState
from timerd.core.cluster.placement import holder_of
from timerd.model import codec
from timerd.model.codec import known_by_all
from timerd.model.identity import RowKey, message_prefix
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Control, control_key
from timerd.model.rows import single_row
from timerd.model.storage import Append
from timerd.model.task import NO_EXTRA, Template
from timerd.sdk.values.times import instant_ms
from timerd.services.peers.peers import Peers
from timerd.testing import Cluster
from timerd.worker import Delivery

NEEDING = Template("default", "mails", kept='{"ordering_key":"x","needs":["ordering"]}')


async def write(cluster: Cluster, template: Template, payload: bytes, at_ms: int, holder: str) -> Partition:
    """A row in a partition that is placed on `holder` when "a" and "b" live."""
    bucket_ms = bucket_of(at_ms)
    shards = (Partition(TIME_SCOPE, bucket_ms, shard) for shard in range(64))
    partition = next(each for each in shards if holder_of(each, ("a", "b")) == holder)
    key = RowKey(at_ms, message_prefix("default", payload.decode(), b"") + bytes(4), 0)
    row = single_row(key, at_ms, template, payload, NO_EXTRA, 0)
    await cluster.store.append([Append(((partition, row),))])
    return partition


async def holder(cluster: Cluster, partition: Partition) -> Control:
    [stored] = await cluster.store.read([control_key(partition)])
    assert stored is not None
    return Control.from_bytes(stored)


@pytest.mark.parametrize("lost", [False, True], ids=["told", "notice lost"])
async def test_it_goes_to_an_instance_that_understands_it_and_stays_there(
    monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    async with Cluster("a") as cluster:
        got: list[bytes] = []
        at_ms = instant_ms(cluster.now, "now") + 30_000
        partition = await write(cluster, NEEDING, b"new", at_ms, "a")
        assert partition == await write(cluster, Template("default", "mails"), b"old", at_ms, "a")
        worker = cluster.worker("a")

        @worker.on("mails")
        async def receive(delivery: Delivery) -> None:
            got.append(delivery.payload)

        await worker.start()
        await cluster.advance(minutes=1)
        assert got == [b"old"]
        assert (await holder(cluster, partition)).holder == "a"
        monkeypatch.setattr(codec, "CAPABILITIES", codec.CAPABILITIES | {"ordering"})
        b = await cluster.add("b")
        told = Peers.hand_over
        if lost:
            monkeypatch.setattr(Peers, "hand_over", lambda *_: None)
        await cluster.advance(seconds=15)
        if lost:
            assert got == [b"old"]
            monkeypatch.setattr(Peers, "hand_over", told)
            await cluster.advance(seconds=5)
        assert got == [b"old", b"new"]
        assert "ordering" not in known_by_all(b.member.announced())
        for _ in range(5):
            await cluster.advance(seconds=2)
            control = await holder(cluster, partition)
            assert control.finished or (control.holder, control.rows_need) == ("b", ("ordering",))


async def test_while_an_instance_does_not_know_a_span_no_task_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would send what has expired. A task without one is taken in."""
    async with Cluster("a") as cluster:
        client = cluster.client("a")
        before = await client.schedule("mails", b"x", delay=60, expire_after=60, request_id="r")
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.EXPIRES_AFTER})
            await cluster.add("old")
        await cluster.advance(seconds=5)
        with pytest.raises(FailedPrecondition, match=r"old is of an older release") as refused:
            await client.schedule("mails", b"x", delay=60, expire_after=60)
        assert refused.value.reason == "OLDER_RELEASE"
        await client.schedule("mails", b"x", delay=60)
        assert (await client.get(before.id)).state is TaskState.PENDING


async def test_while_an_instance_does_not_know_tasks_on_demand_there_are_calls_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would name the same message otherwise, so a repeat through it would be another task. What is made of a call is
    named by what the caller has sent."""
    async with Cluster("a") as cluster:
        client = cluster.client("a")
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.ON_DEMAND})
            await cluster.add("old")
        await cluster.advance(seconds=5)
        with pytest.raises(FailedPrecondition, match=r"knows on_demand: old is of an older release") as refused:
            await client.schedule("mails", b"x", delay=60, expire_after=60, on_demand=True)
        assert refused.value.reason == "OLDER_RELEASE"
        worker = cluster.worker("a")

        @worker.on("sums")
        async def answers(_: Delivery) -> bytes:
            return b"6"

        await worker.start()
        calling = asyncio.create_task(client.call("sums", b"x", timeout=60))
        await cluster.advance(seconds=5)
        assert await calling == b"6"


async def test_while_an_instance_does_not_know_places_no_cycle_has_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would make turns of one kind alone. A cycle without places is created."""
    async with Cluster("a") as cluster:
        cycles = cluster.client("a").cycles
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.PLACES})
            await cluster.add("old")
        await cluster.advance(seconds=5)
        with pytest.raises(FailedPrecondition, match=r"knows the places of cycles: old is of an older") as refused:
            await cycles.create("sync", queue="mails", every=3600, places=["bills", "reports"])
        assert refused.value.reason == "OLDER_RELEASE"
        with pytest.raises(NotFound):
            await cycles.get("sync")
        await cycles.create("plain", queue="mails", every=3600)
        await cluster.stop("old")
        await cluster.advance(minutes=1)
        assert (await cycles.create("sync", queue="mails", every=3600, places=["bills", "reports"])).places
