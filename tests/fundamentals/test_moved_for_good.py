"""What moves a task, and what it must not promise: an end that is told later, one key, a time before it expires."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import CancelOutcome, Client, FailedPrecondition, NotFound, TaskState
from timerd.testing import Server
from timerd.worker import Delivery, Reject, Retry


async def rejects(_: Delivery) -> None:
    raise Reject("no such customer")


@pytest.mark.parametrize("is_acked", [True, False])
async def test_a_task_moved_to_an_earlier_time_is_finished_when_its_history_is_over(
    server: Server, client: Client, inbox: Inbox, is_acked: bool
) -> None:
    """The hour that its id names is still ahead of it, or was not dropped yet."""
    tasks = [await client.schedule("mails", b"x", delay=seconds) for seconds in (20_000, 400_000)]
    for task in tasks:
        await client.reschedule(task.id, delay=400)
        if not is_acked:
            assert await client.cancel(task.id) is CancelOutcome.CANCELLED
    await inbox.works("mails")
    await server.advance(hours=24, minutes=30)
    assert len(inbox.got) == (2 if is_acked else 0)
    for task in tasks:
        assert (await client.get(task.id)).state is TaskState.FINISHED
        assert await client.cancel(task.id) is CancelOutcome.FINISHED
        with pytest.raises(NotFound):
            await client.reschedule(task.id, delay=60)


async def test_what_was_moved_to_an_earlier_time_is_found_however_long_it_is_retried(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Days before the hour that its id names, and days after the one that it was moved to."""

    async def fails(_: Delivery) -> None:
        raise Retry(5 * 3600)

    inbox.after = fails
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=timedelta(days=10))
    await client.reschedule(task.id, delay=400)
    for _ in range(3):
        await server.advance(days=1)
        assert (await client.get(task.id)).state is TaskState.RETRYING
    assert await client.cancel(task.id) is CancelOutcome.CANCELLED
    inbox.got.clear()
    await server.advance(days=1)
    assert inbox.got == []


async def test_a_dead_letter_whose_key_another_living_task_has_stays_one(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """A key has one living task. The refusal says who has it and holds up no other dead letter; nothing is changed."""
    inbox.after = rejects
    worker = await inbox.works("mails")
    first = await client.schedule("mails", b"first", delay=60, key="order 7")
    other = await client.schedule("mails", b"other", delay=60)
    await server.advance(minutes=5)
    second = await client.schedule("mails", b"second", delay=3600, key="order 7")
    await worker.stop()
    redriven = await client.redrive([first.id, other.id, "nonsense"])
    assert (redriven, redriven.missing, list(redriven.refused)) == (1, ("nonsense",), [first.id])
    assert f"'order 7' is taken by another task, {second.id}" in redriven.refused[first.id]
    of_the_queue = await client.redrive(queue="mails")
    assert (of_the_queue, list(of_the_queue.refused)) == (0, [first.id])
    assert (await client.get(key="order 7")).id == second.id
    assert (await client.get(first.id)).state is TaskState.DEAD
    assert [letter.task.id async for letter in client.dead_letters("mails")] == [first.id]


async def test_a_redriven_task_has_its_key_again_when_the_other_one_has_ended(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Then nobody else gets it while it lives."""
    inbox.after = rejects
    worker = await inbox.works("mails")
    first = await client.schedule("mails", b"first", delay=60, key="order 7")
    await server.advance(minutes=5)
    second = await client.schedule("mails", b"second", delay=3600, key="order 7")
    await worker.stop()
    assert await client.cancel(second.id) is CancelOutcome.CANCELLED
    assert await client.redrive([first.id]) == 1
    assert (await client.get(key="order 7")).id == first.id
    kept = await client.schedule("mails", b"third", delay=60, key="order 7", on_conflict="keep")
    assert kept.id == first.id
    inbox.after = None
    inbox.got.clear()
    await inbox.works("mails")
    await server.advance(minutes=1)
    assert inbox.payloads == [b"first"]


async def test_redriven_and_scheduled_at_one_moment_a_key_has_one_living_task(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Whoever comes first; the other one is refused."""
    inbox.after = rejects
    worker = await inbox.works("mails")
    tasks = [await client.schedule("mails", b"x", delay=60, key=f"order {n}") for n in range(30)]
    await server.advance(minutes=5)
    await worker.stop()
    redrives = [client.redrive([task.id]) for task in tasks]
    schedules = [client.schedule("mails", b"y", delay=3600, key=f"order {n}") for n in range(30)]
    pairs = [call for pair in zip(redrives, schedules, strict=True) for call in pair]
    await asyncio.gather(*pairs, return_exceptions=True)
    start, end = server.now - timedelta(hours=1), server.now + timedelta(hours=2)
    alive = [task.key async for task in client.list(start=start, end=end)]
    assert sorted(alive) == sorted(f"order {n}" for n in range(30))


async def test_a_task_is_not_moved_to_a_time_past_its_end(server: Server, client: Client, inbox: Inbox) -> None:
    """Schedule refuses it as well: it would never be delivered. The task stays where it was."""
    expiry = server.now + timedelta(hours=1)
    task = await client.schedule("mails", b"x", delay=60, expire_at=expiry)
    for at in (expiry, expiry + timedelta(hours=1)):
        with pytest.raises(FailedPrecondition, match="would never be delivered: give an earlier time"):
            await client.reschedule(task.id, at=at)
    assert (await client.get(task.id)).fire_time == task.fire_time
    wanted = expiry - timedelta(seconds=1)
    assert await client.reschedule(task.id, at=wanted) == wanted
    await inbox.works("mails")
    await server.advance(hours=1)
    assert inbox.times == [wanted]


async def test_what_is_past_its_end_is_neither_fired_nor_redriven(server: Server, client: Client, inbox: Inbox) -> None:
    """It could not be delivered any more."""
    inbox.after = rejects
    worker = await inbox.works("mails")
    expiry = server.now + timedelta(hours=1)
    dead = await client.schedule("mails", b"dead", delay=60, expire_at=expiry)
    await server.advance(minutes=5)
    await worker.stop()
    waiting = await client.schedule("calls", b"waiting", delay=60, expire_at=expiry)
    await server.advance(hours=1)
    with pytest.raises(FailedPrecondition, match=r"never be delivered: schedule a new one|has ended \(expired\)"):
        await client.fire_now(waiting.id)
    redriven = await client.redrive([dead.id])
    assert (redriven, list(redriven.refused)) == (0, [dead.id])
    assert "would never be delivered: schedule a new one" in redriven.refused[dead.id]
    assert (await client.get(dead.id)).state is TaskState.DEAD
