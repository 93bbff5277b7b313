"""Looking on: what is sent, and how it ends, as it happens."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.fundamentals.conftest import Inbox
from tests.fundamentals.screen import looking_on, until
from timerd.client import Client, DeliveryEventKind, InvalidTask, Overloaded, RetryPolicy, TaskState
from timerd.core.dispatch import MOST_READERS, Tail, TailReader
from timerd.core.dispatch.tail import MOST_WAITING
from timerd.services.background import unforeseen
from timerd.testing import Server
from timerd.v1 import watch_pb2
from timerd.worker import Delivery, Reject

MINUTE = timedelta(minutes=1)
ONCE = RetryPolicy(max_attempts=1)
SENT, ACKED, FAILED = DeliveryEventKind.SENT, DeliveryEventKind.ACKED, DeliveryEventKind.FAILED
DEAD, GIVEN_BACK = DeliveryEventKind.DEAD, DeliveryEventKind.GIVEN_BACK


async def test_who_looks_on_sees_what_is_sent_and_how_it_ends(server: Server, client: Client, inbox: Inbox) -> None:
    async def work(_delivery: Delivery) -> None:
        await server.sleep(seconds=2)

    inbox.after = work
    await inbox.works("mails")
    task = await client.schedule("mails", b"", delay=MINUTE)
    async with looking_on(client) as screen:
        await server.advance(minutes=2)
        sent, acked = await screen.shows(2)
    assert (sent.kind, sent.queue, sent.task_id, sent.attempt) == (SENT, "mails", task.id, 1)
    assert (sent.time, sent.due_time, sent.late) == (task.fire_time, task.fire_time, timedelta(0))
    assert (acked.kind, acked.task_id, acked.worker) == (ACKED, task.id, sent.worker)
    assert acked.took == timedelta(seconds=2)
    assert sent.worker
    assert sent.instance


async def test_a_failure_says_when_the_next_attempt_is_due_and_the_last_one_that_there_is_none(
    server: Server, client: Client, inbox: Inbox
) -> None:
    async def fail(_delivery: Delivery) -> None:
        raise ValueError("no")

    inbox.after = fail
    await inbox.works("mails")
    task = await client.schedule("mails", b"", delay=MINUTE, retry=RetryPolicy(max_attempts=2, initial_backoff=10))
    async with looking_on(client) as screen:
        await server.advance(minutes=2)
        events = await screen.shows(4)
    assert [event.kind for event in events] == [SENT, FAILED, SENT, DEAD]
    assert [event.attempt for event in events] == [1, 1, 2, 2]
    assert events[1].next_attempt_time == events[2].due_time
    assert {event.task_id for event in events} == {task.id}


async def test_a_task_that_is_hopeless_is_dead_at_once(server: Server, client: Client, inbox: Inbox) -> None:
    async def reject(_delivery: Delivery) -> None:
        raise Reject("no such user")

    inbox.after = reject
    await inbox.works("mails")
    await client.schedule("mails", b"", delay=MINUTE)
    async with looking_on(client) as screen:
        await server.advance(minutes=2)
        assert [event.kind for event in await screen.shows(2)] == [SENT, DEAD]


async def test_only_the_queue_and_the_namespace_that_were_asked_for_are_told(
    server: Server, client: Client, inbox: Inbox
) -> None:
    await inbox.works("mails", "calls")
    for queue in ("calls", "mails"):
        await client.schedule(queue, b"", delay=MINUTE)
    other = server.client(namespace="other")
    async with looking_on(client, "mails") as mails, looking_on(client) as both, looking_on(other) as nothing:
        await server.advance(minutes=2)
        await both.shows(4)
        await mails.shows(2)
    assert {event.queue for event in both.events} == {"calls", "mails"}
    assert [event.queue for event in mails.events] == ["mails", "mails"]
    assert nothing.events == []


async def test_what_is_too_much_is_left_out_and_counted(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("mails", concurrency=500)
    await client.schedule_many("mails", [(b"", server.now + MINUTE)] * 500)
    async with looking_on(client, max_per_second=20) as screen:
        await server.advance(minutes=2)
        await until(lambda: len(screen.events) == 40 and screen.left_out == 480)
    assert len(inbox.got) == 500
    assert [event.kind for event in screen.events].count(SENT) == 20


async def test_one_who_does_not_read_holds_nobody_up(server: Server, client: Client, inbox: Inbox) -> None:
    """Its lines are left out beyond so many, and that is counted when it reads on."""
    await inbox.works("mails", concurrency=500)
    is_reading, said = asyncio.Event(), list[Any]()

    async def write(message: object) -> None:
        said.append(message)
        await is_reading.wait()

    watching = server.node.server.api.watching
    assert watching is not None
    request = watch_pb2.WatchRequest(max_per_second=1_000)
    looking = asyncio.create_task(watching.watch(request, write))
    await until(lambda: bool(said))
    for second in range(3):
        await client.schedule_many("mails", [(b"", server.now + MINUTE + timedelta(seconds=second))] * 1_000)
    await server.advance(minutes=2)
    assert len(inbox.got) == 3_000
    is_reading.set()
    await until(lambda: len(said) > 1)
    looking.cancel()
    assert len(said[1].events) == MOST_WAITING
    assert len(said[1].events) + said[1].left_out == 6_000


@pytest.mark.unforeseen
@pytest.mark.parametrize("method", ["sent", "settled"])
async def test_a_mistake_in_what_is_told_costs_no_delivery(
    server: Server, client: Client, inbox: Inbox, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("nobody foresaw this")

    monkeypatch.setattr(Tail, method, fail)
    await inbox.works("mails")
    before = unforeseen["watching"]
    tasks = [await client.schedule("mails", b"", delay=MINUTE) for _ in range(3)]
    async with looking_on(client):
        await server.advance(minutes=2)
    assert {(await client.get(task.id)).state for task in tasks} == {TaskState.ACKED}
    assert unforeseen["watching"] > before


async def test_nothing_is_kept_while_nobody_looks_on(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("mails")
    tail = server.node.delivery.tail
    async with looking_on(client) as screen:
        await client.schedule("mails", b"", delay=MINUTE)
        await server.advance(minutes=2)
        await screen.shows(2)
        assert tail.is_read
    await until(lambda: not tail.is_read)


async def test_one_who_goes_away_amid_a_delivery_is_told_nothing_more(
    server: Server, client: Client, inbox: Inbox
) -> None:
    async def work(_delivery: Delivery) -> None:
        await server.sleep(seconds=90)

    inbox.after = work
    await inbox.works("mails", lease=600)
    await client.schedule("mails", b"", delay=MINUTE)
    async with looking_on(client) as stays:
        async with looking_on(client) as leaves:
            await server.advance(minutes=2)
            await leaves.shows(1)
        await server.advance(minutes=2)
        assert [event.kind for event in await stays.shows(2)] == [SENT, ACKED]
    assert [event.kind for event in leaves.events] == [SENT]


async def test_a_server_that_starts_anew_is_watched_on(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("mails")
    async with looking_on(client) as screen:
        await server.restart()
        await until(lambda: any(part.is_resumed for part in screen.parts))
        await client.schedule("mails", b"", delay=MINUTE)
        await server.advance(minutes=2)
        assert [event.kind for event in await screen.shows(2)] == [SENT, ACKED]


async def test_a_server_that_is_away_for_longer_than_a_call_may_take_is_watched_on(
    server: Server, client: Client, inbox: Inbox
) -> None:
    await inbox.works("mails")
    quick = Client(server.address, timeout=0.2)
    async with looking_on(quick) as screen:
        await until(lambda: bool(screen.parts))
        # Longer than the time of a call: nothing is heard meanwhile.
        await asyncio.sleep(0.5)
        await server.restart()
        await until(lambda: any(part.is_resumed for part in screen.parts))
        await client.schedule("mails", b"", delay=MINUTE)
        await server.advance(minutes=2)
        assert [event.kind for event in await screen.shows(2)] == [SENT, ACKED]
    await quick.close()


async def test_a_rate_that_is_too_high_is_refused(client: Client, server: Server) -> None:
    with pytest.raises(InvalidTask, match="max_per_second"):
        await anext(client.watch(max_per_second=1_001))


async def test_more_than_so_many_who_look_on_are_refused(server: Server, client: Client) -> None:
    tail = server.node.delivery.tail
    for _ in range(MOST_READERS):
        tail.join(TailReader("other", "", 1, lambda: None))
    quick = Client(server.address, timeout=0.2)
    try:
        with pytest.raises(Overloaded, match="50 callers watch this instance"):
            await anext(quick.watch())
    finally:
        await quick.close()
