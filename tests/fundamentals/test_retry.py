"""Attempts that fail: backoff, dead letters, and a new life for them."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import CancelOutcome, Client, RetryPolicy, TaskState
from timerd.testing import Server
from timerd.worker import Delivery, Reject, Retry

THREE = RetryPolicy(max_attempts=3, initial_backoff=10, multiplier=3, max_backoff=3600)


async def fails(_: Delivery) -> None:
    raise RuntimeError("the mail server is away")


async def rejects(_: Delivery) -> None:
    raise Reject("no such customer")


async def test_a_failed_attempt_is_repeated_after_the_backoff(server: Server, client: Client, inbox: Inbox) -> None:
    """Attempt 2 comes 10 s after attempt 1 failed, attempt 3 30 s after that (less some jitter), and all have the same
    delivery_id."""
    inbox.after = fails
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, retry=THREE)
    await server.advance(seconds=65)
    seen = await client.get(task.id)
    assert (seen.state, seen.attempt) == (TaskState.RETRYING, 1)
    assert "the mail server is away" in seen.last_error
    await server.advance(hours=1)
    first_s, second_s = ((b - a).total_seconds() for a, b in pairwise(inbox.times))
    assert 9 <= first_s <= 10
    assert 27 <= second_s <= 30
    assert inbox.attempts == [1, 2, 3]
    assert len({each.delivery.delivery_id for each in inbox.got}) == 1


async def test_after_the_last_attempt_it_is_a_dead_letter(server: Server, client: Client, inbox: Inbox) -> None:
    """The dead letter has the payload, the number of attempts and the trace of the last one."""
    inbox.after = fails
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, retry=THREE, labels={"tenant": "acme"})
    await server.advance(hours=1)
    dead_letters = [letter async for letter in client.dead_letters("mails")]
    assert [(each.task.id, each.attempts, each.task.payload) for each in dead_letters] == [(task.id, 3, b"x")]
    assert "RuntimeError: the mail server is away" in dead_letters[0].last_error
    assert dead_letters[0].task.labels == {"tenant": "acme"}
    assert (await client.get(task.id)).state is TaskState.DEAD
    assert await ledger(server) == {"inserted": 3, "carried": 2, "dead": 1}


async def test_a_redriven_task_lives_again_under_its_old_id(server: Server, client: Client, inbox: Inbox) -> None:
    """Redrive delivers it at once, with fresh attempts, and the dead letter is gone."""
    inbox.after = fails
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, retry=THREE)
    await server.advance(hours=1)
    inbox.got.clear()
    inbox.after = None
    assert await client.redrive([task.id]) == 1
    await server.settle()
    assert (inbox.payloads, inbox.attempts) == ([b"x"], [1])
    assert inbox.got[0].delivery.task_id == task.id
    assert [letter async for letter in client.dead_letters("mails")] == []
    assert (await client.get(task.id)).state is TaskState.ACKED
    assert await client.redrive([task.id]) == 0
    assert await ledger(server) == {"inserted": 4, "carried": 2, "dead": 1, "acked": 1}


async def test_redrive_of_a_whole_queue(server: Server, client: Client, inbox: Inbox) -> None:
    """Without ids it takes the dead letters of the queue, and of no other."""

    async def rejects(_: Delivery) -> None:
        raise Reject("no such customer")

    inbox.after = rejects
    await inbox.works("mails", "calls")
    await client.schedule_many("mails", [(b"%d" % n, 60) for n in range(10)])
    await client.schedule("calls", b"c", delay=60)
    await server.advance(minutes=30)
    assert len(inbox.got) == 11
    inbox.got.clear()
    inbox.after = None
    assert await client.redrive(queue="mails") == 10
    await server.advance(minutes=1)
    assert sorted(inbox.payloads) == [b"%d" % n for n in range(10)]
    assert [letter.task.payload async for letter in client.dead_letters()] == [b"c"]
    assert await ledger(server) == {"inserted": 21, "dead": 11, "acked": 10}


async def test_a_dead_letter_that_cannot_live_again_holds_up_no_other(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """One was cancelled while it was with the worker; the other two are redriven, by id as well as by queue."""

    async def rejects(delivery: Delivery) -> None:
        if delivery.payload == b"0":
            assert await client.cancel(delivery.task_id) is CancelOutcome.IN_FLIGHT
        raise Reject("no such customer")

    inbox.after = rejects
    await inbox.works("mails", shield=True)
    tasks = await client.schedule_many("mails", [(b"%d" % n, 60) for n in range(3)])
    await server.advance(minutes=2)
    inbox.after = None
    assert await client.redrive([tasks[0].id, tasks[1].id]) == 1
    assert await client.redrive(queue="mails") == 1
    await server.settle()
    assert [letter.task.id async for letter in client.dead_letters("mails")] == [tasks[0].id]


async def test_reject_makes_a_dead_letter_at_once(server: Server, client: Client, inbox: Inbox) -> None:
    """`raise Reject(why)`: no second attempt; the reason is in the dead letter."""

    async def rejects(_: Delivery) -> None:
        raise Reject("no such customer")

    inbox.after = rejects
    await inbox.works("mails")
    await client.schedule("mails", b"x", delay=60)
    await server.advance(hours=1)
    assert inbox.attempts == [1]
    assert [letter.last_error async for letter in client.dead_letters("mails")] == ["no such customer"]
    assert await ledger(server) == {"inserted": 1, "dead": 1}


async def test_retry_comes_after_the_delay_that_the_handler_names(server: Server, client: Client, inbox: Inbox) -> None:
    """`raise Retry(delay)`: exactly so much later, also hours."""

    async def later(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            raise Retry(timedelta(hours=7))

    inbox.after = later
    await inbox.works("mails")
    at = server.now + timedelta(minutes=1)
    await client.schedule("mails", b"x", at=at)
    await server.advance(hours=8)
    assert inbox.times == [at, at + timedelta(hours=7)]
    assert await ledger(server) == {"inserted": 2, "carried": 1, "acked": 1}


async def test_the_longest_delay_of_a_retry_is_held_exactly(server: Server, client: Client, inbox: Inbox) -> None:
    """What is longer is refused in the handler."""
    longest = timedelta(days=49, hours=17)

    async def later(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            raise Retry(longest)

    inbox.after = later
    await inbox.works("mails")
    at = server.now + timedelta(minutes=1)
    await client.schedule("mails", b"x", at=at)
    await server.advance(hours=1)
    await server.advance(longest)
    assert inbox.times == [at, at + longest]


async def test_a_batch_fails_and_succeeds_task_by_task(server: Server, client: Client) -> None:
    """A batch handler returns one entry for each delivery: what failed is tried again, the others are done."""
    sizes: list[int] = []
    done: list[bytes] = []
    worker = server.worker()

    @worker.on_batch("mails", max_size=40)
    async def handle(batch: list[Delivery]) -> list[object]:
        sizes.append(len(batch))
        out: list[object] = []
        for delivery in batch:
            failing = delivery.attempt == 1 and int(delivery.payload) % 10 == 0
            out.append(Retry(60) if failing else None)
            done.extend([] if failing else [delivery.payload])
        return out

    await worker.start()
    await client.schedule_many("mails", [(b"%d" % n, 60) for n in range(100)])
    await server.advance(minutes=5)
    assert sorted(done, key=int) == [b"%d" % n for n in range(100)]
    assert max(sizes) <= 40
    assert sum(sizes) == 110
    assert await ledger(server) == {"inserted": 110, "carried": 10, "acked": 100}


async def test_a_dead_letter_is_shown_with_its_last_error(server: Server, client: Client, inbox: Inbox) -> None:
    """Its row says what was before the last attempt; Get, List and the letter say the same."""
    inbox.after = rejects
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=1)
    await server.advance(seconds=5)
    shown = await client.get(task.id)
    assert (shown.state, shown.attempt, shown.last_error) == (TaskState.DEAD, 1, "no such customer")
    [listed] = [each async for each in client.list(start=server.now - timedelta(hours=1), states=[TaskState.DEAD])]
    assert (listed.attempt, listed.last_error) == (1, "no such customer")


async def test_many_dead_letters_live_again_at_once(server: Server, client: Client, inbox: Inbox) -> None:
    """One of them was purged meanwhile."""
    inbox.after = rejects
    await inbox.works("mails")
    tasks = await client.schedule_many("mails", [(b"%d" % n, timedelta(seconds=1)) for n in range(80)])
    await server.advance(seconds=5)
    inbox.after = None
    first = await client.redrive([task.id for task in tasks[:40]])
    again = await client.redrive([task.id for task in tasks])
    await server.advance(seconds=5)
    assert (int(first), int(again), len(again.missing)) == (40, 40, 40)
    assert len(inbox.payloads) == 160
