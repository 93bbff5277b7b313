"""Tasks that are only worth something for a while: until an instant, or for so long after their fire time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import CancelOutcome, Client, TaskOptions, TaskState
from timerd.testing import Server
from timerd.worker import Delivery, Retry


async def test_after_its_expire_time_a_task_is_not_delivered(server: Server, client: Client, inbox: Inbox) -> None:
    """Nobody worked the queue in time: the worker that comes later does not get it, and it is reported EXPIRED."""
    start = server.now
    task = await client.schedule("mails", b"x", delay=60, expire_at=start + timedelta(minutes=5))
    await server.advance(minutes=6)
    await inbox.works("mails")
    await server.advance(minutes=1)
    assert inbox.got == []
    assert (await client.get(task.id)).state is TaskState.EXPIRED
    assert await ledger(server) == {"inserted": 1, "expired": 1}


async def test_before_its_expire_time_a_task_is_delivered(server: Server, client: Client, inbox: Inbox) -> None:
    """An expire_time changes nothing for a task that is taken in time."""
    await inbox.works("mails")
    await client.schedule("mails", b"x", delay=60, expire_at=server.now + timedelta(seconds=61))
    await server.advance(minutes=6)
    assert inbox.payloads == [b"x"]
    assert await ledger(server) == {"inserted": 1, "acked": 1}


async def test_an_expired_task_is_not_tried_again(server: Server, client: Client, inbox: Inbox) -> None:
    """A retry that would come after the expire_time does not."""

    async def fails(_: object) -> None:
        raise RuntimeError("no luck")

    inbox.after = fails
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, expire_at=server.now + timedelta(minutes=2))
    await server.advance(hours=2)
    assert inbox.got
    assert max(inbox.times) < server.now - timedelta(hours=2) + timedelta(minutes=2)
    assert (await client.get(task.id)).state is TaskState.EXPIRED
    assert await client.cancel(task.id) is not CancelOutcome.CANCELLED
    counts = await ledger(server)
    assert counts["expired"] == 1


async def test_after_its_soft_expire_time_a_task_is_marked_late(server: Server, client: Client, inbox: Inbox) -> None:
    """It is delivered all the same, and the handler can see it."""
    soft = server.now + timedelta(minutes=5)
    await client.schedule("mails", b"x", delay=60, soft_expire_at=soft)
    await client.schedule("mails", b"y", delay=60)
    await server.advance(minutes=6)
    await inbox.works("mails", concurrency=1)
    await server.settle()
    assert {each.payload: each.delivery.late for each in inbox.got} == {b"x": True, b"y": False}
    assert await ledger(server) == {"inserted": 2, "acked": 2}


async def test_expire_after_counts_from_the_fire_time_of_each(server: Server, client: Client, inbox: Inbox) -> None:
    """Tasks of one call, each with an end of its own. Nobody works the queue before the first one is over."""
    start = server.now
    first, second = await client.schedule_many("mails", [(b"1", 60), (b"2", 120)], expire_after=90)
    assert (await client.get(second.id)).expire_time == start + timedelta(seconds=210)
    await server.advance(seconds=160)
    await inbox.works("mails")
    await server.settle()
    assert inbox.payloads == [b"2"]
    assert (await client.get(first.id)).state is TaskState.EXPIRED
    assert await ledger(server) == {"inserted": 2, "expired": 1, "acked": 1}


async def test_of_an_instant_and_a_span_the_earlier_one_counts(server: Server, client: Client) -> None:
    soon = server.now + timedelta(seconds=90)
    task = await client.schedule("mails", b"x", delay=60, expire_at=soon, expire_after=60)
    assert (await client.get(task.id)).expire_time == soon


async def test_it_goes_along_with_the_fire_time(server: Server, client: Client, inbox: Inbox) -> None:
    task = await client.schedule("mails", b"x", delay=60, expire_after=30, soft_expire_after=10)
    moved = await client.reschedule(task.id, delay=600)
    shown = await client.get(task.id)
    assert shown.expire_time == moved + timedelta(seconds=30)
    assert shown.soft_expire_time == moved + timedelta(seconds=10)
    await server.advance(seconds=620)
    await inbox.works("mails")
    await server.settle()
    assert [each.delivery.late for each in inbox.got] == [True]


async def test_a_handler_sees_its_deadlines(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, expire_after=30, soft_expire_after=10)
    await client.schedule("mails", b"y", delay=60)
    await server.advance(seconds=61)
    of = {each.payload: each.delivery for each in inbox.got}
    assert of[b"x"].deadline == task.fire_time + timedelta(seconds=30)
    assert of[b"x"].soft_deadline == task.fire_time + timedelta(seconds=10)
    assert of[b"y"].deadline is of[b"y"].soft_deadline is None
    assert not of[b"x"].late


async def test_a_task_that_could_not_be_tried_again_in_time_has_expired(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """At once, not when the attempt would be due."""

    async def fails(_: Delivery) -> None:
        raise Retry(300)

    inbox.after = fails
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, expire_after=120)
    await server.advance(seconds=61)
    assert (await client.get(task.id)).state is TaskState.EXPIRED
    assert await ledger(server) == {"inserted": 1, "expired": 1}


@pytest.mark.parametrize(
    ("seconds", "state"), [(1_801, TaskState.ACKED), (5_400, TaskState.EXPIRED)], ids=["late", "never"]
)
async def test_an_attempt_is_over_at_the_deadline_and_what_its_worker_has_to_say(
    server: Server, client: Client, inbox: Inbox, seconds: float, state: TaskState
) -> None:
    """An ack that was under way by then counts. `seconds`: what the handler takes."""

    async def takes(_: Delivery) -> None:
        await server.sleep(seconds=seconds)

    inbox.after = takes
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, expire_after=1_800)
    await server.advance(seconds=1_861.5)
    assert (await client.get(task.id)).state is (state if state is TaskState.ACKED else TaskState.IN_FLIGHT)
    await server.advance(seconds=3)
    assert (await client.get(task.id)).state is state
    assert inbox.attempts == [1]


async def test_what_was_cancelled_meanwhile_does_not_expire(server: Server, client: Client, inbox: Inbox) -> None:
    async def takes(_: Delivery) -> None:
        await server.sleep(seconds=5_400)

    inbox.after = takes
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, expire_after=1_800)
    await server.advance(seconds=61)
    assert await client.cancel(task.id) is CancelOutcome.IN_FLIGHT
    await server.advance(hours=1)
    assert (await client.get(task.id)).state is TaskState.CANCELLED


async def test_who_receives_is_told_what_is_left(server: Server, client: Client) -> None:
    task = await client.schedule("mails", b"x", delay=1, expire_after=30)
    await server.advance(seconds=11)
    [got] = await client.receive("mails", wait=0)
    assert (got.deadline, got.soft_deadline) == (task.fire_time + timedelta(seconds=30), None)
    assert timedelta(seconds=19) <= got.attempt_timeout <= timedelta(seconds=20)


async def test_the_tasks_of_a_schedule_have_it_too(server: Server, client: Client) -> None:
    """`catch_up="all"` without a window keeps each instant, and nobody works the queue."""
    options = TaskOptions(expire_after=30)
    await client.schedules.create("mail", queue="mails", every=60, catch_up="all", options=options)
    await server.advance(minutes=5)
    start, states = server.now - timedelta(minutes=10), [TaskState.EXPIRED]
    tasks = [task async for task in client.list(queue="mails", start=start, end=server.now, states=states)]
    assert tasks
    assert {task.expire_time - task.fire_time for task in tasks if task.expire_time} == {timedelta(seconds=30)}
