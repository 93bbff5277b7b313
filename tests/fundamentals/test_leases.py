"""Workers that hang, die or take long: attempt time-outs, leases, redelivery."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import CancelOutcome, Client, RetryPolicy, TaskState
from timerd.testing import Server
from timerd.worker import Delivery, Reject


async def until(condition: Callable[[], bool]) -> None:
    """For what happens in real time, while handlers wait."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)


async def test_a_handler_may_take_long(server: Server, client: Client, inbox: Inbox) -> None:
    """The worker extends the lease while the handler runs: forty minutes, one delivery."""

    async def works_long(_: Delivery) -> None:
        await server.sleep(minutes=40)

    inbox.after = works_long
    await inbox.works("mails")
    await client.schedule("mails", b"x", delay=60)
    await server.advance(hours=1)
    assert inbox.payloads == [b"x"]
    counts = await ledger(server)
    assert counts["acked"] == 1
    assert counts["inserted"] == 1 + counts["carried"]


async def test_a_silent_worker_loses_the_task_when_its_lease_ends(server: Server, client: Client, inbox: Inbox) -> None:
    """Nobody extends the lease of 30 s: another worker gets the task, with the same delivery_id."""

    async def hangs(_: Delivery) -> None:
        await server.sleep(hours=9)

    inbox.after = hangs
    silent = await inbox.works("mails", silent=True, concurrency=1)
    at = server.now + timedelta(minutes=1)
    await client.schedule("mails", b"x", at=at, retry=RetryPolicy(initial_backoff=5))
    await server.advance(minutes=1)
    second = Inbox(server)
    await second.works("mails")
    await server.advance(seconds=20)
    assert second.got == []
    await server.advance(minutes=1)
    assert second.payloads == [b"x"]
    assert at + timedelta(seconds=30) <= second.times[0] <= at + timedelta(seconds=36)
    assert second.got[0].delivery.delivery_id == inbox.got[0].delivery.delivery_id
    assert second.attempts == [2]
    await silent.kill()
    assert await ledger(server) == {"inserted": 2, "carried": 1, "acked": 1}


async def test_a_worker_that_dies_is_replaced_after_a_second(server: Server, client: Client, inbox: Inbox) -> None:
    """A broken stream leaves a second to come back; then the task goes to another worker at once."""

    async def hangs(_: Delivery) -> None:
        await server.sleep(hours=9)

    inbox.after = hangs
    dying = await inbox.works("mails")
    at = server.now + timedelta(minutes=1)
    await client.schedule("mails", b"x", at=at)
    await server.advance(minutes=1)
    second = Inbox(server)
    await second.works("mails")
    await dying.kill()
    await server.settle()
    assert second.got == []
    await server.advance(seconds=3)
    assert second.payloads == [b"x"]
    assert at + timedelta(seconds=1) <= second.times[0] <= at + timedelta(seconds=2)
    assert await ledger(server) == {"inserted": 2, "carried": 1, "acked": 1}


async def test_an_attempt_timeout_ends_an_attempt_that_is_extended(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """However alive its worker: 2 s after attempt_timeout the attempt has failed, and the next one follows."""

    async def slow_at_first(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            await server.sleep(hours=2)

    inbox.after = slow_at_first
    await inbox.works("mails", shield=True)
    at = server.now + timedelta(minutes=1)
    policy = RetryPolicy(initial_backoff=10, attempt_timeout=120)
    task = await client.schedule("mails", b"x", at=at, retry=policy)
    await server.advance(minutes=3, seconds=1)
    assert inbox.attempts == [1]
    await server.advance(minutes=1)
    assert inbox.attempts == [1, 2]
    assert at + timedelta(seconds=131) <= inbox.times[1] <= at + timedelta(seconds=133)
    assert inbox.got[0].delivery.lost
    await server.advance(hours=3)
    assert inbox.attempts == [1, 2]
    assert (await client.get(task.id)).attempt == 2
    assert await ledger(server) == {"inserted": 2, "carried": 1, "acked": 1}


async def test_a_late_ack_ends_the_retries(server: Server, client: Client, inbox: Inbox) -> None:
    """A handler that comes to its end after its lease was lost has done the work: no further attempt starts."""

    async def slow(_: Delivery) -> None:
        await server.sleep(minutes=5)

    inbox.after = slow
    await inbox.works("mails", shield=True, silent=True)
    await client.schedule("mails", b"x", delay=60, retry=RetryPolicy(initial_backoff=3600))
    await server.advance(hours=5)
    assert inbox.attempts == [1]
    assert await ledger(server) == {"inserted": 2, "carried": 1, "acked": 1}


async def test_what_is_cancelled_after_its_lease_has_ended_may_still_be_done_by_who_had_it(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """IN_FLIGHT while a worker has it. CANCELLED when its lease has ended: no delivery starts any more, but the worker
    that says nothing may be at it, and nobody can know. That it has done it comes too late then."""

    async def slow(_: Delivery) -> None:
        await server.sleep(minutes=5)

    inbox.after = slow
    await inbox.works("mails", silent=True)
    policy = RetryPolicy(initial_backoff=3600)
    in_hand = await client.schedule("mails", b"x", delay=60, retry=policy)
    lapsed = await client.schedule("mails", b"y", delay=20, retry=policy)
    await server.advance(seconds=65)
    assert await client.cancel(in_hand.id) is CancelOutcome.IN_FLIGHT
    assert await client.cancel(lapsed.id) is CancelOutcome.CANCELLED
    await server.advance(hours=5)
    assert sorted(inbox.payloads) == [b"x", b"y"]
    assert {(await client.get(task.id)).state for task in (in_hand, lapsed)} == {TaskState.CANCELLED}


async def test_what_a_long_handler_leaves_behind_is_the_second_attempt(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """However often its row was carried on while the worker had it: attempts are counted, not rows."""

    async def works_long(_: Delivery) -> None:
        await server.sleep(hours=9)

    inbox.after = works_long
    dying = await inbox.works("mails")
    await client.schedule("mails", b"x", delay=60, retry=RetryPolicy(max_attempts=3))
    await server.advance(minutes=41)
    await dying.kill()
    second = Inbox(server)
    await second.works("mails")
    await server.advance(minutes=2)
    assert second.attempts == [2]
    counts = await ledger(server)
    assert (counts["acked"], counts["inserted"]) == (1, 1 + counts["carried"])


@pytest.mark.parametrize("restarts", [0, 1])
async def test_a_long_handler_that_fails_is_tried_again(
    server: Server, client: Client, inbox: Inbox, restarts: int
) -> None:
    """Forty minutes of work, then an error: attempt 2 follows after the backoff, as for any other."""

    async def fails_at_last(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            await server.sleep(minutes=40)
            raise RuntimeError("no luck")

    inbox.after = fails_at_last
    await inbox.works("mails")
    at = server.now + timedelta(minutes=1)
    task = await client.schedule("mails", b"x", at=at, retry=RetryPolicy(max_attempts=2, initial_backoff=600))
    await server.advance(minutes=20)
    for _ in range(restarts):
        await server.restart()
    await server.advance(minutes=25)
    assert inbox.attempts == [1]
    await server.advance(hours=1)
    assert inbox.attempts == [1, 2]
    assert at + timedelta(minutes=49) <= inbox.times[1] <= at + timedelta(minutes=50)
    assert "no luck" in (await client.get(task.id)).last_error
    counts = await ledger(server)
    assert counts["acked"] == 1


@pytest.mark.parametrize("restarts", [0, 1])
async def test_a_long_handler_that_rejects_leaves_a_dead_letter(
    server: Server, client: Client, inbox: Inbox, restarts: int
) -> None:
    """The dead letter can be redriven, as any other."""

    async def rejects_at_last(delivery: Delivery) -> None:
        if len(inbox.got) == 1:
            await server.sleep(minutes=40)
            raise Reject("hopeless")

    inbox.after = rejects_at_last
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60)
    await server.advance(minutes=20)
    for _ in range(restarts):
        await server.restart()
    await server.advance(hours=2)
    assert inbox.payloads == [b"x"]
    assert [letter.last_error async for letter in client.dead_letters("mails")] == ["hopeless"]
    assert (await client.get(task.id)).state is TaskState.DEAD
    assert await client.redrive([task.id]) == 1
    await server.settle()
    assert inbox.payloads == [b"x", b"x"]
    counts = await ledger(server)
    assert (counts["acked"], counts["dead"]) == (1, 1)


async def test_the_last_attempt_that_fails_after_a_restart_is_buried(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Nothing but its token is left of the delivery: its policy is read from the row."""

    async def fails_at_last(_: Delivery) -> None:
        await server.sleep(seconds=45)
        raise RuntimeError("no luck")

    inbox.after = fails_at_last
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, retry=RetryPolicy(max_attempts=1))
    await server.advance(seconds=70)
    await server.restart()
    await server.advance(minutes=5)
    assert inbox.attempts == [1]
    errors = [letter.last_error async for letter in client.dead_letters("mails")]
    assert ["no luck" in error for error in errors] == [True]
    assert (await client.get(task.id)).state is TaskState.DEAD
    inbox.after = None
    assert await client.redrive([task.id]) == 1
    await server.settle()
    assert inbox.payloads == [b"x", b"x"]
    assert (await ledger(server))["dead"] == 1


async def test_an_older_attempt_cannot_fail_the_next_one(server: Server, client: Client, inbox: Inbox) -> None:
    """Its lease ended long ago: whether it rejects the task then is nobody's business any more."""

    async def rejects_late(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            await server.sleep(minutes=5)
            raise Reject("too late")

    inbox.after = rejects_late
    await inbox.works("mails", silent=True)
    policy = RetryPolicy(initial_backoff=3600, jitter=0)
    task = await client.schedule("mails", b"x", delay=60, retry=policy)
    await server.advance(hours=3)
    assert inbox.attempts == [1, 2]
    assert (await client.get(task.id)).state is TaskState.ACKED
    assert await ledger(server) == {"inserted": 2, "carried": 1, "acked": 1}


async def test_a_worker_that_stops_uses_up_no_attempt_of_what_it_has_not_begun(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """What waits behind a batch goes to the next worker at once, as its first attempt; what has begun is finished."""
    leaving, begun, go = server.worker(), list[bytes](), asyncio.Event()

    @leaving.on_batch("mails", max_size=2)
    async def handle(deliveries: list[Delivery]) -> None:
        begun.extend(delivery.payload for delivery in deliveries)
        await go.wait()

    await leaving.start()
    tasks = await client.schedule_many("mails", [(b"%d" % n, 0) for n in range(4)], retry=RetryPolicy(max_attempts=1))
    await until(lambda: len(begun) == 2 and leaving.in_hand == 4)
    stopping = asyncio.create_task(leaving.stop())
    await until(lambda: leaving.in_hand == 2)
    await inbox.works("mails")
    await until(lambda: len(inbox.got) == 2)
    assert not stopping.done()
    go.set()
    await stopping
    await server.settle()
    assert sorted([*begun, *inbox.payloads]) == [b"0", b"1", b"2", b"3"]
    assert inbox.attempts == [1, 1]
    seen = [await client.get(task.id) for task in tasks]
    assert {(task.state, task.attempt) for task in seen} == {(TaskState.ACKED, 1)}
    assert await ledger(server) == {"inserted": 4, "acked": 4}


async def test_what_a_worker_hands_back_and_nobody_takes_is_pending(server: Server, client: Client) -> None:
    leaving, begun, go = server.worker(), list[bytes](), asyncio.Event()

    @leaving.on_batch("mails", max_size=1)
    async def handle(deliveries: list[Delivery]) -> None:
        begun.extend(delivery.payload for delivery in deliveries)
        await go.wait()

    await leaving.start()
    tasks = await client.schedule_many("mails", [(b"%d" % n, 0) for n in range(2)])
    await until(lambda: bool(begun) and leaving.in_hand == 2)
    stopping = asyncio.create_task(leaving.stop())
    await asyncio.sleep(0.05)
    go.set()
    await stopping
    await server.settle()
    seen = {task.payload: (task.state, task.attempt) for task in [await client.get(task.id) for task in tasks]}
    other = b"1" if begun == [b"0"] else b"0"
    assert seen == {begun[0]: (TaskState.ACKED, 1), other: (TaskState.PENDING, 0)}


async def test_what_was_acknowledged_late_is_no_dead_letter_of_the_next_attempt(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """The first worker has done the work after all, and has heard so. That the second one gives up changes nothing."""

    async def slow(_: Delivery) -> None:
        await server.sleep(minutes=5)

    async def hopeless(_: Delivery) -> None:
        await server.sleep(minutes=10)
        raise Reject("no such address")

    inbox.after = slow
    await inbox.works("mails", shield=True, silent=True, concurrency=1)
    task = await client.schedule("mails", b"x", delay=60)
    await server.advance(minutes=1)
    second = Inbox(server)
    second.after = hopeless
    await second.works("mails")
    await server.advance(minutes=7)
    assert second.attempts == [2]
    await server.advance(minutes=20)
    assert (await client.get(task.id)).state is TaskState.ACKED
    assert [letter async for letter in client.dead_letters("mails")] == []
    assert (await ledger(server))["acked"] == 1
