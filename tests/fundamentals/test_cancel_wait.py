"""A cancel that waits says for good what became of the task that a worker had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import CancelOutcome, Client, InvalidTask, TaskState, TimerdError
from timerd.model.errors import Overloaded
from timerd.testing import Server
from timerd.v1 import timer_service_pb2 as pb
from timerd.worker import Delivery, Reject

MINUTE = timedelta(minutes=1)


class Work:
    """A handler that is at it until it is let go, whatever it is told. `ends`: how."""

    def __init__(self, ends: Exception | None = None) -> None:
        self.go = asyncio.Event()
        self._ends = ends

    async def __call__(self, _: Delivery) -> None:
        await self.go.wait()
        if self._ends is not None:
            raise self._ends


async def begun(server: Server, client: Client, inbox: Inbox, work: Work, *, shield: bool = True) -> str:
    """The id of a task that a handler has; its key is "k"."""
    inbox.after = work
    await inbox.works("mails", shield=shield)
    task = await client.schedule("mails", b"x", delay=60, key="k")
    # The handler does not sleep by the clock of the test, which waits for nobody here.
    turning = asyncio.create_task(server.advance(seconds=61))
    while not inbox.got:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.001)
    turning.cancel()
    await asyncio.gather(turning, return_exceptions=True)
    return task.id


@asynccontextmanager
async def waited(
    server: Server, cancels: Coroutine[Any, Any, CancelOutcome]
) -> AsyncIterator[asyncio.Task[CancelOutcome]]:
    """It waits at the server when this is entered."""
    waiting = asyncio.create_task(cancels)
    ends = server.node.server.api.ends
    while not ends.waiting and not waiting.done():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    yield waiting
    await waiting


async def test_it_waits_for_the_handler_that_is_interrupted(server: Server, client: Client, inbox: Inbox) -> None:
    task = await begun(server, client, inbox, Work(), shield=False)
    assert await client.cancel(task, wait=MINUTE) is CancelOutcome.CANCELLED
    assert (await client.get(task)).state is TaskState.CANCELLED


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        (None, CancelOutcome.ALREADY_FIRED),
        (OSError("no"), CancelOutcome.CANCELLED),
        (Reject("no"), CancelOutcome.ALREADY_FIRED),
    ],
)
async def test_however_the_handler_ends_it_says_so(
    server: Server, client: Client, inbox: Inbox, ends: Exception | None, outcome: CancelOutcome
) -> None:
    work = Work(ends)
    task = await begun(server, client, inbox, work)
    async with waited(server, client.cancel(task, wait=MINUTE)) as waiting:
        work.go.set()
    assert waiting.result() is outcome


async def test_at_its_end_the_worker_has_it_still_and_a_repeat_waits_on(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """By its key as well: the repeat is about the same task, which is not cancelled twice, and which may have another
    one behind it by then."""
    work = Work()
    task = await begun(server, client, inbox, work)
    assert await client.cancel(key="k", wait=0.05, request_id="r") is CancelOutcome.IN_FLIGHT
    async with waited(server, client.cancel(key="k", wait=MINUTE, request_id="r")) as waiting:
        work.go.set()
    assert waiting.result() is CancelOutcome.ALREADY_FIRED
    other = await client.schedule("mails", b"y", delay=600, key="k")
    assert await client.cancel(key="k", wait=1, request_id="r") is CancelOutcome.ALREADY_FIRED
    assert [(await client.get(each)).state for each in (task, other.id)] == [TaskState.ACKED, TaskState.PENDING]


async def test_without_a_wait_the_repeat_says_what_it_said(server: Server, client: Client, inbox: Inbox) -> None:
    work = Work(OSError("no"))
    task = await begun(server, client, inbox, work)
    assert await client.cancel(task, request_id="r") is CancelOutcome.IN_FLIGHT
    async with waited(server, client.cancel(task, wait=MINUTE, request_id="r")) as waiting:
        work.go.set()
    assert waiting.result() is CancelOutcome.CANCELLED
    assert await client.cancel(task, request_id="r") is CancelOutcome.IN_FLIGHT


async def test_what_waits_is_cancelled_without_a_wait(server: Server, client: Client) -> None:
    task = await client.schedule("mails", b"x", delay=60)
    assert await client.cancel(task.id, wait=MINUTE) is CancelOutcome.CANCELLED
    assert await client.cancel(task.id, wait=MINUTE) is CancelOutcome.ALREADY_CANCELLED
    assert await client.cancel(key="nobody's", wait=MINUTE) is CancelOutcome.NOT_FOUND


async def test_where_too_many_wait_it_says_how_it_is(
    server: Server, client: Client, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cancel has been carried out, so no error may say that nothing was. The client asks again until its time is
    over."""
    work = Work()
    task = await begun(server, client, inbox, work)

    async def full(*_: object) -> None:
        raise Overloaded("Too many wait.", "TOO_MANY_WAITS")

    monkeypatch.setattr(server.node.server.api.ends, "wait", full)
    assert await client.cancel(task, wait=0.2) is CancelOutcome.IN_FLIGHT
    work.go.set()


async def test_a_wait_that_is_none_cancels_nothing(server: Server, client: Client) -> None:
    task = await client.schedule("mails", b"x", delay=60)
    for wrong in (601, timedelta(hours=1), -1, "soon"):
        with pytest.raises(InvalidTask):
            await client.cancel(task.id, wait=wrong)  # type: ignore[arg-type]
    request = pb.CancelRequest(task_id=task.id)
    request.wait.FromSeconds(601)
    with pytest.raises(TimerdError, match="wait is 601 s: use 0 to 600 s, and repeat the call"):
        await client._calls("Cancel", request, pb.CancelResponse)
    assert (await client.get(task.id)).state is TaskState.PENDING
