"""A worker that was away for longer than its leases says thousands of acks at once, and breaks off in between."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import grpc.aio
import pytest

from tests.process.children import Server
from tests.services.raw_worker import ACK, RawWorker
from timerd.client import Client, TaskState
from timerd.v1 import work_service_pb2 as pb
from timerd.v1.work_service_pb2_grpc import WorkServiceStub

pytestmark = pytest.mark.process
TASKS, A_MESSAGE = 4_000, 500
LEASE_MS = 1_000


async def take(stub: WorkServiceStub) -> bytes:
    worker = RawWorker(stub.Work())
    await worker.open(pb.Open(credits=[pb.Credit(queue="q", tasks=TASKS)], lease_ms=LEASE_MS))
    tokens = b""
    while len(tokens) < 64 * TASKS:
        tokens += (await worker.deliver()).ack_tokens
    worker.call.cancel()
    return tokens


async def say_all(stub: WorkServiceStub, tokens: bytes, *, until: int) -> int:
    """How many of its messages are confirmed on this stream, none refused; it breaks off after `until`."""
    worker = RawWorker(stub.Work())
    await worker.open(pb.Open(resume=tokens, lease_ms=LEASE_MS))
    for at in range(0, TASKS, A_MESSAGE):
        await worker.settle(ACK, tokens[64 * at : 64 * (at + A_MESSAGE)], sequence=at + 1)
    confirmed = 0
    while confirmed < until:
        assert not (await worker.confirmed()).refused
        confirmed += 1
    worker.call.cancel()
    return confirmed


async def test_thousands_of_late_acks_over_a_reconnect_are_confirmed_while_calls_go_on(server: Server) -> None:
    async with Client(server.address) as client, grpc.aio.insecure_channel(server.address) as channel:
        stub = WorkServiceStub(channel)
        tasks = await client.schedule_many("q", [(str(n), timedelta()) for n in range(TASKS)])
        tokens = await take(stub)
        for _ in range(100):
            if (await client.get(tasks[-1].id)).state is TaskState.RETRYING:
                break
            await asyncio.sleep(0.1)
        # Their rows were carried on, and the holder has forgotten from where.
        await asyncio.sleep(3)
        calls = 0

        async def call() -> None:
            nonlocal calls
            while True:
                await client.schedule("other", b"x", delay=3_600)
                calls += 1

        calling = asyncio.create_task(call())
        assert await say_all(stub, tokens, until=1) == 1
        before = calls
        assert await say_all(stub, tokens, until=TASKS // A_MESSAGE) == TASKS // A_MESSAGE
        assert calls > before
        calling.cancel()
        states = [(await client.get(tasks[n].id)).state for n in range(0, TASKS, 400)]
        assert set(states) == {TaskState.ACKED}
