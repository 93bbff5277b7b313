"""A delivery that stays with its worker for long, over the lag limit or a restart: its row is carried on and on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import timedelta

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import CancelOutcome, Client, RetryPolicy, TaskState
from timerd.testing import Server
from timerd.worker import Delivery, Reject

ONCE = RetryPolicy(max_attempts=1)


def takes(
    server: Server, seconds: float, then: Exception | None = None
) -> Callable[[Delivery], Coroutine[None, None, None]]:
    async def works(_: Delivery) -> None:
        await server.sleep(seconds=seconds)
        if then is not None:
            raise then

    return works


@pytest.mark.parametrize("seconds", [613.37, 700.123, 907.3, 1213.777])
async def test_a_worker_without_a_free_slot_gets_it_once(
    server: Server, client: Client, inbox: Inbox, seconds: float
) -> None:
    """When the handler ends, its slot is free and the carried row has long been due: it does not take the slot."""
    inbox.after = takes(server, seconds)
    await inbox.works("mails", concurrency=1)
    task = await client.schedule("mails", b"x", delay=1)
    await server.advance(hours=1)
    assert inbox.attempts == [1]
    assert (await client.get(task.id)).state is TaskState.ACKED


@pytest.mark.parametrize("seconds", [20.5, 45.7, 100.3])
async def test_nor_after_a_restart(server: Server, client: Client, inbox: Inbox, seconds: float) -> None:
    inbox.after = takes(server, seconds)
    await inbox.works("mails", concurrency=1)
    await client.schedule("mails", b"x", delay=1)
    await server.advance(seconds=10)
    await server.restart()
    await server.advance(hours=1)
    assert inbox.attempts == [1]


async def test_four_in_four_slots_are_four_deliveries(server: Server, client: Client, inbox: Inbox) -> None:
    inbox.after = takes(server, 907.3)
    await inbox.works("mails", concurrency=4)
    for n in range(4):
        await client.schedule("mails", b"%d" % n, delay=1 + n / 4)
    await server.advance(hours=1)
    assert sorted(inbox.payloads) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("restarts", [False, True])
async def test_an_only_attempt_that_fails_is_the_last(
    server: Server, client: Client, inbox: Inbox, restarts: bool
) -> None:
    inbox.after = takes(server, 907.3, RuntimeError("no"))
    await inbox.works("mails", concurrency=1)
    task = await client.schedule("mails", b"x", delay=1, retry=ONCE)
    await server.advance(seconds=10)
    if restarts:
        await server.restart()
    await server.advance(hours=1)
    assert inbox.attempts == [1]
    assert (await client.get(task.id)).state is TaskState.DEAD
    [letter] = [letter async for letter in client.dead_letters("mails")]
    assert letter.attempts == 1


async def test_an_only_attempt_whose_worker_dies_after_a_restart_is_the_last(
    server: Server, client: Client, inbox: Inbox
) -> None:
    inbox.after = takes(server, 3_000)
    worker = await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=1, retry=ONCE)
    await server.advance(seconds=10)
    await server.restart()
    await server.advance(seconds=5)
    await worker.kill()
    await inbox.works("mails")
    await server.advance(hours=1)
    assert inbox.attempts == [1]
    assert (await client.get(task.id)).state is TaskState.DEAD
    [letter] = [letter async for letter in client.dead_letters("mails")]
    assert letter.attempts == 1
    assert "lease ended" in letter.last_error


@pytest.mark.parametrize(
    ("then", "state"), [(None, TaskState.ACKED), (Reject("no"), TaskState.DEAD)], ids=["ack", "reject"]
)
@pytest.mark.parametrize("restarts", [False, True])
async def test_what_was_delivered_in_time_does_not_expire_in_hand(
    server: Server, client: Client, inbox: Inbox, then: Exception | None, state: TaskState, restarts: bool
) -> None:
    inbox.after = takes(server, 907.3, then)
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=1, expire_at=server.now + timedelta(seconds=60))
    await server.advance(seconds=10)
    if restarts:
        await server.restart()
    await server.advance(hours=1)
    assert (await client.get(task.id)).state is state
    assert len([letter async for letter in client.dead_letters("mails")]) == (state is TaskState.DEAD)


@pytest.mark.parametrize("restarts", [False, True])
async def test_it_is_shown_in_flight_and_a_cancel_says_so(
    server: Server, client: Client, inbox: Inbox, restarts: bool
) -> None:
    """The cancel stops the retries; whether the worker finishes is not asked any more."""
    inbox.after = takes(server, 1_500)
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=1)
    await server.advance(seconds=10)
    if restarts:
        await server.restart()
    await server.advance(seconds=900)
    assert (await client.get(task.id)).state is TaskState.IN_FLIGHT
    assert await client.cancel(task.id) is CancelOutcome.IN_FLIGHT
    assert await client.cancel(task.id) is CancelOutcome.IN_FLIGHT
    assert (await client.get(task.id)).state is TaskState.IN_FLIGHT
    await server.advance(hours=1)
    assert (await client.get(task.id)).state is TaskState.CANCELLED
    assert inbox.attempts == [1]


async def test_what_a_lost_worker_had_does_not_keep_others_from_expiring(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """It came back after the restart, and is gone; the next worker comes when all leases are long over."""
    inbox.after = takes(server, 3_000)
    worker = await inbox.works("mails", concurrency=1)
    await client.schedule("mails", b"in hand", delay=1)
    await server.advance(seconds=10)
    await server.restart()
    await server.advance(seconds=5)
    expiring = await client.schedule("mails", b"expiring", delay=1, expire_at=server.now + timedelta(minutes=2))
    await worker.kill()
    await server.advance(minutes=6)
    inbox.after = None
    await inbox.works("mails")
    await server.advance(minutes=1)
    assert b"expiring" not in inbox.payloads
    assert (await client.get(expiring.id)).state is TaskState.EXPIRED


@pytest.mark.parametrize("hours", [0.1, 1, 3], ids=["bucket open", "bucket finished", "long ago"])
async def test_a_cancelled_one_whose_worker_is_never_heard_of_again_is_not_in_flight_for_ever(
    server: Server, client: Client, inbox: Inbox, hours: float
) -> None:
    """It was carried on once more because its worker came back after the restart; the cancel ends the row where it
    waits, when the lease is over."""
    inbox.after = takes(server, 36_000)
    worker = await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=1)
    await server.advance(seconds=10)
    await server.restart()
    await server.advance(seconds=60)
    assert await client.cancel(task.id) is CancelOutcome.IN_FLIGHT
    await worker.kill()
    await inbox.works("mails")
    await server.advance(hours=hours)
    assert (await client.get(task.id)).state is TaskState.CANCELLED
    assert inbox.attempts == [1]
