"""What happens to partitions and leases is counted: whose they were, who has them, and what nobody told of."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from timerd import Delivery, Reject, Retry
from timerd.adapters.memory import MemoryStore
from timerd.core.cluster.membership import Timing
from timerd.core.taken import QueueKey
from timerd.model.registers import Control, control_key
from timerd.model.storage import Cas
from timerd.ports import Store
from timerd.services.holding.membership import Member
from timerd.testing import Server, SimClock
from timerd.testing.cluster import Cluster, Running
from timerd.testing.gate import StoreGate

MAILS = QueueKey("default", "mails")


def happened(node: Running | Server) -> dict[str, int]:
    scheduler = (node if isinstance(node, Server) else node.turned).node.scheduler
    return {event: number for event, number in scheduler.held.events.counts.items() if number}


def rescued(server: Server) -> int:
    return server.node.scheduler.held.events.rescued_rows


async def test_one_that_is_alone_takes_loads_and_finishes() -> None:
    async with Server() as server:
        await server.client().schedule("mails", b"", delay=60)
        worker = server.worker()
        worker.on("mails")(lambda delivery: None)
        await worker.start()
        await server.advance(minutes=20)
        assert happened(server) == {"taken": 1, "loaded": 1, "finished": 1}
        assert server.node.scheduler.membership.events == {}


async def test_what_a_dead_instance_had_is_taken_over_and_what_one_leaves_is_handed_over() -> None:
    async with Cluster("a", "b") as cluster:
        a, b = cluster.instances["a"], cluster.instances["b"]
        client = cluster.client("a")
        await client.schedule_many("mails", [(b"", cluster.now.replace(minute=m)) for m in range(4, 60, 5)])
        await cluster.advance(minutes=30)
        await cluster.stop("b")
        after = happened(b)
        assert after["handed_over"] >= 1
        assert after["taken"] == after["loaded"]
        before = happened(a)
        assert "taken_over" not in before
        assert a.member.events["renewed"] > 100
        await cluster.add("b")
        await cluster.advance(minutes=2)
        held = len(cluster.instances["b"].holds())
        assert held >= 1
        await cluster.kill("b")
        await cluster.advance(minutes=1)
        assert happened(a)["taken_over"] == held
        assert (a.member.events["failed"], a.member.events["lapsed"]) == (0, 0)


async def test_one_that_stood_still_for_longer_than_its_lease_loses_what_it_had() -> None:
    async with Cluster("a", "b") as cluster:
        a = cluster.instances["a"]
        times = [cluster.now.replace(minute=m) for m in range(4, 60, 5)]
        await cluster.client("a").schedule_many("mails", [(b"", at) for at in times])
        await cluster.advance(minutes=16)
        held = len(a.holds())
        assert held >= 1
        cluster.freeze("a")
        await cluster.advance(seconds=30)
        cluster.thaw("a")
        await cluster.advance(seconds=10)
        assert a.member.events["lapsed"] == 1
        assert happened(a)["lost"] == held


async def test_a_sign_of_life_that_the_store_does_not_take_is_counted_and_the_lease_grows_old() -> None:
    clock, gate = SimClock(1_800_000_000_000), StoreGate(MemoryStore())
    member = Member("a", cast(Store, gate), clock, Timing(heartbeat_ms=2_000, ttl_ms=10_000))
    await member.join("a:1")
    gate.cut()
    for _ in range(6):
        clock.now_ms += 2_000
        await member.step()
    assert member.lease_age_ms() == 12_000
    assert dict(member.events) == {"renewed": 0, "failed": 6, "lapsed": 1}
    gate.cut(off=False)
    await member.step()
    assert (member.lease_age_ms(), member.events["renewed"]) == (0, 1)


async def test_a_mark_that_is_refused_is_counted_where_it_was_believed() -> None:
    """Somebody else has the partition, by whatever right: this holder hears it with its next mark."""
    async with Server() as server:
        await server.client().schedule_many("mails", [(b"", server.now.replace(second=s)) for s in range(10, 50)])
        worker = server.worker()
        worker.on("mails")(lambda delivery: None)
        await worker.start()
        await server.advance(seconds=20)
        [partition] = server.node.scheduler.machines
        stored = (await server.node.store.read([control_key(partition)]))[0]
        assert stored is not None
        other = Control.from_bytes(stored)
        other = replace(other, token=other.token + 1, holder="another")
        await server.node.store.cas([Cas(control_key(partition), stored, other.to_bytes())])
        await server.advance(seconds=5)
        seen = happened(server)
        assert (seen["mark_refused"], seen["lost"], seen["taken_over"]) == (1, 1, 1)


async def test_a_row_that_no_hint_told_of_is_found_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server() as server:
        client, got = server.client(), list[bytes]()
        worker = server.worker()

        @worker.on("mails")
        async def take(delivery: Delivery) -> None:
            got.append(delivery.payload)

        await worker.start()
        await client.schedule("mails", b"told", delay=10)
        await server.advance(seconds=5)
        assert rescued(server) == 0
        monkeypatch.setattr(server.node.scheduler.procedures, "_hint_own", lambda *_: None)
        await client.schedule("mails", b"not told", delay=10)
        await server.advance(seconds=12)
        assert got == [b"told", b"not told"]
        assert rescued(server) == 1


async def test_what_is_due_and_which_attempt_was_sent_are_counted_by_queue() -> None:
    async with Server() as server:
        client = server.client()
        await client.schedule_many("mails", [(b"", server.now.replace(second=s)) for s in (1, 2, 30)])
        await server.advance(seconds=10)
        machines = server.node.scheduler.machines.values()
        assert sum(m.due_rows(MAILS, server._clock.now_ms, 99) for m in machines) == 2
        worker = server.worker()

        @worker.on("mails")
        async def fail(delivery: Delivery) -> None:
            raise Retry(1) if delivery.attempt < 4 else Reject("no")

        await worker.start()
        await server.advance(minutes=1)
        stats = server.node.delivery.queue_stats.queues[MAILS]
        assert stats.attempts.counts == [3, 3, 3, 3, 0, 0]
        assert stats.attempts.total == 3 * (1 + 2 + 3 + 4)
