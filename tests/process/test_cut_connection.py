"""A connection that is cut without a word: bytes vanish on the way, and both sockets stay open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.cable import Cable
from tests.process.children import Server
from tests.process.waiting import eventually
from timerd.client import Client, RetryPolicy, TaskState
from timerd.worker import Delivery, Worker

pytestmark = pytest.mark.process
TASKS = 8
ONE_ATTEMPT = RetryPolicy(max_attempts=1)
# Below the minute that gRPC would wait for the answer to a ping, and below a lease.
PATIENCE_S = 25.0
LONG_LEASE_S = 3_600.0
Got = list[tuple[bytes, int]]


@asynccontextmanager
async def working(target: str, queue: str, lease_s: float = LONG_LEASE_S) -> AsyncIterator[Got]:
    """What the handler of a worker was given: (payload, attempt)."""
    got: Got = []
    worker = Worker(target, lease=lease_s)

    @worker.on(queue)
    async def handle(delivery: Delivery) -> None:
        got.append((delivery.payload, delivery.attempt))

    running = asyncio.create_task(worker.run())
    try:
        yield got
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def in_flight(client: Client) -> int:
    return (await client.server_info()).in_flight


async def greeted(client: Client, queue: str, got: Got) -> None:
    await client.schedule(queue, b"hello", delay=0)
    await eventually(lambda: _is(got == [(b"hello", 1)]), "the worker is there")
    await eventually(lambda: _acked(client), "its ack is confirmed")


async def _is(fact: bool) -> bool:
    return fact


async def _acked(client: Client) -> bool:
    return await in_flight(client) == 0


async def test_what_was_sent_into_a_cut_cable_costs_no_attempt_and_reads_are_asked_again(server: Server) -> None:
    cable = Cable(server.address)
    end = await cable.lay()
    async with Client(server.address) as client, Client(end) as reader, working(end, "q") as got:
        await greeted(client, "q", got)
        assert (await reader.server_info()).in_flight == 0
        cable.cut()
        sent = await client.schedule_many("q", [(str(n), 0) for n in range(TASKS)], retry=ONE_ATTEMPT)
        await eventually(lambda: _sent(client), "the server has sent all of it into the cable")
        reading = asyncio.create_task(reader.get(sent[0].id))
        assert len(got) == 1, "nothing arrives"
        await eventually(lambda: _is(len(got) > TASKS), "all of it arrives by another connection", PATIENCE_S)
        assert sorted(got[1:]) == [(str(n).encode(), 1) for n in range(TASKS)]
        assert (await reading).id == sent[0].id
        await eventually(lambda: _acked(client), "the acks are confirmed")
        infos = [await client.get(task.id) for task in sent]
        assert {(info.state, info.attempt) for info in infos} == {(TaskState.ACKED, 1)}
    await cable.remove()


async def _sent(client: Client) -> bool:
    return await in_flight(client) == TASKS


async def test_a_worker_that_cannot_come_back_is_given_up_long_before_its_lease(server: Server) -> None:
    """What it was sent may have reached it: that counts as an attempt."""
    cable = Cable(server.address)
    end = await cable.lay()
    async with Client(server.address) as client, working(end, "q") as got:
        await greeted(client, "q", got)
        cable.cut(for_good=True)
        await client.schedule_many("q", [(str(n), 0) for n in range(TASKS)])
        await eventually(lambda: _sent(client), "the server has sent all of it into the cable")
        async with working(server.address, "q") as other:
            await eventually(lambda: _is(len(other) == TASKS), "another worker gets all of it", PATIENCE_S)
            assert sorted(other) == [(str(n).encode(), 2) for n in range(TASKS)]
        assert len(got) == 1
    await cable.remove()
