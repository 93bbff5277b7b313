"""What a task tells of its attempts that failed: the last ten, wherever it goes."""

from __future__ import annotations

from pathlib import Path

from tests.fundamentals.conftest import Inbox
from timerd.client import AttemptEnd, CancelOutcome, Client, RetryPolicy, TaskInfo, TaskState
from timerd.testing import Server
from timerd.worker import Delivery, Reject

FIFTEEN = RetryPolicy(max_attempts=15, initial_backoff=10, multiplier=1, jitter=0)


async def fails(delivery: Delivery) -> None:
    raise RuntimeError(f"the mail server\nis away, {delivery.attempt}")


async def rejects(_: Delivery) -> None:
    raise Reject("no such customer")


def told(task: TaskInfo) -> list[tuple[int, AttemptEnd, str]]:
    return [(each.attempt, each.end, each.error) for each in task.history]


async def test_a_task_tells_of_its_attempts_that_failed(server: Server, client: Client, inbox: Inbox) -> None:
    """When each was sent and ended, and what the trace says at its end; it never failed: nothing."""
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, retry=FIFTEEN)
    assert (await client.get(task.id)).history == ()
    inbox.after = fails
    await server.advance(seconds=75)
    seen = await client.get(task.id)
    assert told(seen) == [(n, AttemptEnd.FAILED, f"RuntimeError: the mail server is away, {n}") for n in (1, 2)]
    assert [each.send_time for each in seen.history] == inbox.times
    assert all(each.send_time is not None and each.end_time >= each.send_time for each in seen.history)
    assert all(each.worker for each in seen.history)
    inbox.after = None
    await server.advance(seconds=60)
    assert told(await client.get(task.id)) == told(seen)


async def test_a_dead_letter_tells_of_the_last_ten(server: Server, client: Client, inbox: Inbox) -> None:
    """Also its task, as `get` shows it."""
    inbox.after = fails
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, retry=FIFTEEN)
    await server.advance(hours=1)
    [letter] = [each async for each in client.dead_letters("mails")]
    assert [each.attempt for each in letter.task.history] == list(range(6, 16))
    assert (await client.get(task.id)).history == letter.task.history


async def test_it_goes_where_its_task_goes(server: Server, client: Client, inbox: Inbox) -> None:
    """Through a move, a rejection and the new life after it, of which the attempts are numbered anew."""
    inbox.after = fails
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, retry=FIFTEEN)
    await server.advance(seconds=61)
    await client.reschedule(task.id, delay=3600)
    inbox.after = rejects
    await server.advance(seconds=3700)
    first = (1, AttemptEnd.FAILED, "RuntimeError: the mail server is away, 1")
    both = [first, (1, AttemptEnd.REJECTED, "no such customer")]
    # A move begins a generation of its own, in which attempts are counted anew.
    assert told(await client.get(task.id)) == both
    inbox.after = fails
    assert await client.redrive([task.id]) == 1
    await server.advance(seconds=5)
    assert told(await client.get(task.id)) == [*both, first]


async def test_a_worker_that_went_away_is_told_of(server: Server, client: Client, inbox: Inbox) -> None:
    """The time of its lease is over, and the task waits for its next attempt."""

    async def hangs(_: Delivery) -> None:
        await server.sleep(hours=9)

    inbox.after = hangs
    await inbox.works("mails", silent=True, concurrency=1)
    task = await client.schedule("mails", b"x", delay=60, retry=FIFTEEN)
    await server.advance(seconds=61 + 40)
    [attempt] = (await client.get(task.id)).history
    assert (attempt.attempt, attempt.end) == (1, AttemptEnd.LEASE_ENDED)


async def test_it_is_there_after_a_restart(tmp_path: Path) -> None:
    async with Server(data=tmp_path / "data") as server:
        client, inbox = server.client(), Inbox(server)
        inbox.after = fails
        await inbox.works("mails")
        task = await client.schedule("mails", b"x", delay=60, retry=FIFTEEN)
        await server.advance(seconds=85)
        seen = told(await client.get(task.id))
        assert [number for number, _, _ in seen] == [1, 2, 3]
        await server.stop()
        await server.start()
        assert told(await server.client().get(task.id)) == seen


async def cancelled_in_hand(server: Server, client: Client, inbox: Inbox) -> TaskInfo:
    """Its first attempt fails, and the second one after it was cancelled."""

    async def works(delivery: Delivery) -> None:
        if delivery.attempt == 2:
            await server.sleep(seconds=5)
        await fails(delivery)

    inbox.after = works
    await inbox.works("mails", shield=True)
    task = await client.schedule("mails", b"x", delay=60, retry=FIFTEEN)
    await server.advance(seconds=72)
    assert await client.cancel(task.id) is CancelOutcome.IN_FLIGHT
    await server.advance(seconds=30)
    return await client.get(task.id)


async def test_one_that_was_cancelled_in_hand_tells_of_its_last_attempt(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """So does a list of what has ended, by its number and its error."""
    shown = await cancelled_in_hand(server, client, inbox)
    assert (shown.state, shown.attempt) == (TaskState.CANCELLED, 2)
    assert told(shown) == [(n, AttemptEnd.FAILED, f"RuntimeError: the mail server is away, {n}") for n in (1, 2)]
    assert [each.send_time for each in shown.history] == inbox.times
    [listed] = [each async for each in client.list(queue="mails", states=[TaskState.CANCELLED])]
    assert (listed.attempt, listed.last_error) == (2, shown.last_error)


async def test_one_that_expires_after_a_failure_tells_of_it(server: Server, client: Client, inbox: Inbox) -> None:
    """The next attempt would come too late."""
    inbox.after = fails
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, retry=FIFTEEN, expire_after=15)
    await server.advance(seconds=72)
    shown = await client.get(task.id)
    assert (shown.state, shown.attempt) == (TaskState.EXPIRED, 2)
    assert told(shown) == [(n, AttemptEnd.FAILED, f"RuntimeError: the mail server is away, {n}") for n in (1, 2)]


async def test_one_that_expires_in_hand_tells_of_it(server: Server, client: Client, inbox: Inbox) -> None:
    async def hangs(_: Delivery) -> None:
        await server.sleep(hours=1)

    inbox.after = hangs
    await inbox.works("mails", silent=True)
    task = await client.schedule("mails", b"x", delay=60, expire_after=15)
    await server.advance(seconds=80)
    shown = await client.get(task.id)
    assert shown.state is TaskState.EXPIRED
    assert [(each.attempt, each.end) for each in shown.history] == [(1, AttemptEnd.TIMED_OUT)]


async def test_what_ended_so_is_told_after_a_restart(tmp_path: Path) -> None:
    async with Server(data=tmp_path / "data") as server:
        seen = await cancelled_in_hand(server, server.client(), Inbox(server))
        await server.stop()
        await server.start()
        assert told(await server.client().get(seen.id)) == told(seen) != []
        await server.advance(minutes=20)
        assert (await server.node.engine.facts()).partitions_open == 0
        assert told(await server.client().get(seen.id)) == told(seen)
