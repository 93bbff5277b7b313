"""Waiting for the end of a task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import Client, InvalidTask, NotFound, TaskInfo, TaskState, TimerdError
from timerd.testing import Server
from timerd.v1 import timer_service_pb2 as pb
from timerd.worker import Delivery, Reject

HOUR = timedelta(hours=1)


@asynccontextmanager
async def waited(server: Server, waits: Coroutine[Any, Any, TaskInfo]) -> AsyncIterator[asyncio.Task[TaskInfo]]:
    """It waits at the server when this is entered."""
    waiting = asyncio.create_task(waits)
    ends = server.node.server.api.ends
    while not ends.waiting:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    yield waiting
    await waiting


async def test_who_waits_hears_of_the_ack_at_once(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=HOUR)
    async with waited(server, client.wait(task.id)) as waiting:
        await server.advance(HOUR)
    assert (waiting.result().id, waiting.result().state) == (task.id, TaskState.ACKED)


async def test_what_has_ended_is_answered_without_a_wait(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=HOUR)
    await server.advance(HOUR)
    assert (await client.wait(task.id)).state is TaskState.ACKED


async def test_a_cancel_a_reject_and_a_last_attempt_are_ends(server: Server, client: Client) -> None:
    worker = server.worker()

    @worker.on("mails")
    async def refuses(delivery: Delivery) -> None:
        raise Reject("no such address")

    cancelled = await client.schedule("mails", b"x", delay=2 * HOUR)
    rejected = await client.schedule("mails", b"y", delay=HOUR)
    async with server.working(worker):
        async with waited(server, client.wait(cancelled.id)) as first:
            await client.cancel(cancelled.id)
        async with waited(server, client.wait(rejected.id)) as second:
            await server.advance(HOUR)
    assert (first.result().state, second.result().state) == (TaskState.CANCELLED, TaskState.DEAD)
    assert second.result().last_error == "no such address"


async def test_a_retry_is_no_end(server: Server, client: Client) -> None:
    worker, attempts = server.worker(), list[int]()

    @worker.on("mails")
    async def fails_once(delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        if delivery.attempt == 1:
            raise OSError

    task = await client.schedule("mails", b"x", delay=HOUR)
    async with server.working(worker), waited(server, client.wait(task.id)) as waiting:
        await server.advance(HOUR)
        assert attempts == [1]
        assert not waiting.done()
        await server.advance(minutes=1)
    assert waiting.result().state is TaskState.ACKED


async def test_a_purge_is_found_by_looking_again(server: Server, client: Client) -> None:
    task = await client.schedule("mails", b"x", delay=HOUR)
    async with waited(server, client.wait(task.id)) as waiting:
        await client.purge(queue="mails", force=True)
    assert waiting.result().state is TaskState.PURGED


async def test_after_its_time_out_it_is_told_as_it_is(server: Server, client: Client) -> None:
    task = await client.schedule("mails", b"x", delay=HOUR)
    found = await client.wait(task.id, timeout=0.01)
    assert (found.state, found.state.is_over) == (TaskState.PENDING, False)


async def test_a_key_is_that_of_the_task_that_has_it_when_the_call_comes(server: Server, client: Client) -> None:
    first = await client.schedule("mails", b"x", delay=HOUR, key="k")
    async with waited(server, client.wait(key="k")) as waiting:
        second = await client.schedule("mails", b"y", delay=HOUR, key="k", on_conflict="replace")
    assert waiting.result().id == first.id != second.id
    assert waiting.result().state is TaskState.CANCELLED


async def test_it_goes_on_over_a_restart(server: Server, client: Client, inbox: Inbox) -> None:
    """The server that goes away tells its callers so, and the client asks the next one."""
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=HOUR)
    async with waited(server, client.wait(task.id)) as waiting:
        await server.restart()
        await server.advance(HOUR)
    assert waiting.result().state is TaskState.ACKED


async def test_what_cannot_be_waited_for_is_said(server: Server, client: Client) -> None:
    with pytest.raises(NotFound):
        await client.wait(key="nobody")
    with pytest.raises(InvalidTask, match="timeout"):
        await client.wait("x", timeout=-1)
    request = pb.WaitRequest(key="k")
    request.timeout.FromSeconds(61)
    with pytest.raises(TimerdError, match="timeout is 61 s: use 0 to 60 s, and call again to wait on"):
        await client._calls("Wait", request, pb.WaitResponse)


async def test_who_hangs_up_is_forgotten_in_the_end(server: Server, client: Client) -> None:
    task = await client.schedule("mails", b"x", delay=HOUR)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.wait(task.id), 0.05)
    await client.cancel(task.id)
    ends = server.node.server.api.ends
    async with asyncio.timeout(10):
        while ends.waiting:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
