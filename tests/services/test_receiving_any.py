"""Receive of several queues at once: the call is a pool of as many slots as tasks it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.services.pooled import tasks as due
from tests.services.raw_worker import Rig, rig
from tests.services.receiving import bucket_of_b, until_workers
from timerd.client import Client, ReceivedTask
from timerd.services.transport.local_calls import Caller, CallFailure, LocalContext
from timerd.testing import Cluster, Server
from timerd.v1 import work_service_pb2 as pb

__all__ = ["rig"]

BOTH = ("excel", "pdf")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as running:
        yield running


@pytest.fixture
def client(server: Server) -> Client:
    return server.client()


async def test_no_more_come_of_all_than_were_asked_for(client: Client, server: Server) -> None:
    for number in range(4):
        await client.schedule(BOTH[number % 2], b"%d" % number, delay=0)
    await server.settle()
    tasks: list[ReceivedTask] = []
    while len(tasks) < 4:
        received = await client.receive(BOTH, max=1 if tasks else 3)
        assert 1 <= len(received) <= (1 if tasks else 3)
        tasks += received
    assert {(task.queue, task.payload) for task in tasks} == {
        ("excel", b"0"), ("pdf", b"1"), ("excel", b"2"), ("pdf", b"3"),
    }  # fmt: skip
    assert await client.receive(BOTH, wait=0) == []
    assert await client.finish(tasks) == {}


@pytest.mark.parametrize(("waited_ms", "queue"), [(319_999, "excel"), (320_001, "pdf")])
async def test_the_greatest_score_comes_first(rig: Rig, waited_ms: int, queue: str) -> None:
    rig.firing.put(due("excel", range(1), priority=5))
    rig.firing.put(due("pdf", range(1), waited_ms=waited_ms))
    received = await rig.stub.Receive(pb.ReceiveRequest(queues=["excel", "pdf"], max_tasks=1))
    assert [task.queue for task in received.tasks] == [queue]


async def test_a_second_call_has_slots_of_its_own(rig: Rig) -> None:
    rig.firing.put(due("pdf", range(5)))
    asked = pb.ReceiveRequest(queues=["excel", "pdf"], max_tasks=2)
    counts = [len((await rig.stub.Receive(asked)).tasks) for _ in range(3)]
    assert counts == [2, 2, 1]


async def test_a_call_waits_for_any_of_its_queues(client: Client, server: Server) -> None:
    waiting = asyncio.create_task(client.receive(BOTH, wait=60))
    await until_workers(server, 1)
    await client.schedule("other", b"not wanted", delay=0)
    await client.schedule("pdf", b"wanted", delay=0)
    await server.settle()
    assert [task.payload for task in await waiting] == [b"wanted"]


async def test_what_is_paused_keeps_no_slot(client: Client, server: Server) -> None:
    await client.queues.pause("pdf")
    await client.schedule("pdf", b"1", delay=0)
    await server.advance(seconds=60)
    await client.schedule("excel", b"2", delay=0)
    await server.settle()
    assert [task.queue for task in await client.receive(BOTH, max=1)] == ["excel"]


async def test_a_call_that_is_over_leaves_no_slot_behind(client: Client, server: Server) -> None:
    assert await client.receive(BOTH, wait=0) == []
    gone = asyncio.create_task(client.receive(BOTH, wait=60))
    await asyncio.sleep(0)
    gone.cancel()
    await client.schedule("pdf", b"1", delay=0)
    await server.settle()
    [task] = await client.receive("pdf")
    assert task.attempt == 1


async def test_tasks_of_another_instance_come_as_well() -> None:
    async with Cluster("a", "b", "c", start=bucket_of_b()) as cluster:
        a = cluster.client("a")
        for number in range(6):
            await a.schedule(BOTH[number % 2], b"%d" % number, delay=3)
        await cluster.advance(seconds=4)
        assert [name for name in "abc" if cluster.instances[name].holds()] == ["b"]
        tasks: list[ReceivedTask] = []
        while len(tasks) < 6:
            tasks += await a.receive(BOTH, max=4)
            await cluster.advance(milliseconds=20)
        assert sorted(task.payload for task in tasks) == [b"%d" % number for number in range(6)]
        assert {task.attempt for task in tasks} == {1}
        assert await cluster.client("c").finish(tasks) == {}


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (pb.ReceiveRequest(queue="pdf", queues=["excel"]), "give queue or queues"),
        (pb.ReceiveRequest(queues=["pdf", "pdf"]), "names one of them twice"),
        (pb.ReceiveRequest(queues=["pdf", ""]), "queue"),
        (pb.ReceiveRequest(queues=[f"q{number}" for number in range(1_001)]), "1,001 queues: at most 1,000"),
    ],
)
async def test_what_is_wrong_is_said(server: Server, request_: pb.ReceiveRequest, says: str) -> None:
    with pytest.raises(CallFailure, match=says) as refused:
        await server.node.server.local.call(
            "/timerd.v1.WorkService/Receive", request_.SerializeToString(), LocalContext(Caller())
        )
    assert refused.value.code.name == "INVALID_ARGUMENT"
