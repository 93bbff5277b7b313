"""A task is cancelled, or expires, while a handler has it: the handler is told, and how it ends decides as ever."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import AttemptEnd, CancelOutcome, Client, RetryPolicy, TaskState
from timerd.core.dispatch import Interrupts
from timerd.testing import Server
from timerd.worker import Delivery, InterruptReason

ONCE = RetryPolicy(max_attempts=1)


class Work:
    """A handler that takes an hour. `returns`: what it does when it is interrupted, other than to end."""

    def __init__(self, server: Server, *, returns: bool = False) -> None:
        self.reasons: list[InterruptReason | None] = []
        self._server = server
        self._returns = returns

    async def __call__(self, delivery: Delivery) -> None:
        try:
            await self._server.sleep(hours=1)
        except asyncio.CancelledError:
            self.reasons.append(delivery.interrupted.reason)
            if not self._returns:
                raise


async def begun(server: Server, client: Client, inbox: Inbox, work: Work, retry: RetryPolicy | None = None) -> str:
    """The id of a task that a handler has."""
    inbox.after = work
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, retry=retry)
    await server.advance(seconds=61)
    assert inbox.attempts == [1]
    return task.id


@pytest.mark.parametrize("retry", [None, ONCE])
async def test_a_handler_that_ends_by_it_leaves_a_cancelled_task(
    server: Server, client: Client, inbox: Inbox, retry: RetryPolicy | None
) -> None:
    """Also on its only attempt: nobody wants a dead letter of what was cancelled."""
    work = Work(server)
    task = await begun(server, client, inbox, work, retry)
    assert await client.cancel(task) is CancelOutcome.IN_FLIGHT
    await server.settle()
    shown = await client.get(task)
    assert (work.reasons, shown.state) == ([InterruptReason.CANCELLED], TaskState.CANCELLED)
    [attempt] = shown.history
    assert (attempt.end, attempt.error) == (
        AttemptEnd.FAILED,
        "Interrupted: the task was cancelled while its handler had it.",
    )
    assert [each async for each in client.dead_letters("mails")] == []
    await server.advance(hours=2)
    assert inbox.attempts == [1]
    assert await ledger(server) == {"inserted": 1, "cancelled": 1}


async def test_one_that_returns_has_done_its_work(server: Server, client: Client, inbox: Inbox) -> None:
    work = Work(server, returns=True)
    task = await begun(server, client, inbox, work)
    await client.cancel(task)
    await server.settle()
    assert (work.reasons, (await client.get(task)).state) == ([InterruptReason.CANCELLED], TaskState.ACKED)
    assert await ledger(server) == {"inserted": 1, "acked": 1}


async def test_a_purge_interrupts_as_well(server: Server, client: Client, inbox: Inbox) -> None:
    work = Work(server)
    task = await begun(server, client, inbox, work)
    await client.purge(start=server.now - timedelta(hours=1), end=server.now, force=True)
    await server.settle()
    assert (work.reasons, (await client.get(task)).state) == ([InterruptReason.CANCELLED], TaskState.PURGED)


async def test_a_message_that_is_lost_costs_the_time_to_the_next_sign_of_life(
    server: Server, client: Client, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(server)
    task = await begun(server, client, inbox, work)
    with monkeypatch.context() as lossy:
        lossy.setattr(Interrupts, "_tell_of", lambda *_: None)
        await client.cancel(task)
        await server.settle()
    assert (work.reasons, (await client.get(task)).state) == ([], TaskState.IN_FLIGHT)
    await server.advance(seconds=1)
    assert (work.reasons, (await client.get(task)).state) == ([InterruptReason.CANCELLED], TaskState.CANCELLED)


async def test_a_server_that_starts_anew_knows_it_from_the_store(
    server: Server, client: Client, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no message to repeat: its worker brings what it has, and the store says that it was cancelled."""
    work = Work(server)
    task = await begun(server, client, inbox, work)
    with monkeypatch.context() as lossy:
        lossy.setattr(Interrupts, "_tell_of", lambda *_: None)
        await client.cancel(task)
        await server.settle()
    await server.restart()
    await server.advance(seconds=30)
    assert work.reasons == [InterruptReason.CANCELLED]
    await server.advance(hours=1)
    assert (await server.client().get(task)).state is TaskState.CANCELLED
    assert inbox.attempts == [1]


async def test_who_has_received_it_by_a_call_hears_of_it_when_it_extends(server: Server, client: Client) -> None:
    """What it says of the task still counts."""
    task = await client.schedule("mails", b"x", delay=0)
    [received] = await client.receive("mails", wait=5)
    assert await client.cancel(task.id) is CancelOutcome.IN_FLIGHT
    extended = await client.extend(received)
    assert (extended, extended.interrupted) == (set(), {received.delivery_id: InterruptReason.CANCELLED})
    await client.finish(received)
    assert (await client.get(task.id)).state is TaskState.ACKED


async def test_one_that_expires_in_hand_ends_as_expired(server: Server, client: Client, inbox: Inbox) -> None:
    """Its worker ends it by the deadline that came with it."""
    work = inbox.after = Work(server)
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, expire_after=0.2)
    await server.advance(seconds=60)
    while (await client.get(task.id)).state is not TaskState.EXPIRED:
        await asyncio.sleep(0.01)
        await server.advance(seconds=1)
    assert work.reasons == [InterruptReason.EXPIRED]


async def test_who_has_a_task_that_went_to_another_worker_is_told(server: Server, client: Client, inbox: Inbox) -> None:
    """Its lease is over, for it was not heard of; nothing that it says of it takes it from the next one."""
    work = inbox.after = Work(server)
    await inbox.works("mails", silent=True, lease=10.0)
    task = await client.schedule("mails", b"x", delay=60, retry=RetryPolicy(initial_backoff=1))
    await server.advance(seconds=72)
    assert work.reasons == [InterruptReason.LOST]
    await server.advance(seconds=3)
    shown = await client.get(task.id)
    assert (shown.state, inbox.attempts) == (TaskState.IN_FLIGHT, [1, 2])
    assert [each.end for each in shown.history] == [AttemptEnd.LEASE_ENDED]
