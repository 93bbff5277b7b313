"""What handlers return, and who waits for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest
from google.protobuf.message import Message

from timerd.client import CallExpired, CallFailed, Client, InvalidTask, TaskState, TimerdError
from timerd.model.errors import StoreUnavailable
from timerd.model.registers import result_key
from timerd.model.storage import Cas, CasResult
from timerd.testing import Server
from timerd.v1 import task_pb2
from timerd.v1 import work_service_pb2 as pb
from timerd.worker import Delivery, Reject, TaskResult, Worker

MINUTE = timedelta(minutes=1)
DAY = timedelta(hours=24)


@pytest.fixture
async def worker(server: Server) -> AsyncIterator[Worker]:
    """Of `sums`: an answer for each task, and of `many`, where the handler takes what has come together."""
    worker = server.worker()

    @worker.on("sums")
    async def add(delivery: Delivery) -> str:
        return str(sum(json.loads(delivery.payload)))

    @worker.on_batch("many")
    async def add_all(deliveries: list[Delivery]) -> list[bytes | Exception | None]:
        return [None if not d.payload else OSError() if d.payload == b"bad" else d.payload * 2 for d in deliveries]

    @worker.on("hopeless")
    async def reject(delivery: Delivery) -> None:
        raise Reject("there are no such numbers")

    @worker.on("pages")
    def page(delivery: Delivery) -> TaskResult:
        return TaskResult("<p>", "text/html")

    @worker.on("large")
    async def repeat(delivery: Delivery) -> bytes:
        return delivery.payload * 2

    @worker.on("large-plainly")
    def typed(delivery: Delivery) -> TaskResult:
        return TaskResult(delivery.payload * 2)

    @worker.on("objects")
    async def answer(delivery: Delivery) -> object:
        return {"sum": 3}

    async with server.working(worker):
        yield worker


@pytest.mark.usefixtures("worker")
async def test_a_call_is_answered_with_what_the_handler_returns(client: Client) -> None:
    assert await client.call("sums", "[1, 2]", timeout=5) == b"3"
    assert await client.call("many", timeout=5) is None


@pytest.mark.usefixtures("worker")
async def test_a_result_is_kept_for_who_asks_later(server: Server, client: Client) -> None:
    task = await client.schedule("pages", b"", delay=MINUTE, keep_result=DAY)
    await server.advance(MINUTE)
    found = await client.get(task.id)
    assert (found.state, found.result, found.result_content_type) == (TaskState.ACKED, b"<p>", "text/html")
    await server.restart()
    assert (await client.wait(task.id)).result == b"<p>"
    await server.advance(DAY)
    await server.advance(hours=2)
    assert (await client.get(task.id)).result is None


@pytest.mark.usefixtures("worker")
async def test_a_result_that_nobody_asked_for_is_not_kept(server: Server, client: Client) -> None:
    task = await client.schedule("sums", "[1]", delay=MINUTE)
    await server.advance(MINUTE)
    found = await client.get(task.id)
    assert (found.state, found.result) == (TaskState.ACKED, None)


@pytest.mark.usefixtures("worker")
async def test_a_handler_of_batches_gives_a_result_for_each(server: Server, client: Client) -> None:
    payloads = [b"a", b"", b"bad", b"a"]
    tasks = await client.schedule_many("many", [(each, MINUTE) for each in payloads], keep_result=DAY)
    await server.advance(MINUTE)
    found = [await client.get(task.id) for task in tasks]
    assert [each.result for each in found] == [b"aa", None, None, b"aa"]
    assert [each.state for each in found][2] is TaskState.RETRYING


@pytest.mark.usefixtures("worker")
async def test_what_a_call_fails_with_is_told(client: Client) -> None:
    with pytest.raises(CallFailed, match="DEAD: there are no such numbers"):
        await client.call("hopeless", timeout=5)


async def test_a_call_that_nobody_answers_ends_with_its_time(server: Server, client: Client) -> None:
    with pytest.raises(CallExpired, match="'nobody'"):
        await client.call("nobody", timeout=0.05)


async def test_a_call_that_comes_too_late_has_expired(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that was away, or busy, refuses what cannot be in time any more: its caller has done nothing wrong."""
    client._open()
    unary = type(client._calls).__call__

    async def late(self: object, method: str, request: Message, *rest: object, **more: object) -> object:
        await server.advance(MINUTE)
        await asyncio.sleep(0.002)
        return await unary(self, method, request, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(type(client._calls), "__call__", late)
    with pytest.raises(CallExpired, match="'nobody'"):
        await client.call("nobody", timeout=0.001)


async def test_a_caller_that_is_gone_cancels_the_task(server: Server, client: Client) -> None:
    calling = asyncio.create_task(client.call("nobody", b"x", timeout=60))
    ends = server.node.server.api.ends
    while not ends.waiting:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    async with asyncio.timeout(10):
        while await client.count(queue="nobody", start=server.now - MINUTE):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)


async def test_a_caller_that_is_gone_while_the_task_is_stored_cancels_it_too(server: Server) -> None:
    """Whenever that is; and a client that is closed sees to it first."""
    for turns in range(12):
        async with Client(server.address) as client:
            calling = asyncio.create_task(client.call("nobody", b"x", timeout=60))
            for _ in range(turns):
                await asyncio.sleep(0)
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
    assert [task.state async for task in server.client().list(queue="nobody")] == []


async def test_what_an_ack_that_was_refused_said_is_no_result(server: Server, client: Client) -> None:
    """It came after a reject, and speaks of a life that is over when the task is redriven."""
    task = await client.schedule("sums", b"x", delay=0, keep_result=DAY)
    [first] = await client.receive("sums", max=1, wait=5)
    await client.finish(first, "reject", error="no")
    assert await client.finish(first, result="old") == {first.delivery_id: TaskState.DEAD}
    await client.redrive([task.id])
    [second] = await client.receive("sums", max=1, wait=5)
    assert await client.finish(second, result="new") == {}
    assert (await client.wait(task.id)).result == b"new"


@pytest.mark.usefixtures("worker")
async def test_the_end_of_a_call_is_told_with_the_last_error(client: Client) -> None:
    """At once, while the row of the task is still there."""
    for _ in range(5):
        with pytest.raises(CallFailed, match="there are no such numbers"):
            await client.call("hopeless", timeout=5)
    with pytest.raises(InvalidTask, match="`timeout` must be"):
        await client.call("sums", timeout=0)


@pytest.mark.usefixtures("worker")
async def test_what_can_be_no_result_ends_the_task_at_once(server: Server, client: Client) -> None:
    task = await client.schedule("objects", b"", delay=0, keep_result=DAY)
    plain = await client.schedule("objects", b"", delay=0)
    await server.settle()
    found = await client.get(task.id)
    assert (found.state, found.attempt) == (TaskState.DEAD, 1)
    [letter] = [each async for each in client.dead_letters("objects")]
    assert "returns bytes, a text, a `TaskResult` or None, not dict" in letter.last_error
    assert (await client.get(plain.id)).state is TaskState.ACKED


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("queue", ["large", "large plainly", "many"])
async def test_the_caller_hears_at_once_that_a_result_is_too_large(client: Client, queue: str) -> None:
    """It would be as large after every other attempt, and the caller would hear nothing for as long as it waits."""
    with pytest.raises(CallFailed, match=r"DEAD: The result has 80,000 bytes: at most 65,536 are kept"):
        await client.call(queue.replace(" ", "-"), b"x" * 40_000, timeout=60)


def test_a_result_is_bytes_up_to_64_kib() -> None:
    with pytest.raises(InvalidTask, match=r"The result has 65,537 bytes: at most 65,536 are kept"):
        TaskResult(b"x" * 65_537)
    with pytest.raises(InvalidTask, match="cannot be written as UTF-8"):
        TaskResult("\ud800")


@pytest.mark.parametrize("content_type", ["x" * 129, "text/plain\n", "\ud800", 5])
def test_its_type_is_what_a_server_takes(content_type: str) -> None:
    """Else the server would refuse the end of the attempt, and it would come again when its lease is over."""
    with pytest.raises(InvalidTask, match="give text of at most 128 characters"):
        TaskResult(b"", content_type)


@pytest.mark.parametrize("keep", [timedelta(hours=25), 0])
async def test_it_is_kept_for_a_day_at_most(client: Client, keep: timedelta | int) -> None:
    with pytest.raises(InvalidTask, match="keep_result"):
        await client.schedule("sums", b"", delay=0, keep_result=keep)


async def finish(client: Client, request: pb.FinishRequest) -> pb.FinishResponse:
    return await client._calls("Finish", request, pb.FinishResponse, service="WorkService")


async def test_a_worker_without_a_stream_gives_one_too(server: Server, client: Client) -> None:
    task = await client.schedule("sums", "[1, 2]", delay=0, keep_result=DAY)
    [received] = await client.receive("sums", wait=5)
    assert received.keep_result == DAY
    await client.finish(received, result="3")
    assert (await client.wait(task.id)).result == b"3"


async def test_what_is_wrong_with_a_result_is_said_before_anything_ends(server: Server, client: Client) -> None:
    await client.schedule("sums", "[1, 2]", delay=0, keep_result=DAY)
    [received] = await client.receive("sums", wait=5)
    request = pb.FinishRequest(ack_tokens=[received.ack_token], action=pb.SETTLE_ACTION_NACK)
    request.result.value = b"3"
    request.keep_result.FromSeconds(60)
    with pytest.raises(TimerdError, match="Only an ACK has a result"):
        await finish(client, request)
    request.action = pb.SETTLE_ACTION_ACK
    request.result.CopyFrom(task_pb2.Result(value=b"x" * 65_537))
    with pytest.raises(TimerdError, match="at most 65,536 are kept"):
        await finish(client, request)
    request.result.CopyFrom(task_pb2.Result(value=b"3"))
    request.ClearField("keep_result")
    with pytest.raises(TimerdError, match="for how long"):
        await finish(client, request)
    await client.finish(received)


@pytest.mark.usefixtures("worker")
async def test_a_task_whose_result_is_not_durable_has_not_ended(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1: who finds the task acknowledged finds its result. The worker says both again."""

    refused, cas = 0, server.node.store.cas

    async def refuse(changes: Sequence[Cas]) -> list[CasResult]:
        nonlocal refused
        if not changes[0].key.name.startswith(result_key(b"").name):
            return list(await cas(changes))
        refused += 1
        raise StoreUnavailable("The store is away.", "STORE_UNAVAILABLE")

    with monkeypatch.context() as away:
        away.setattr(server.node.store, "cas", refuse)
        task = await client.schedule("sums", "[4]", delay=0, keep_result=DAY)
        while refused < 2:
            await asyncio.sleep(0.001)
            assert not refused or (await client.get(task.id)).state is TaskState.IN_FLIGHT
    found = await client.wait(task.id)
    assert (found.state, found.result) == (TaskState.ACKED, b"4")


async def test_a_call_whose_attempts_failed_says_how_the_last_one_did(server: Server, client: Client) -> None:
    """No other one could begin in time."""
    worker = server.worker()

    @worker.on("sums")
    async def fails(_: Delivery) -> None:
        raise RuntimeError("the printer is out of paper")

    async with server.working(worker):
        with pytest.raises(CallExpired, match=r"(?s)in time\. The last attempt failed: .*the printer is out of paper"):
            await client.call("sums", timeout=0.5)
