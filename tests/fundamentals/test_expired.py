"""What has expired counts as over everywhere, before its own turn has come: nobody works its queue in these stories."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import (
    AlreadyExists,
    CancelOutcome,
    Client,
    FailedPrecondition,
    TaskInfo,
    TaskOptions,
    TaskState,
)
from timerd.testing import Server

# In the partition of its time, and in the backlog to which it goes after ten minutes.
HELD, PARKED = 2, 30
PLACES = pytest.mark.parametrize("minutes", [HELD, PARKED], ids=["held", "parked"])


async def expired(server: Server, client: Client, minutes: float = HELD, key: str | None = None) -> TaskInfo:
    task = await client.schedule("mails", b"one", delay=10, expire_after=20, key=key)
    await server.advance(minutes=minutes)
    return await client.get(task.id)


@PLACES
async def test_get_and_list_say_so(server: Server, client: Client, minutes: float) -> None:
    task = await expired(server, client, minutes)
    assert (task.state, task.attempt, task.waiting_for) == (TaskState.EXPIRED, 0, None)
    start, end, states = task.fire_time, server.now, [TaskState.EXPIRED]
    assert [each async for each in client.list(queue="mails", start=start, end=end)] == []
    assert await client.count(queue="mails", start=start, end=end) == 0
    [shown] = [each async for each in client.list(queue="mails", start=start, end=end, states=states)]
    assert (shown.id, shown.state) == (task.id, TaskState.EXPIRED)


@PLACES
@pytest.mark.parametrize("policy", ["keep", "reject", "replace"])
async def test_its_key_is_free(server: Server, client: Client, inbox: Inbox, policy: str, minutes: float) -> None:
    """And it stays over, whenever its own turn comes."""
    first = await expired(server, client, minutes, key="order-1")
    second = await client.schedule("mails", b"two", delay=10, key="order-1", on_conflict=policy)
    assert second.id != first.id
    assert (await client.get(key="order-1")).id == second.id
    await inbox.works("mails")
    await server.advance(minutes=1)
    assert inbox.payloads == [b"two"]
    assert (await client.get(first.id)).state is TaskState.EXPIRED
    counts = await ledger(server)
    assert (counts["inserted"], counts["expired"], counts["acked"]) == (2, 1, 1)


@PLACES
async def test_who_ends_or_moves_it_hears_that_it_has_ended(server: Server, client: Client, minutes: float) -> None:
    """`expire_after` goes along with a move, but only until it is over."""
    task = await expired(server, client, minutes)
    for move in (client.reschedule(task.id, delay=60), client.fire_now(task.id)):
        with pytest.raises(FailedPrecondition, match="expired"):
            await move
    assert await client.cancel(task.id) is CancelOutcome.ALREADY_FIRED
    assert await client.cancel(task.id) is CancelOutcome.ALREADY_FIRED
    assert await client.cancel_many([task.id]) == [CancelOutcome.ALREADY_FIRED]
    assert (await client.get(task.id)).state is TaskState.EXPIRED


async def test_what_a_worker_has_is_not_over(server: Server, client: Client, inbox: Inbox) -> None:
    """It was delivered in time, and an `expire_at` takes nothing out of a worker's hand: its key is taken, and its ack
    counts."""

    async def takes(_: object) -> None:
        await server.sleep(minutes=20)

    inbox.after = takes
    await inbox.works("mails")
    first = await client.schedule("mails", b"one", delay=1, expire_at=server.now + timedelta(seconds=30), key="k")
    await server.advance(minutes=2)
    assert (await client.get(first.id)).state is TaskState.IN_FLIGHT
    kept = await client.schedule("mails", b"two", delay=1, key="k", on_conflict="keep")
    assert kept.id == first.id
    with pytest.raises(AlreadyExists):
        await client.schedule("mails", b"two", delay=1, key="k")
    with pytest.raises(FailedPrecondition, match="with a worker"):
        await client.reschedule(first.id, delay=60)
    await server.advance(minutes=30)
    assert (await client.get(first.id)).state is TaskState.ACKED
    counts = await ledger(server)
    assert (counts["acked"], counts.get("expired")) == (1, None)


async def test_of_what_waits_for_another_attempt_too(server: Server, client: Client, inbox: Inbox) -> None:
    async def fails(_: object) -> None:
        raise RuntimeError("no luck")

    inbox.after = fails
    worker = await inbox.works("mails")
    at = server.now + timedelta(seconds=60)
    first = await client.schedule("mails", b"one", delay=1, expire_at=at, key="k")
    await server.advance(seconds=10)
    await worker.stop()
    assert (await client.get(first.id)).state is TaskState.RETRYING
    await server.advance(minutes=2)
    shown = await client.get(first.id)
    assert shown.state is TaskState.EXPIRED
    assert shown.attempt == len(shown.history) > 0
    assert (await client.schedule("mails", b"two", delay=1, key="k", on_conflict="keep")).id != first.id


async def test_a_move_before_that_takes_the_expiry_along(server: Server, client: Client, inbox: Inbox) -> None:
    task = await client.schedule("mails", b"one", delay=10, expire_after=20)
    await server.advance(seconds=29)
    await client.reschedule(task.id, delay=60)
    await server.advance(seconds=65)
    assert (await client.get(task.id)).state is TaskState.PENDING
    await inbox.works("mails")
    await server.settle()
    assert inbox.payloads == [b"one"]


async def test_what_was_cancelled_in_time_is_said_to_be_cancelled(server: Server, client: Client) -> None:
    task = await client.schedule("mails", b"one", delay=10, expire_after=20)
    assert await client.cancel(task.id) is CancelOutcome.CANCELLED
    await server.advance(minutes=1)
    assert (await client.get(task.id)).state is TaskState.CANCELLED


async def test_an_occurrence_that_has_expired_holds_no_other_one_up(server: Server, client: Client) -> None:
    """Each minute one, worth something for 20 s, not beside one another."""
    await client.schedules.create("mail", queue="mails", every=60, overlap="skip", options=TaskOptions(expire_after=20))
    await server.advance(minutes=10)
    shown = await client.schedules.get("mail")
    assert shown.skipped == 0
    assert shown.created >= 9
