"""What a page shows of a server: queues, workers and load, from counters and estimates alone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import Client, InvalidTask, RetryPolicy
from timerd.sdk.values.times import datetime_of_ms
from timerd.services.operating import overview
from timerd.testing import Server
from timerd.v1.overview_service_pb2 import GetOverviewResponse, QueueActivity
from timerd.worker import Delivery

MINUTE = timedelta(minutes=1)


def queue_of(found: GetOverviewResponse, name: str) -> QueueActivity:
    return next(queue for queue in found.queues if queue.queue == name)


async def test_a_queue_shows_what_is_to_come_what_is_due_and_what_became_of_the_rest(
    server: Server, client: Client, inbox: Inbox
) -> None:
    items = [(b"%d" % n, server.now + n * MINUTE) for n in range(1, 11)]
    await client.schedule_many("mails", items)
    found = queue_of(await client.overview(), "mails")
    assert (found.scheduled, found.pending, found.due, found.sent, found.workers) == (10, 10, 0, 0, 0)
    await inbox.works("mails")
    await server.advance(minutes=4.5)
    found = queue_of(await client.overview(), "mails")
    assert (found.due, found.sent, found.in_hand, found.workers) == (0, 4, 0, 1)
    assert dict(found.settled) == {"acked": 4}
    assert sum(found.lateness_counts) == 4


async def test_what_is_due_without_a_worker_is_shown_as_due(server: Server, client: Client) -> None:
    await client.schedule_many("mails", [(b"", server.now + MINUTE)] * 7)
    await server.advance(minutes=2)
    found = await client.overview()
    assert queue_of(found, "mails").due == 7
    assert found.instances[0].oldest_due_ms == 60_000


async def test_what_waits_in_the_store_for_a_worker_is_told_until_one_has_taken_it(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Ten minutes after its time a task without a worker leaves memory, and with it what is counted as due."""
    await client.schedule_many("mails", [(b"", server.now + MINUTE)] * 7)
    await client.schedule("later", b"", delay=60 * MINUTE)
    await server.advance(minutes=5)
    assert not queue_of(await client.overview(), "mails").has_backlog
    await server.advance(minutes=15)
    found = await client.overview()
    mails = queue_of(found, "mails")
    assert (mails.due, mails.has_backlog, queue_of(found, "later").has_backlog) == (0, True, False)
    worker = await inbox.works("mails")
    await server.advance(minutes=1)
    assert len(inbox.got) == 7
    assert not queue_of(await client.overview(), "mails").has_backlog
    await worker.stop()
    await server.advance(minutes=1)
    found = await client.overview()
    assert (queue_of(found, "mails").workers, queue_of(found, "mails").has_backlog) == (0, False)


async def test_a_queue_lacks_a_worker_while_something_of_it_is_due_and_nobody_takes_it(
    server: Server, client: Client
) -> None:
    """In memory, in the store, until somebody does: by calls as well, which are no worker's stream."""
    await client.schedule_many("mails", [(b"", server.now + MINUTE)] * 2)

    async def lacks() -> bool:
        return queue_of(await client.overview(), "mails").lacks_worker

    assert not await lacks()
    await server.advance(minutes=2)
    assert await lacks()
    await server.advance(minutes=20)
    assert await lacks()
    assert len(await client.receive("mails", max=1)) == 1
    await server.advance(seconds=2)
    found = queue_of(await client.overview(), "mails")
    assert (found.due, found.lacks_worker) == (1, False)


async def test_what_waits_in_the_store_is_looked_for_in_turn(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "MOST_BACKLOGS_READ", 2)
    names = [f"queue-{number}" for number in range(5)]
    for name in names:
        await client.schedule(name, b"", delay=1)
    await server.advance(minutes=20)
    told = []
    for _ in range(3):
        found = await client.overview()
        told.append(sum(queue_of(found, name).has_backlog for name in names))
        await server.advance(seconds=2)
    assert told == [2, 4, 5]


@pytest.mark.parametrize("early", [True, False], ids=["before-it-is-due", "when-it-is-due"])
async def test_what_was_cancelled_or_moved_is_not_due_although_nobody_works_its_queue(
    server: Server, client: Client, early: bool
) -> None:
    tasks = await client.schedule_many("mails", [(b"", server.now + MINUTE + n * MINUTE / 60) for n in range(4)])
    if not early:
        await server.advance(minutes=2)
    await client.cancel(tasks[0].id)
    await client.cancel(tasks[3].id)
    await client.reschedule(tasks[1].id, at=server.now + 30 * MINUTE)
    await server.advance(minutes=2)
    found = await client.overview()
    assert queue_of(found, "mails").due == 1
    waits_ms = (server.now - tasks[2].fire_time) / timedelta(milliseconds=1)
    assert found.instances[0].oldest_due_ms == waits_ms


async def test_what_has_expired_is_not_due_although_nobody_works_its_queue(server: Server, client: Client) -> None:
    await client.schedule("mails", b"", delay=10, expire_after=20)
    await server.advance(minutes=1)
    found = await client.overview()
    assert (queue_of(found, "mails").due, found.instances[0].oldest_due_ms) == (0, 0)
    await client.schedule("mails", b"", delay=0)
    await server.advance(seconds=5)
    found = await client.overview()
    assert (queue_of(found, "mails").due, found.instances[0].oldest_due_ms) == (1, 5_000)


async def test_what_a_worker_has_in_its_hands_is_shown(server: Server, client: Client, inbox: Inbox) -> None:
    async def work(_delivery: Delivery) -> None:
        await server.sleep(seconds=30)

    inbox.after = work
    await client.schedule_many("mails", [(b"", server.now + MINUTE)] * 5)
    await inbox.works("mails")
    await server.advance(minutes=1.1)
    found = await client.overview()
    assert queue_of(found, "mails").in_hand == found.instances[0].in_flight == 5


async def test_dead_letters_are_counted(server: Server, client: Client, inbox: Inbox) -> None:
    async def fail(_delivery: Delivery) -> None:
        raise ValueError("no")

    inbox.after = fail
    await client.schedule("mails", b"", delay=MINUTE, retry=RetryPolicy(max_attempts=1))
    await inbox.works("mails")
    await server.advance(minutes=2)
    assert queue_of(await client.overview(), "mails").dead == 1


async def test_the_ledger_is_told_and_read_once_a_minute(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("mails")
    assert (await client.overview()).ledger.inserted == 0
    await client.schedule_many("mails", [(b"", server.now + timedelta(seconds=10))] * 3)
    await server.advance(seconds=30)
    assert (await client.overview()).ledger.acked == 0
    await server.advance(seconds=40)
    ledger = (await client.overview()).ledger
    assert (ledger.inserted, ledger.acked, ledger.unexplained) == (3, 3, 0)


async def test_a_worker_is_shown_while_it_is_connected(server: Server, client: Client, inbox: Inbox) -> None:
    await client.schedule_many("mails", [(b"", server.now + MINUTE)] * 3)
    worker = await inbox.works("mails", "calls")
    await server.advance(minutes=2)
    instance = (await client.overview()).instances[0]
    assert instance.worker_count == 1
    shown = instance.workers[0]
    assert (shown.namespace, sorted(shown.queues), shown.queue_count) == ("default", ["calls", "mails"], 2)
    assert shown.settled == 3
    assert shown.connect_time.ToDatetime() < shown.last_settle_time.ToDatetime()
    await worker.kill()
    await server.advance(seconds=2)
    assert not (await client.overview()).instances[0].workers


async def test_load_is_told_minute_by_minute_of_one_queue_or_of_all(server: Server, client: Client) -> None:
    start = server.now
    for queue, tasks in (("mails", 3), ("calls", 2)):
        await client.schedule_many(queue, [(b"", start + 5 * MINUTE)] * tasks)
    await client.schedule("mails", b"", at=start + 59 * MINUTE)
    await client.schedule("mails", b"", at=start + 60 * MINUTE)
    everything, mails = await client.load(), await client.load("mails")
    assert datetime_of_ms(everything.start_time.ToMilliseconds()) == start
    assert len(everything.tasks) == 60
    assert {n: tasks for n, tasks in enumerate(everything.tasks) if tasks} == {5: 5, 59: 1}
    assert {n: tasks for n, tasks in enumerate(mails.tasks) if tasks} == {5: 3, 59: 1}
    later = await client.load("mails", start=start + 60 * MINUTE, end=start + 62 * MINUTE)
    assert list(later.tasks) == [1, 0]


async def test_a_range_that_is_empty_or_too_long_is_refused(server: Server, client: Client) -> None:
    for end in (server.now, server.now + timedelta(days=1, minutes=1)):
        with pytest.raises(InvalidTask, match="ends after its start, and a day after it at most"):
            await client.load(start=server.now, end=end)


async def test_the_load_of_another_namespace_is_not_told(server: Server, client: Client) -> None:
    await client.schedule("mails", b"", delay=MINUTE)
    other = server.client(namespace="other")
    assert not any((await other.load()).tasks)


async def test_what_a_server_gives_itself_is_not_shown(server: Server, client: Client) -> None:
    """Its canary, and the ticks of its schedules; what these create is."""
    await client.schedules.create("nightly", cron="* * * * *", queue="mails")
    await server.advance(minutes=3)
    found = await client.overview()
    # Each of its tasks is worth something until the next one.
    assert [(queue.namespace, queue.queue, queue.due) for queue in found.queues] == [("default", "mails", 1)]


async def test_estimates_of_many_queues_are_read_in_turn(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So an answer costs the same however many there are. Until then it says what the counters know."""
    monkeypatch.setattr(overview, "MOST_ROWS_READ", 1)
    ids = {queue: [(await client.schedule(queue, b"x", delay=3_600)).id for _ in range(3)] for queue in "ab"}

    async def pending() -> list[int]:
        return [queue.pending for queue in (await client.overview()).queues]

    assert await pending() == [3, 3]
    for queue in "ab":
        await client.cancel(ids[queue][0])
    await server.advance(seconds=2)
    assert await pending() == [3, 2]
    await server.advance(seconds=29)
    assert await pending() == [2, 2]
