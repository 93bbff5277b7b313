"""Receive, Finish and Extend: workers without a stream, with what a stream promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.services.receiving import bucket_of_b, until_workers
from timerd.client import Client, InvalidTask, ReceivedTask, TaskState, TimerdError, Unavailable
from timerd.config import ServerConfig
from timerd.services.transport.local_calls import Caller, CallFailure, LocalContext
from timerd.testing import Cluster, Server
from timerd.v1 import work_service_pb2 as pb

QUEUE = "mails"
RECEIVE, FINISH = "/timerd.v1.WorkService/Receive", "/timerd.v1.WorkService/Finish"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as running:
        yield running


@pytest.fixture
def client(server: Server) -> Client:
    return server.client()


async def due(client: Client, server: Server, *payloads: bytes) -> list[str]:
    """Tasks that are due now; their ids."""
    tasks = [await client.schedule(QUEUE, payload, delay=0) for payload in payloads]
    await server.settle()
    return [task.id for task in tasks]


async def nothing_comes(client: Client) -> bool:
    return await client.receive(QUEUE, wait=0) == []


async def test_a_call_waits_for_what_falls_due(client: Client, server: Server) -> None:
    task = await client.schedule(QUEUE, b"tea", delay=3600, key="tea", labels={"to": "Ada"}, priority=3)
    waiting = asyncio.create_task(client.receive(QUEUE, wait=60))
    await server.settle()
    assert not waiting.done()
    await server.advance(hours=1)
    [received] = await waiting
    assert (received.task_id, received.payload, received.attempt, received.key) == (task.id, b"tea", 1, "tea")
    assert (received.queue, received.fire_time, received.labels) == (QUEUE, task.fire_time, {"to": "Ada"})
    assert (received.priority, received.late, received.occurrence) == (3, False, None)
    assert (await client.get(task.id)).state is TaskState.IN_FLIGHT
    assert await client.finish(received) == {}
    assert (await client.get(task.id)).state is TaskState.ACKED


async def test_no_more_come_than_were_asked_for(client: Client, server: Server) -> None:
    await due(client, server, *(b"%d" % number for number in range(5)))
    first = await client.receive(QUEUE, max=3)
    second = await client.receive(QUEUE, max=3)
    assert (len(first), len(second)) == (3, 2)
    assert {task.payload for task in (*first, *second)} == {b"0", b"1", b"2", b"3", b"4"}
    assert await nothing_comes(client)


async def test_a_repeat_of_finish_is_answered_alike(client: Client, server: Server) -> None:
    await due(client, server, b"a", b"b")
    tasks = await client.receive(QUEUE)
    assert [await client.finish(tasks) for _ in range(3)] == [{}, {}, {}]
    refused = await client.finish(tasks, "reject", error="too late")
    assert refused == {task.delivery_id: TaskState.ACKED for task in tasks}


async def test_what_failed_comes_again(client: Client, server: Server) -> None:
    [task_id] = await due(client, server, b"a")
    [first] = await client.receive(QUEUE)
    assert await client.finish(first, "nack", delay=60, error="busy") == {}
    assert (await client.get(task_id)).last_error == "busy"
    await server.advance(seconds=59)
    assert await nothing_comes(client)
    await server.advance(seconds=1)
    [second] = await client.receive(QUEUE)
    assert (second.attempt, second.delivery_id) == (2, first.delivery_id)
    assert await client.finish(second, "reject", error="hopeless") == {}
    assert [letter.last_error async for letter in client.dead_letters()] == ["hopeless"]


async def test_what_was_not_begun_costs_no_attempt(client: Client, server: Server) -> None:
    await due(client, server, b"a")
    [first] = await client.receive(QUEUE)
    assert await client.finish(first, "release") == {}
    [second] = await client.receive(QUEUE)
    assert second.attempt == 1


async def test_a_lease_that_is_over_gives_the_task_to_another(client: Client, server: Server) -> None:
    await due(client, server, b"a")
    [first] = await client.receive(QUEUE, lease=30)
    await server.advance(seconds=29)
    assert await nothing_comes(client)
    await server.advance(seconds=5)
    [second] = await client.receive(QUEUE)
    assert second.attempt == 2
    assert await client.extend(first) == {first.delivery_id}
    assert await client.finish(first, "nack") == {}
    assert await nothing_comes(client)
    assert await client.finish(second) == {}


async def test_an_extended_lease_begins_anew(client: Client, server: Server) -> None:
    await due(client, server, b"a")
    [task] = await client.receive(QUEUE, lease=30)
    for _ in range(4):
        await server.advance(seconds=20)
        assert await client.extend(task, lease=30) == set()
    assert await nothing_comes(client)
    assert await client.finish(task) == {}


async def test_a_call_that_has_gone_takes_nothing_with_it(client: Client, server: Server) -> None:
    gone = asyncio.create_task(client.receive(QUEUE, wait=60))
    await until_workers(server, 1)
    gone.cancel()
    await until_workers(server, 0)
    await due(client, server, b"a")
    [task] = await client.receive(QUEUE)
    assert task.attempt == 1


async def test_what_did_not_leave_any_more_is_nobodys(client: Client, server: Server) -> None:
    await due(client, server, b"a")
    context = LocalContext(Caller())
    asked = pb.ReceiveRequest(queue=QUEUE, max_tasks=5).SerializeToString()
    reply = await server.node.server.local.call(RECEIVE, asked, context)
    assert isinstance(reply, pb.ReceiveResponse)
    assert [task.payload for task in reply.tasks] == [b"a"]
    context.end(is_written=False)
    [task] = await client.receive(QUEUE)
    assert task.attempt == 1


async def test_large_payloads_come_in_several_replies(client: Client, server: Server) -> None:
    await due(client, server, *(b"x" * 60_000 for _ in range(40)))
    counts: list[int] = []
    while sum(counts) < 40:
        await server.advance(milliseconds=20)
        tasks = await client.receive(QUEUE, max=40)
        counts.append(len(tasks))
        assert {task.attempt for task in tasks} == {1}
        await client.finish(tasks)
    assert (sum(counts), len(counts) > 1, max(counts) < 20) == (40, True, True)


async def test_tokens_count_in_their_namespace_only(client: Client, server: Server) -> None:
    await due(client, server, b"a")
    [task] = await client.receive(QUEUE)
    other = server.client(namespace="other")
    assert await other.finish(task) == {task.delivery_id: TaskState.UNSPECIFIED}
    assert await other.extend(task) == {task.delivery_id}
    assert await client.finish(task) == {}


async def test_a_restart_forgets_no_lease_and_no_end(client: Client, server: Server) -> None:
    await due(client, server, b"a", b"b")
    kept, ended = await client.receive(QUEUE)
    await server.restart()
    assert await client.finish(ended) == {}
    assert await client.extend(kept) == set()
    await server.advance(seconds=20)
    assert await nothing_comes(client)
    assert await client.finish(kept) == {}


WRONG = [
    (pb.ReceiveRequest(), "The queue is missing"),
    (pb.ReceiveRequest(queue=QUEUE, max_tasks=1001), "max_tasks is 1,001: at most 1,000"),
    (pb.ReceiveRequest(queue=QUEUE, wait={"seconds": 61}), "wait is 61 s: use 0 to 60 s"),
    (pb.ReceiveRequest(queue=QUEUE, wait={"seconds": -1}), "wait is -1 s"),
    (pb.ReceiveRequest(queue=QUEUE, lease={"nanos": 5}), "lease is 0.001 s: use 1 to 3600 s"),
    (pb.ReceiveRequest(queue=QUEUE, namespace="a b"), "namespace"),
    (pb.FinishRequest(action=pb.SETTLE_ACTION_ACK), "holds no ack_tokens"),
    (pb.FinishRequest(action=pb.SETTLE_ACTION_ACK, ack_tokens=[b"short"]), "An ack token has 64 bytes"),
    (pb.FinishRequest(ack_tokens=[b"x" * 64]), "The action is missing"),
    (pb.FinishRequest(action=pb.SETTLE_ACTION_NACK, ack_tokens=[b"x" * 64], delay={"seconds": -1}), "negative"),
    (pb.ExtendRequest(ack_tokens=[b"x" * 64], lease={"seconds": 3601}), "lease is 3601 s"),
]


@pytest.mark.parametrize(("request_", "says"), WRONG)
async def test_what_is_wrong_is_said(server: Server, request_: pb.ReceiveRequest, says: str) -> None:
    method = type(request_).__name__.removesuffix("Request")
    with pytest.raises(CallFailure, match=says) as refused:
        await server.node.server.local.call(
            f"/timerd.v1.WorkService/{method}", request_.SerializeToString(), LocalContext(Caller())
        )
    assert refused.value.code.name == "INVALID_ARGUMENT"


async def test_the_client_says_what_is_wrong_first(client: Client, server: Server) -> None:
    for wrong in (
        client.receive(QUEUE, max=0),
        client.receive(QUEUE, wait=61),
        client.finish([], "done"),
        client.finish(["token"]),  # type: ignore[list-item]
    ):
        with pytest.raises(InvalidTask):
            await wrong


async def test_a_server_that_goes_away_ends_the_wait() -> None:
    config = ServerConfig(listen="127.0.0.1:0", synchronous="normal")
    async with Server(config=config) as server:
        client = server.client()
        waiting = asyncio.create_task(client.receive(QUEUE, wait=60))
        await until_workers(server, 1)
        await server.node.delivery.drain(0)
        assert await waiting == []
        async with Client(server.address, timeout=0.2) as late:
            with pytest.raises(Unavailable):
                await late.receive(QUEUE, wait=0.5)


async def test_any_instance_gives_and_ends_the_tasks_of_another() -> None:
    """Held by b, received through a, extended through c, finished through all."""
    async with Cluster("a", "b", "c", start=bucket_of_b()) as cluster:
        a, b, c = (cluster.client(name) for name in "abc")
        for number in range(12):
            await a.schedule(QUEUE, b"%d" % number, delay=3)
        await cluster.advance(seconds=4)
        assert [name for name in "abc" if cluster.instances[name].holds()] == ["b"]
        tasks: list[ReceivedTask] = []
        while len(tasks) < 12:
            tasks += await a.receive(QUEUE, max=5)
            await cluster.advance(milliseconds=20)
        assert sorted(int(task.payload) for task in tasks) == list(range(12))
        assert {task.attempt for task in tasks} == {1}
        assert await c.extend(tasks[:6]) == set()
        assert await a.finish(tasks[:3]) == {}
        assert await b.finish(tasks[3:7]) == {}
        assert await c.finish(tasks[7:]) == {}
        assert await c.finish(tasks) == {}
        assert {(await a.get(task.task_id)).state for task in tasks} == {TaskState.ACKED}
        for client in (a, b, c):
            assert await client.receive(QUEUE, wait=0) == []


async def test_a_cancelled_call_is_told_as_such(client: Client) -> None:
    waiting = asyncio.create_task(client.receive(QUEUE, wait=60))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(TimerdError):
        await waiting
