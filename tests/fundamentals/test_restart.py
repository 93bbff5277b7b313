"""The server goes away and comes back: over data on disk, for a moment or for days."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc.aio
import pytest

from tests.fundamentals.conftest import Inbox, ledger
from tests.services.raw_worker import RawWorker
from timerd.client import CancelOutcome, Client, TaskState
from timerd.core.dispatch.redelivery_gate import RETURN_MS
from timerd.model.partition import Partition
from timerd.ports import Found
from timerd.testing import Server
from timerd.testing.async_server import CONFIG
from timerd.v1.work_service_pb2 import SETTLE_ACTION_ACK, Credit, Open
from timerd.v1.work_service_pb2_grpc import WorkServiceStub
from timerd.worker import Delivery


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    # What ended is looked at days later.
    config = replace(CONFIG, history_retention_ms=10 * 86_400_000)
    async with Server(data=tmp_path / "data", config=config) as running:
        yield running


async def test_nothing_is_lost_and_nothing_comes_twice(server: Server, client: Client, inbox: Inbox) -> None:
    """Four restarts between and around the instants of forty tasks: each comes once, at its time, or at once when the
    server was away at its time."""
    await inbox.works("mails")
    start = server.now
    times = [start + timedelta(minutes=3 * n) for n in range(1, 41)]
    await client.schedule_many("mails", [(b"%d" % n, at) for n, at in enumerate(times)])
    for minutes in (0.5, 20, 33, 50):
        await server.advance(minutes=minutes)
        await server.restart()
    await server.advance(hours=1)
    assert inbox.payloads == [b"%d" % n for n in range(40)]
    assert inbox.times == times
    assert await ledger(server) == {"inserted": 40, "acked": 40}


async def test_a_handler_of_forty_minutes_outlives_two_restarts(server: Server, client: Client, inbox: Inbox) -> None:
    """The worker comes back with what it has in hand and goes on; its task is not delivered a second time."""

    async def works_long(_: Delivery) -> None:
        await server.sleep(minutes=40)

    inbox.after = works_long
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60)
    for minutes in (10, 17):
        await server.advance(minutes=minutes)
        await server.restart()
    await server.advance(hours=2)
    assert inbox.attempts == [1]
    assert (await client.get(task.id)).state is TaskState.ACKED
    counts = await ledger(server)
    assert counts["acked"] == 1
    assert counts["inserted"] == 1 + counts["carried"]


async def test_who_is_back_soon_after_its_server_keeps_what_it_has_though_its_lease_has_ended(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """G5: it could not extend the lease while the server was away, and tries every 2 s at the least to connect."""
    await client.schedule("mails", b"x", delay=0)
    async with grpc.aio.insecure_channel(server.address) as channel:
        worker = RawWorker(WorkServiceStub(channel).Work())
        await worker.open(Open(credits=[Credit(queue="mails", tasks=1)], lease_ms=2_000))
        tokens = (await worker.deliver()).ack_tokens
        await server.stop()
    await server.advance(seconds=5)
    await server.start()
    await inbox.works("mails")
    await server.advance(milliseconds=RETURN_MS - 1)
    async with grpc.aio.insecure_channel(server.address) as channel:
        worker = RawWorker(WorkServiceStub(channel).Work())
        await worker.open(Open(resume=tokens, lease_ms=2_000))
        await worker.settle(SETTLE_ACTION_ACK, tokens)
        assert (await worker.confirmed()).refused == []
    await server.advance(minutes=1)
    assert inbox.got == []
    assert (await ledger(server))["acked"] == 1


async def test_cancels_and_moves_outlive_a_restart(server: Server, client: Client, inbox: Inbox) -> None:
    """What was answered before the stop holds after it."""
    await inbox.works("mails")
    start = server.now
    tasks = [await client.schedule("mails", b"%d" % n, at=start + timedelta(hours=1), key=f"k{n}") for n in range(3)]
    assert await client.cancel(tasks[0].id) is CancelOutcome.CANCELLED
    await client.reschedule(tasks[1].id, at=start + timedelta(hours=2))
    await server.restart()
    assert (await client.get(key="k0")).state is TaskState.CANCELLED
    assert (await client.get(key="k1")).fire_time == start + timedelta(hours=2)
    await server.advance(hours=3)
    assert {each.payload: each.at for each in inbox.got} == {
        b"1": start + timedelta(hours=2),
        b"2": start + timedelta(hours=1),
    }
    assert await client.cancel(tasks[0].id) is CancelOutcome.ALREADY_CANCELLED
    assert await ledger(server) == {"inserted": 4, "cancelled": 1, "moved": 1, "acked": 2}


async def test_a_cancel_of_many_outlives_a_restart(server: Server, client: Client, inbox: Inbox) -> None:
    """Also where another call had cancelled some of them, alone and together; the rest comes."""
    await inbox.works("mails")
    start = server.now
    tasks = await client.schedule_many("mails", [(b"%d" % n, start + timedelta(hours=1, seconds=n)) for n in range(90)])
    ids = [task.id for task in tasks]
    assert await client.cancel(ids[3]) is CancelOutcome.CANCELLED
    assert await client.cancel_many(ids[:30]) == [
        CancelOutcome.ALREADY_CANCELLED if n == 3 else CancelOutcome.CANCELLED for n in range(30)
    ]
    await server.restart()
    said = await client.cancel_many([*ids[20:60], ids[20], "none"])
    assert said[:10] == [CancelOutcome.ALREADY_CANCELLED] * 10
    assert said[10:] == [*[CancelOutcome.CANCELLED] * 30, CancelOutcome.ALREADY_CANCELLED, CancelOutcome.NOT_FOUND]
    await server.restart()
    await server.advance(hours=2)
    assert inbox.payloads == [b"%d" % n for n in range(60, 90)]
    assert await ledger(server) == {"inserted": 90, "cancelled": 60, "acked": 30}


async def test_after_an_outage_of_three_days_everything_comes(server: Server, client: Client, inbox: Inbox) -> None:
    """G14: every missed bucket is worked off, oldest first, however long ago it was; new tasks are on time."""
    start = server.now
    count = 72
    items = [(b"%d" % n, start + timedelta(hours=n + 1)) for n in range(count)]
    await client.schedule_many("mails", items)
    await server.advance(minutes=5)
    await server.stop()
    await server.advance(days=3, hours=1)
    await server.start()
    await inbox.works("mails", concurrency=1)
    fresh = await client.schedule("mails", b"fresh", delay=3600)
    await server.advance(minutes=5)
    assert inbox.payloads == [b"%d" % n for n in range(count)]
    await server.advance(hours=1)
    assert (inbox.payloads[-1], inbox.times[-1]) == (b"fresh", fresh.fire_time)
    counts = await ledger(server)
    assert (counts["acked"], counts["inserted"]) == (count + 1, count + 1 + counts["carried"])


async def test_a_backlog_outlives_a_restart(server: Server, client: Client, inbox: Inbox) -> None:
    """Tasks that nobody took before the stop are there after it, in order, each once."""
    start = server.now
    await client.schedule_many("mails", [(b"%d" % n, start + timedelta(minutes=n + 1)) for n in range(60)])
    await server.advance(hours=5)
    await server.restart()
    await server.advance(hours=5)
    await inbox.works("mails", concurrency=1)
    await server.advance(minutes=2)
    assert inbox.payloads == [b"%d" % n for n in range(60)]
    counts = await ledger(server)
    assert (counts["acked"], counts["inserted"]) == (60, 120)


async def test_a_retry_outlives_a_restart(server: Server, client: Client, inbox: Inbox) -> None:
    """The next attempt comes after its backoff, although the server was away in between."""

    async def fails_once(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            raise RuntimeError("no luck")

    inbox.after = fails_once
    await inbox.works("mails")
    await client.schedule("mails", b"x", delay=60)
    await server.advance(minutes=1)
    await server.restart()
    await server.advance(minutes=5)
    assert inbox.attempts == [1, 2]
    assert await ledger(server) == {"inserted": 2, "carried": 1, "acked": 1}


async def test_an_ended_task_is_known_to_the_next_holder(server: Server, client: Client, inbox: Inbox) -> None:
    """The server stops in the moment in which a task has ended: nothing but the record of its end says so."""
    await inbox.works("mails")
    await client.schedule_many("mails", [(b"%d" % n, 60) for n in range(20)])
    await server.advance(seconds=60)
    assert len(inbox.got) == 20
    await server.restart()
    await server.advance(hours=1)
    assert len(inbox.got) == 20
    assert await ledger(server) == {"inserted": 20, "acked": 20}


async def test_acks_of_deliveries_from_before_a_restart_need_no_look_up(
    server: Server, client: Client, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of them come at once; where a row waits that was held back for its worker is remembered."""

    async def works_long(_: Delivery) -> None:
        await server.sleep(minutes=3)

    inbox.after = works_long
    await inbox.works("mails", concurrency=400)
    start = server.now
    await client.schedule_many("mails", [(b"%d" % n, start + timedelta(seconds=60)) for n in range(300)])
    await server.advance(minutes=2)
    await server.restart()
    await server.advance(minutes=1)
    store, looked = server.node.store, list[object]()
    find = store.find

    async def finds(partition: Partition, keys: Sequence[tuple[int, bytes]]) -> Sequence[Found]:
        looked.append(keys)
        return await find(partition, keys)

    monkeypatch.setattr(store, "find", finds)
    await server.advance(minutes=10)
    assert len(inbox.got) == 300
    assert looked == []
    counts = await ledger(server)
    assert (counts["acked"], counts["inserted"]) == (300, 300 + counts["carried"])
