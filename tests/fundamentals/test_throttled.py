"""A handler that was told to wait: its task goes back as it was, and the limit is held."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import Client, InvalidTask, RetryPolicy, TaskState, WaitReason
from timerd.testing import Server
from timerd.worker import Delivery, Throttled

SECOND = timedelta(seconds=1)


async def test_one_answer_of_429_holds_the_limit_and_uses_no_attempt_up(
    server: Server, client: Client, inbox: Inbox
) -> None:
    open_at = server.now + timedelta(seconds=31)

    async def partner(delivery: Delivery) -> None:
        if server.now < open_at and delivery.queue != "free":
            raise Throttled(after=30, limit="stripe")

    inbox.after = partner
    await inbox.works("charges", "refunds", "free", concurrency=1)
    await client.limits.put("stripe", max_in_hand=1)
    for queue in ("charges", "refunds"):
        await client.queues.put(queue, limits=["stripe"])
    due = server.now + SECOND
    for queue in ("charges", "refunds", "free"):
        for n in range(4):
            await client.schedule(queue, b"%d" % n, at=due, retry=RetryPolicy(max_attempts=1))
    await server.advance(seconds=20)
    # One of eight was tried; the others are held with it.
    assert len([each for each in inbox.got if each.delivery.queue != "free"]) == 1
    assert {each.at for each in inbox.got if each.delivery.queue == "free"} == {due}
    assert (await client.limits.get("stripe")).held_until == due + 30 * SECOND
    await server.advance(seconds=20)
    assert len(inbox.got) == 4 + 1 + 8
    assert (set(inbox.attempts), inbox.times[-1]) == ({1}, due + 30 * SECOND)
    assert (await client.limits.get("stripe")).held_until is None


async def test_a_queue_without_rules_is_held_and_says_so(server: Server, client: Client, inbox: Inbox) -> None:
    async def partner(_: Delivery) -> None:
        if len(inbox.got) == 1:
            raise Throttled(timedelta(seconds=30))

    inbox.after = partner
    await inbox.works("charges", concurrency=1)
    start = server.now
    tasks = [await client.schedule("charges", b"%d" % n, at=start + SECOND) for n in range(2)]
    await server.advance(seconds=10)
    for task in tasks:
        found = await client.get(task.id)
        waiting = found.waiting_for
        assert waiting is not None
        assert (found.state, found.history) == (TaskState.PENDING, ())
        assert (waiting.reason, waiting.until, waiting.limit) == (WaitReason.LIMIT, start + 31 * SECOND, "")
        assert "A handler was throttled, so nothing of the queue 'charges' starts before" in waiting.description
    assert (await client.queues.get("charges")).held_until == start + 31 * SECOND
    # What is held can be cancelled, and nothing is sent of it then.
    await client.cancel(tasks[1].id)
    await server.advance(seconds=60)
    assert inbox.payloads == [b"0", b"0"]
    assert (await client.get(tasks[0].id)).state is TaskState.ACKED


async def test_a_limit_that_the_queue_does_not_list_fails_the_attempt(
    server: Server, client: Client, inbox: Inbox
) -> None:
    async def partner(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            raise Throttled(after=7, limit="strpe")

    inbox.after = partner
    await inbox.works("charges")
    task = await client.schedule("charges", b"", delay=1)
    await server.advance(seconds=5)
    (failed,) = (await client.get(task.id)).history
    assert "the limit 'strpe', which the queue 'charges' does not list" in failed.error
    await server.advance(seconds=10)
    assert inbox.attempts == [1, 2]
    assert inbox.times[1] - inbox.times[0] == 7 * SECOND


@pytest.mark.parametrize(
    ("attempts", "expire_after", "state"),
    [(2, None, TaskState.PENDING), (1, None, TaskState.DEAD), (2, 20, TaskState.EXPIRED)],
)
async def test_who_names_such_a_limit_hears_what_became_of_the_task(
    server: Server, client: Client, attempts: int, expire_after: float | None, state: TaskState
) -> None:
    """Nothing was throttled, so the call does not say that all is well."""
    retry = RetryPolicy(max_attempts=attempts)
    await client.schedule("charges", b"", delay=1, retry=retry, expire_after=expire_after)
    await server.advance(seconds=2)
    (task,) = await client.receive("charges", max=1, wait=1)
    assert await client.finish(task, "throttled", delay=30, limit="strpe") == {task.delivery_id: state}
    found = await client.get(task.task_id)
    assert "the limit 'strpe', which the queue 'charges' does not list" in found.history[0].error
    assert (await client.queues.get("charges")).held_until is None


async def test_what_a_server_has_not_sent_itself_has_failed_and_holds_nothing(
    server: Server, client: Client, inbox: Inbox
) -> None:
    async def partner(_: Delivery) -> None:
        if len(inbox.got) == 1:
            await server.sleep(seconds=10)
            raise Throttled(after=100)

    inbox.after = partner
    await inbox.works("charges", concurrency=1)
    first = await client.schedule("charges", b"", delay=1)
    start = server.now
    await server.advance(seconds=2)
    await server.restart()
    await server.advance(seconds=15)
    assert (await client.queues.get("charges")).held_until is None
    assert (await client.get(first.id)).history[0].error == "what the handler has asked told it to wait"
    await client.schedule("charges", b"next", delay=1)
    await server.advance(seconds=120)
    assert (inbox.payloads, inbox.attempts) == ([b"", b"next", b""], [1, 1, 2])
    assert inbox.times[2] == start + 111 * SECOND


async def test_a_held_limit_is_forgotten_by_a_restart(server: Server, client: Client, inbox: Inbox) -> None:
    async def partner(_: Delivery) -> None:
        if len(inbox.got) <= 2:
            raise Throttled(after=3_600)

    inbox.after = partner
    await inbox.works("charges", concurrency=1)
    await client.schedule("charges", b"", delay=1)
    await server.advance(seconds=2)
    await server.restart()
    await server.advance(seconds=30)
    # It was asked once more, and told again.
    assert len(inbox.got) == 2
    await server.advance(minutes=61)
    assert inbox.attempts == [1, 1, 1]


async def test_who_receives_without_a_stream_says_it_too(server: Server, client: Client) -> None:
    for payload in (b"one", b"two"):
        await client.schedule("charges", payload, delay=1)
    await server.advance(seconds=2)
    (first,) = await client.receive("charges", max=1, wait=1)
    assert await client.finish(first, "throttled", delay=30) == {}
    assert (await client.queues.get("charges")).held_until == server.now + 30 * SECOND
    await server.advance(seconds=31)
    again = await client.receive("charges", max=10, wait=1)
    assert sorted((each.payload, each.attempt) for each in again) == [(b"one", 1), (b"two", 1)]
    for delay, sentence in ((None, "throttle.after is 0 ms"), (7_200, "throttle.after is 7,200,000 ms")):
        with pytest.raises(InvalidTask, match=sentence):
            await client.finish(again, "throttled", delay=delay)


@pytest.mark.parametrize("after", [0, -1, 3_601, "soon"])
def test_what_nobody_can_wait_for_is_refused_where_it_is_raised(after: float) -> None:
    with pytest.raises(InvalidTask, match="`after`"):
        raise Throttled(after)


async def test_by_key_one_answer_of_429_holds_one_customer(server: Server, client: Client, inbox: Inbox) -> None:
    """The others go on, and what of the customer was not tried is held with it."""
    open_at = server.now + 31 * SECOND

    async def partner(delivery: Delivery) -> None:
        if server.now < open_at and delivery.payload.startswith(b"acme"):
            raise Throttled(after=30, by_key=True)

    inbox.after = partner
    await inbox.works("charges", concurrency=1)
    once, due = RetryPolicy(max_attempts=1), server.now + SECOND
    for n in range(3):
        for key in ("acme", "initech"):
            await client.schedule("charges", f"{key} {n}", at=due, limit_key=key, retry=once)
    last = await client.schedule("charges", b"acme last", at=due, limit_key="acme", retry=once)
    await server.advance(seconds=20)
    assert [each for each in inbox.payloads if each.startswith(b"acme")] == [b"acme 0"]
    assert [each.at for each in inbox.got if each.payload.startswith(b"initech")] == [due] * 3
    waiting = (await client.get(last.id)).waiting_for
    assert waiting is not None
    assert (waiting.reason, waiting.until, waiting.limit_key) == (WaitReason.LIMIT, due + 30 * SECOND, "acme")
    assert "A handler was throttled, so nothing of the limit key 'acme'" in waiting.description
    assert (await client.queues.get("charges")).held_until is None
    await server.advance(seconds=20)
    assert [each.at for each in inbox.got[4:]] == [due + 30 * SECOND] * 4
    assert (len(inbox.got), set(inbox.attempts)) == (8, {1})


async def test_where_no_task_has_a_limit_key_it_holds_the_queue(server: Server, client: Client) -> None:
    await client.schedule("charges", b"", delay=0)
    [task] = await client.receive("charges", wait=0)
    assert await client.finish(task, "throttled", delay=30, by_key=True) == {}
    assert (await client.queues.get("charges")).held_until == server.now + 30 * SECOND


async def test_a_limit_of_all_and_the_key_of_one_are_not_both_held(client: Client) -> None:
    with pytest.raises(InvalidTask, match="give the one or the other"):
        Throttled(after=30, limit="stripe", by_key=True)
