"""G11: the store does not answer for a while. Callers hear of it at once, and what is loaded fires all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NoReturn

import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.fundamentals.conftest import Inbox, ledger
from tests.services.raw_worker import RawWorker
from timerd.client import Client, TaskState
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.identity import parse_task_id
from timerd.model.settle import SettleRecord
from timerd.model.storage import Cas, CasResult, CasStatus, DeadLetter
from timerd.testing import Server
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1.timer_service_pb2_grpc import TimerServiceStub
from timerd.v1.work_service_pb2 import SETTLE_ACTION_ACK, Credit, Open
from timerd.v1.work_service_pb2_grpc import WorkServiceStub
from timerd.worker import Delivery, Reject

UNAVAILABLE, UNKNOWN = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN
WRITES = ("append", "mark", "settle", "finish_bucket", "put_dead_letters", "save_estimates")
READS = ("scan", "stretch", "find", "settled", "catalogue", "read")
Away = Callable[..., None]
# Of real time: far more than a refusal takes, far less than a caller would wait.
SOON_S = 5.0


@pytest.fixture
def away(server: Server, monkeypatch: pytest.MonkeyPatch) -> Away:
    """Call it, and the store does none of these any more, nor a compare-and-set; `monkeypatch.undo` brings it back."""

    async def refuse(*_: object, **__: object) -> NoReturn:
        raise StoreUnavailable("The store is away.", "STORE_UNAVAILABLE", retry_after_ms=1_000)

    async def unknown(changes: list[object]) -> list[CasResult]:
        return [CasResult(CasStatus.UNKNOWN) for _ in changes]

    def go(*operations: str) -> None:
        for name in operations:
            monkeypatch.setattr(server.node.store, name, refuse)
        monkeypatch.setattr(server.node.store, "cas", unknown)

    return go


async def code_of(call: grpc.aio.UnaryUnaryCall[object, object]) -> grpc.StatusCode:
    code = await call.code()
    assert isinstance(code, grpc.StatusCode)
    return code


def order(key: str = "") -> pb.ScheduleRequest:
    template = task_pb2.TaskTemplate(queue="mails")
    return pb.ScheduleRequest(template=template, payload=b"x", delay=Duration(seconds=60), key=key)


async def test_callers_hear_of_it_at_once(server: Server, client: Client, away: Away) -> None:
    """Schedule and Cancel are refused instead of waiting for the store."""
    task = await client.schedule("mails", b"x", delay=3600)
    away(*WRITES, *READS)
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = TimerServiceStub(channel)
        assert await code_of(stub.Schedule(order(), timeout=SOON_S)) is UNAVAILABLE
        assert await code_of(stub.Cancel(pb.CancelRequest(task_id=task.id), timeout=SOON_S)) is UNAVAILABLE


async def test_a_store_that_only_reads_is_told_of_as_well(server: Server, client: Client, away: Away) -> None:
    """So does a full disk: a key, which is compared and set, has an unknown outcome, but it has one."""
    task = await client.schedule("mails", b"x", delay=3600)
    away(*WRITES)
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = TimerServiceStub(channel)
        assert await code_of(stub.Schedule(order(), timeout=SOON_S)) is UNAVAILABLE
        assert await code_of(stub.Schedule(order(key="k"), timeout=SOON_S)) is UNKNOWN
        assert await code_of(stub.Cancel(pb.CancelRequest(task_id=task.id), timeout=SOON_S)) is UNAVAILABLE
    assert (await client.get(task.id)).state is TaskState.PENDING


async def test_a_repeat_of_what_was_stored_is_not_told_that_it_was_not(server: Server, away: Away) -> None:
    """The store knows the repeat, and goes away before it was looked whether the task, which is due, was taken in."""
    repeat = order()
    repeat.request_id = "r"
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = TimerServiceStub(channel)
        await stub.Schedule(repeat)
        await server.advance(seconds=61)
        away("find")
        assert await code_of(stub.Schedule(repeat, timeout=SOON_S)) is UNKNOWN


async def test_what_is_loaded_fires_all_the_same(
    server: Server, client: Client, inbox: Inbox, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three tasks come at their instants while the store is away; when it is back, each has ended once."""
    came: asyncio.Queue[bytes] = asyncio.Queue()

    async def tell(delivery: Delivery) -> None:
        came.put_nowait(delivery.payload)

    inbox.after = tell
    await inbox.works("mails")
    start = server.now
    await client.schedule_many("mails", [(b"%d" % n, 60 + n) for n in range(3)])
    await server.advance(seconds=59)
    away(*WRITES, *READS)
    for n in range(3):
        turn_clock(server, 1_000)
        assert await asyncio.wait_for(came.get(), SOON_S) == b"%d" % n
        turn_clock(server, 0)
    assert [(at - start).total_seconds() for at in inbox.times] == [60, 61, 62]
    monkeypatch.undo()
    assert await ledger(server) == {"inserted": 3, "acked": 3}
    assert len(inbox.got) == 3


async def test_a_mark_that_is_not_taken_is_asked_for_with_pauses(
    server: Server, client: Client, inbox: Inbox, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, which can still be read, costs no time that delivery needs."""
    await inbox.works("mails")
    await client.schedule("mails", b"x", delay=60)
    await server.advance(seconds=59)
    away(*WRITES)
    asked, unknown = [], server.node.store.cas

    async def counted(changes: Sequence[Cas]) -> Sequence[CasResult]:
        asked.append(changes)
        return await unknown(changes)

    monkeypatch.setattr(server.node.store, "cas", counted)
    for _ in range(3):
        turn_clock(server, 1_000)
        for _ in range(300):
            await asyncio.sleep(0)
    assert 0 < len(asked) < 10
    monkeypatch.undo()
    assert await ledger(server) == {"inserted": 1, "acked": 1}


async def test_an_ack_is_confirmed_when_its_record_is_durable(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5: until then the worker sends it again, wherever it is connected."""
    written, settle = asyncio.Event(), server.node.store.settle

    async def slowly(records: Sequence[SettleRecord], dead_letters: Sequence[DeadLetter]) -> None:
        await written.wait()
        await settle(records, dead_letters)

    await client.schedule("mails", b"x", delay=0)
    async with grpc.aio.insecure_channel(server.address) as channel:
        worker = RawWorker(WorkServiceStub(channel).Work())
        await worker.open(Open(credits=[Credit(queue="mails", tasks=1)], worker="test"))
        delivered = await worker.deliver()
        monkeypatch.setattr(server.node.store, "settle", slowly)
        await worker.settle(SETTLE_ACTION_ACK, delivered.ack_tokens, sequence=7)
        for _ in range(3):
            assert await worker.has_nothing()
        written.set()
        assert (await worker.confirmed()).sequence == 7


async def test_get_tells_an_end_when_its_record_is_durable(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then a crash takes it back, and its dead letter is on no list."""
    begun, written, settle = asyncio.Event(), asyncio.Event(), server.node.store.settle

    async def slowly(records: Sequence[SettleRecord], dead_letters: Sequence[DeadLetter]) -> None:
        begun.set()
        await written.wait()
        await settle(records, dead_letters)

    async def rejects(_: Delivery) -> None:
        raise Reject("no such address")

    worker = server.worker()
    worker.on("mails")(rejects)
    async with server.working(worker):
        monkeypatch.setattr(server.node.store, "settle", slowly)
        task = await client.schedule("mails", b"x", delay=0)
        await begun.wait()
        asking = asyncio.create_task(client.get(task.id))
        await asyncio.wait([asking], timeout=0.05)
        assert not asking.done()
        written.set()
        assert (await asking).state is TaskState.DEAD
        assert [letter.task.id async for letter in client.dead_letters(queue="mails")] == [task.id]


def turn_clock(server: Server, by_ms: int) -> None:
    """Without waiting for what the store still owes, as `advance` would."""
    server._clock.now_ms += by_ms
    server.node.scheduler.held.tick(server._clock.now_ms)
    server.node.delivery.wake()


async def test_a_redrive_that_has_moved_its_task_is_not_told_as_refused(
    server: Server, client: Client, inbox: Inbox, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store went away before the dead letter was taken off the list: the repeat does that."""

    async def rejects(_: Delivery) -> None:
        raise Reject("no")

    inbox.after = rejects
    await inbox.works("mails")
    sent = await client.schedule("mails", b"x", delay=1)
    await server.advance(seconds=5)
    task = parse_task_id(sent.id)
    assert task is not None
    # From here on it is taken.
    inbox.after = None
    cas = server.node.store.cas
    away("take_dead_letters")
    monkeypatch.setattr(server.node.store, "cas", cas)
    with pytest.raises(StoreUnknown):
        await server.node.engine.redrive("default", "r", [task], 0)
    monkeypatch.undo()
    assert await server.node.engine.redrive("default", "r", [task], 0) == [True]
    assert [letter async for letter in client.dead_letters("mails")] == []
