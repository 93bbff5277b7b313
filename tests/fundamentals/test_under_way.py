"""A cancel or a purge of what a worker has in hand: it is under way until the worker is done, and people see that."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fundamentals.conftest import Inbox
from tests.fundamentals.screen import looking_on
from timerd.client import CancelOutcome, Client, DeliveryEventKind, RetryPolicy, TaskState
from timerd.testing import Server
from timerd.worker import Delivery

SENT, CANCELLED = DeliveryEventKind.SENT, DeliveryEventKind.CANCELLED
PATIENT = RetryPolicy(max_attempts=5, initial_backoff=timedelta(seconds=10))


@pytest.fixture
async def failing(server: Server, inbox: Inbox) -> Inbox:
    """Its handlers take a minute, whatever they are told, and fail."""

    async def work(_delivery: Delivery) -> None:
        await server.sleep(seconds=60)
        raise ValueError("no")

    inbox.after = work
    await inbox.works("mails", shield=True)
    return inbox


async def test_get_says_that_a_cancel_is_under_way(server: Server, client: Client, failing: Inbox) -> None:
    task = await client.schedule("mails", b"", delay=10, retry=PATIENT)
    await server.advance(seconds=20)
    assert not (await client.get(task.id)).is_cancelling
    assert await client.cancel(task.id) is CancelOutcome.IN_FLIGHT
    found = await client.get(task.id)
    assert (found.state, found.is_cancelling) == (TaskState.IN_FLIGHT, True)
    await server.advance(minutes=5)
    found = await client.get(task.id)
    assert (found.state, found.is_cancelling) == (TaskState.CANCELLED, False)
    assert len(failing.got) == 1


async def test_who_looks_on_reads_that_it_was_cancelled(server: Server, client: Client, failing: Inbox) -> None:
    task = await client.schedule("mails", b"", delay=10, retry=PATIENT)
    async with looking_on(client) as screen:
        await server.advance(seconds=20)
        await client.cancel(task.id)
        await server.advance(minutes=5)
        sent, over = await screen.shows(2)
    assert (sent.kind, over.kind, over.next_attempt_time) == (SENT, CANCELLED, None)


async def test_a_purge_counts_what_is_in_hand_by_itself(server: Server, client: Client, failing: Inbox) -> None:
    await client.schedule_many("mails", [(b"", server.now + timedelta(seconds=10))] * 2, retry=PATIENT)
    await server.advance(seconds=20)
    await client.schedule("mails", b"", delay=3600)
    purged = await client.purge(queue="mails", force=True)
    assert (purged, purged.with_workers) == (1, 2)
    await server.advance(minutes=5)
    states = [TaskState.PURGED]
    assert await client.count(queue="mails", start=server.now - timedelta(days=1), states=states) == 3
