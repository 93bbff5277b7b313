"""Calls: a task is handled at once, and its caller waits for what becomes of it, in one request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from google.protobuf.message import Message

from timerd.client import Client, TaskState, TimerdError
from timerd.model.errors import Precondition
from timerd.services.calls import task_ends
from timerd.testing import Server
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1.task_pb2 import TASK_STATE_ACKED, TASK_STATE_EXPIRED, TASK_STATE_PENDING
from timerd.worker import Delivery, Worker


@pytest.fixture
async def worker(server: Server) -> AsyncIterator[Worker]:
    worker = server.worker()

    @worker.on("sums")
    async def add(delivery: Delivery) -> str:
        return str(sum(map(int, delivery.payload.split())))

    async with server.working(worker):
        yield worker


def request_of(queue: str, timeout_ms: int, request_id: str = "one") -> pb.CallRequest:
    request = pb.CallRequest(request_id=request_id, payload=b"1 2 3")
    request.template.queue = queue
    request.timeout.FromMilliseconds(timeout_ms)
    return request


async def call(client: Client, request: pb.CallRequest) -> pb.CallResponse:
    client._open()
    return await client._calls("Call", request, pb.CallResponse, wait_s=request.timeout.ToMilliseconds() / 1_000)


async def until_waiting(server: Server, count: int = 1) -> None:
    while server.node.server.api.ends.waiting < count:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)


@pytest.mark.usefixtures("worker")
async def test_a_call_is_answered_with_the_end_of_its_task(client: Client) -> None:
    reply = await call(client, request_of("sums", 20_000))
    assert (reply.state, reply.has_ended, reply.result.value) == (TASK_STATE_ACKED, True, b"6")
    assert (await client.get(reply.task_id)).result == b"6"


@pytest.mark.usefixtures("worker")
async def test_it_is_heard_of_the_end_without_a_look(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits is noted before the task is stored. Else it would be looked for a minute later."""
    monkeypatch.setattr(task_ends, "FIRST_LOOK_S", 60.0)
    async with asyncio.timeout(30):
        for n in range(5):
            assert (await call(client, request_of("sums", 60_000, f"call {n}"))).has_ended


@pytest.mark.usefixtures("worker")
async def test_what_the_first_attempt_has_returned_is_told_without_reading_it(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(*_: object) -> object:
        raise AssertionError("It is known from the ack.")

    for verb in ("get", "kept_result"):
        monkeypatch.setattr(server.node.engine, verb, read)
    assert (await call(client, request_of("sums", 20_000))).result.value == b"6"


async def test_a_later_attempt_is_told_with_what_the_one_before_has_failed_of(server: Server, client: Client) -> None:
    """And one that returns nothing has no result."""
    worker = server.worker()

    @worker.on("sums")
    async def second(delivery: Delivery) -> str | None:
        if delivery.attempt == 1:
            raise ValueError("no luck")
        return None if delivery.payload == b"nothing" else "6"

    request = request_of("sums", 60_000)
    request.template.retry.initial_backoff.FromMilliseconds(10)
    nothing = request_of("sums", 60_000, "nothing")
    nothing.CopyFrom(pb.CallRequest(request_id="nothing", payload=b"nothing", template=request.template))
    nothing.timeout.FromMilliseconds(60_000)
    async with server.working(worker):
        asked = [asyncio.create_task(call(client, each)) for each in (request, nothing)]
        await until_waiting(server, 2)
        await server.advance(seconds=5)
        one, other = await asyncio.gather(*asked)
    assert (one.state, one.result.value, "no luck" in one.last_error) == (TASK_STATE_ACKED, b"6", True)
    assert (other.state, other.HasField("result"), "no luck" in other.last_error) == (TASK_STATE_ACKED, False, True)


async def test_a_call_that_is_open_after_its_time_names_its_task(server: Server, client: Client) -> None:
    """It waits on by a wait, or by the same call again, for another time as well: there is one task."""
    reply = await call(client, request_of("sums", 1))
    assert (reply.state, reply.has_ended) == (TASK_STATE_PENDING, False)
    again = asyncio.create_task(call(client, request_of("sums", 20_000)))
    await until_waiting(server)
    worker, got = server.worker(), list[bytes]()

    @worker.on("sums")
    async def answers(delivery: Delivery) -> bytes:
        got.append(delivery.payload)
        return b"6"

    async with server.working(worker):
        ended = await again
    assert (ended.task_id, ended.result.value) == (reply.task_id, b"6")
    assert (await client.wait(reply.task_id)).result == b"6"
    assert (await call(client, request_of("sums", 0))).result.value == b"6"
    assert got == [b"1 2 3"]


async def test_a_schedule_of_the_same_content_is_the_same_task(server: Server, client: Client) -> None:
    reply = await call(client, request_of("sums", 0))
    asked = pb.ScheduleRequest(request_id="one", payload=b"1 2 3")
    asked.template.queue = "sums"
    asked.template.keep_result.FromSeconds(60)
    asked.delay.FromSeconds(0)
    stored = await client._calls("Schedule", asked, pb.ScheduleResponse)
    assert stored.task_id == reply.task_id


async def test_a_call_whose_task_expires_is_told_so(server: Server, client: Client) -> None:
    request = request_of("nobody", 60_000)
    request.template.expire_after.FromMilliseconds(1)
    calling = asyncio.create_task(call(client, request))
    await until_waiting(server)
    await server.advance(minutes=1)
    reply = await calling
    assert (reply.state, reply.has_ended) == (TASK_STATE_EXPIRED, True)


async def test_a_server_that_goes_away_says_that_the_task_is_open(server: Server, client: Client) -> None:
    """An error would say that nothing is stored."""
    calling = asyncio.create_task(call(client, request_of("nobody", 60_000)))
    await until_waiting(server)
    server.node.server.api.ends.stop()
    reply = await calling
    assert (reply.state, reply.has_ended) == (TASK_STATE_PENDING, False)
    assert (await client.get(reply.task_id)).state is TaskState.PENDING


async def test_who_waits_takes_no_part_of_what_may_be_taken_in(server: Server, client: Client) -> None:
    calling = asyncio.create_task(call(client, request_of("nobody", 60_000)))
    await until_waiting(server)
    while server.node.server.api.ingest.used_bytes:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    calling.cancel()


async def test_where_nobody_more_may_wait_nothing_is_stored(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = server.node.server.api.ends

    def refuse(_: bytes) -> None:
        raise Precondition("Nobody waits here.", "FULL")

    with monkeypatch.context() as full:
        client._open()
        full.setattr(ends, "noted", refuse)
        with pytest.raises(TimerdError, match="Nobody waits here"):
            await client._calls("Call", request_of("nobody", 0), pb.CallResponse)
    assert [task async for task in client.list(queue="nobody")] == []


async def test_it_waits_for_a_minute_at_most(client: Client) -> None:
    with pytest.raises(TimerdError, match="timeout is 61 s: use 0 to 60 s, and call again to wait on"):
        await call(client, request_of("nobody", 61_000))
    assert [task async for task in client.list(queue="nobody")] == []


@pytest.mark.usefixtures("worker")
async def test_a_server_of_the_release_before_is_asked_in_two(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client._open()
    unary = type(client._calls).__call__

    async def older(self: object, method: str, request: Message, *rest: object, **more: object) -> object:
        if method == "Call":
            raise TimerdError("There is no such method.", code="UNIMPLEMENTED")
        return await unary(self, method, request, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(type(client._calls), "__call__", older)
    assert await client.call("sums", "1 2 3", timeout=20) == b"6"


@pytest.mark.usefixtures("worker")
async def test_how_long_calls_took_is_counted_by_their_ends(server: Server, client: Client) -> None:
    await call(client, request_of("sums", 20_000))
    await call(client, request_of("nobody", 0, "another"))
    seconds = server.node.server.api.calling.seconds
    assert {state: sum(each.counts) for state, each in seconds.items()} == {"acked": 1, "open": 1}
