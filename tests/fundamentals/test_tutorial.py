"""Schedule and receive: the first lines of the tutorial."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import Client, InvalidTask, TimerdError
from timerd.testing import Server

MS = timedelta(milliseconds=1)


async def test_a_task_comes_at_its_instant(server: Server, client: Client, inbox: Inbox) -> None:
    """What was scheduled for an instant is handed to the worker exactly then, with its payload."""
    await inbox.works("mails")
    at = server.now + timedelta(hours=3)
    task = await client.schedule("mails", "hello", at=at)
    await server.advance(hours=3)
    assert (inbox.payloads, inbox.times) == ([b"hello"], [at])
    assert inbox.got[0].delivery.task_id == task.id
    assert inbox.got[0].delivery.lateness == timedelta()
    assert await ledger(server) == {"inserted": 1, "acked": 1}


async def test_a_delay_counts_from_the_call(server: Server, client: Client, inbox: Inbox) -> None:
    """`delay` is counted from when schedule was called."""
    await inbox.works("mails")
    asked = server.now
    task = await client.schedule("mails", b"soon", delay=90)
    assert task.fire_time == asked + timedelta(seconds=90)
    await server.advance(minutes=2)
    assert inbox.times == [asked + timedelta(seconds=90)]


async def test_never_early(server: Server, client: Client, inbox: Inbox) -> None:
    """One millisecond before its instant a task has not been delivered."""
    await inbox.works("mails")
    at = server.now + timedelta(hours=1)
    await client.schedule("mails", b"x", at=at)
    await server.advance_to(at - MS)
    assert inbox.got == []
    await server.advance(MS)
    assert inbox.times == [at]


async def test_never_early_whoever_comes_before(server: Server, client: Client, inbox: Inbox) -> None:
    """Tasks that were scheduled together come one by one, also a millisecond apart."""
    await inbox.works("mails")
    start = server.now + timedelta(hours=1)
    await client.schedule_many("mails", [(b"%d" % n, start + n * MS) for n in range(5)])
    for n in range(5):
        await server.advance_to(start + n * MS)
        assert inbox.payloads == [b"%d" % each for each in range(n + 1)]


async def test_an_instant_in_the_past_fires_at_once(server: Server, client: Client, inbox: Inbox) -> None:
    """A task for an instant that has passed is delivered now, and marked late."""
    await inbox.works("mails")
    await client.schedule("mails", b"x", at=server.now - timedelta(hours=5))
    await server.settle()
    assert inbox.times == [server.now]
    assert inbox.got[0].delivery.late
    assert await ledger(server) == {"inserted": 1, "acked": 1}


@pytest.mark.parametrize("year", [1973, 1999])
async def test_an_instant_of_long_ago_fires_at_once_as_well(
    server: Server, client: Client, inbox: Inbox, year: int
) -> None:
    await inbox.works("mails")
    await client.schedule("mails", b"x", at=datetime(year, 4, 1, tzinfo=UTC))
    await server.settle()
    assert inbox.times == [server.now]


async def test_seconds_where_milliseconds_are_meant_are_refused(server: Server, client: Client) -> None:
    """Of one task, of many, and of a move: 2030 in seconds, read as milliseconds, is a day of January 1970."""
    wrong = datetime.fromtimestamp(server.now.timestamp() / 1_000, UTC)
    task = await client.schedule("mails", b"x", delay=60)
    with pytest.raises(InvalidTask, match="are these seconds, where milliseconds are meant"):
        await client.schedule("mails", b"x", at=wrong)
    with pytest.raises(InvalidTask, match="are these seconds, where milliseconds are meant"):
        await client.reschedule(task.id, at=wrong)
    with pytest.raises(TimerdError, match="are these seconds, where milliseconds are meant"):
        await client.schedule_many("mails", [(b"x", wrong), (b"y", server.now)])
    assert (await ledger(server))["inserted"] == 2


async def test_many_tasks_each_at_its_own_instant(server: Server, client: Client, inbox: Inbox) -> None:
    """Two hundred tasks of `schedule_many`, over three hours and in any order, each come at their instant."""
    await inbox.works("mails", concurrency=100)
    start = server.now
    spread = [timedelta(seconds=(n * 7919) % 10_800) for n in range(200)]
    tasks = await client.schedule_many("mails", [(b"%d" % n, start + s) for n, s in enumerate(spread)])
    assert [task.fire_time for task in tasks] == [start + s for s in spread]
    await server.advance(hours=3)
    assert {each.payload: each.at for each in inbox.got} == {b"%d" % n: start + s for n, s in enumerate(spread)}
    assert len(inbox.got) == 200
    assert await ledger(server) == {"inserted": 200, "acked": 200}


async def test_a_task_arrives_with_what_it_was_given(server: Server, client: Client, inbox: Inbox) -> None:
    """Labels, priority, content type, key and traceparent reach the handler."""
    await inbox.works("mails")
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    await client.schedule(
        "mails", b"{}", delay=1, labels={"tenant": "acme"}, priority=7, content_type="application/json", key="k",
        traceparent=trace,
    )  # fmt: skip
    await server.advance(seconds=1)
    delivery = inbox.got[0].delivery
    assert dict(delivery.labels) == {"tenant": "acme"}
    assert (delivery.priority, delivery.content_type) == (7, "application/json")
    assert (delivery.key, delivery.traceparent, delivery.queue) == ("k", trace, "mails")


async def test_among_due_tasks_priority_is_worth_64_seconds_a_level(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Of tasks that are due together, each level of priority counts as 64 s of waiting."""
    start = server.now
    for name, after_s, priority in (("old", 0, 0), ("new", 100, 0), ("one", 100, 1), ("two", 100, 2), ("ten", 110, 10)):
        await client.schedule("mails", name, at=start + timedelta(seconds=after_s), priority=priority)
    await server.advance(minutes=3)
    await inbox.works("mails", concurrency=1)
    await server.settle()
    assert inbox.payloads == [b"ten", b"two", b"old", b"one", b"new"]


async def test_priority_counts_from_one_bucket_to_the_next(server: Server, client: Client, inbox: Inbox) -> None:
    """Of two tasks 20 s apart the later one comes first where it is a level higher, also when a bucket ends between."""
    end = server.now + timedelta(minutes=5)
    for name, after_s, priority in (("old", -10, 0), ("new", 10, 1), ("newer", 60, 1)):
        await client.schedule("mails", name, at=end + timedelta(seconds=after_s), priority=priority)
    await server.advance(minutes=7)
    await inbox.works("mails", concurrency=1)
    await server.settle()
    assert inbox.payloads == [b"new", b"old", b"newer"]


async def test_a_worker_that_takes_many_gets_them_in_the_same_order(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Of one bucket no more is given at a time than comes before what the next one has."""
    end = server.now + timedelta(minutes=5)
    for name, after_s, priority in (("old", -10, 0), ("new", 10, 1), ("newer", 60, 1)):
        await client.schedule("mails", name, at=end + timedelta(seconds=after_s), priority=priority)
    await server.advance(minutes=7)
    await inbox.works("mails", concurrency=16)
    await server.settle()
    assert inbox.payloads == [b"new", b"old", b"newer"]


async def test_a_repeated_request_is_one_task(server: Server, client: Client, inbox: Inbox) -> None:
    """The same call with the same request_id is stored once and answered with the same id."""
    await inbox.works("mails")
    at = server.now + timedelta(minutes=10)
    first = await client.schedule("mails", b"x", at=at, request_id="order-17")
    again = await client.schedule("mails", b"x", at=at, request_id="order-17")
    assert first.id == again.id
    await server.advance(minutes=10)
    late = await client.schedule("mails", b"x", at=at, request_id="order-17")
    assert late.id == first.id
    await server.advance(minutes=10)
    assert inbox.payloads == [b"x"]
    assert await ledger(server) == {"inserted": 1, "acked": 1}
