"""A queue that nobody works: its tasks wait without costing anybody anything, and come in order when a worker does."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import CancelOutcome, Client, TaskState
from timerd.model.partition import TIME_SCOPE
from timerd.testing import Server


async def pile_up(server: Server, client: Client, count: int = 200) -> list[datetime]:
    """Tasks over two hours, that nobody takes, in an order that is not theirs."""
    start = server.now
    times = [start + timedelta(seconds=36 * n) for n in range(1, count + 1)]
    order = sorted(range(count), key=lambda n: (n * 7919) % 1009)
    await client.schedule_many("mails", [(b"%d" % n, times[n]) for n in order])
    return times


async def test_it_is_delivered_in_order_when_a_worker_comes(server: Server, client: Client, inbox: Inbox) -> None:
    """Hours late, but every task once and in the order of its time."""
    times = await pile_up(server, client)
    await server.advance(hours=6)
    await inbox.works("mails", concurrency=1)
    await server.advance(minutes=1)
    assert inbox.payloads == [b"%d" % n for n in range(200)]
    assert [each.delivery.fire_time for each in inbox.got] == times
    counts = await ledger(server)
    assert (counts["acked"], counts["inserted"]) == (200, 200 + counts["carried"])


async def test_it_costs_no_memory_and_no_open_bucket(server: Server, client: Client) -> None:
    """Ten minutes after its end a bucket is finished: what nobody took is parked in the queue's backlog."""
    await pile_up(server, client)
    await server.advance(hours=3)
    scheduler = server.node.scheduler
    assert list(scheduler.machines) == []
    assert scheduler.memory.used_bytes == 0
    entries = await server.node.store.catalogue(TIME_SCOPE, 0, 1 << 60)
    assert entries
    assert all(entry.finished for entry in entries)


async def test_another_queue_never_notices(server: Server, client: Client, inbox: Inbox) -> None:
    """Beside a stuck queue every task of a worked one comes at its instant, also while the backlog is worked off."""
    await pile_up(server, client)
    start = server.now
    await inbox.works("calls")
    await client.schedule_many("calls", [(b"c", start + timedelta(minutes=3 * n)) for n in range(1, 80)])
    await server.advance(hours=3)
    stuck = Inbox(server)
    await stuck.works("mails", concurrency=2)
    await server.advance(hours=1)
    assert inbox.times == [start + timedelta(minutes=3 * n) for n in range(1, 80)]
    assert len(stuck.got) == 200
    await ledger(server)


async def test_fresh_tasks_wait_behind_the_backlog(server: Server, client: Client, inbox: Inbox) -> None:
    """What becomes due while the backlog is worked off comes after what is older."""
    await pile_up(server, client, 60)
    await server.advance(hours=3)
    await client.schedule("mails", b"fresh", delay=0)
    await inbox.works("mails", concurrency=1)
    await server.advance(minutes=1)
    assert inbox.payloads == [*(b"%d" % n for n in range(60)), b"fresh"]


@pytest.mark.parametrize("hours", [0.1, 3])
async def test_a_waiting_task_can_be_cancelled_and_moved(
    server: Server, client: Client, inbox: Inbox, hours: float
) -> None:
    """Due, not taken, parked or not: it is still pending, and both mean what they say."""
    tasks = [await client.schedule("mails", b"%d" % n, delay=60) for n in range(3)]
    await server.advance(hours=hours)
    assert (await client.get(tasks[0].id)).state is TaskState.PENDING
    assert await client.cancel(tasks[0].id) is CancelOutcome.CANCELLED
    later = server.now + timedelta(hours=1)
    await client.reschedule(tasks[1].id, at=later)
    await inbox.works("mails")
    await server.advance(hours=2)
    assert {each.payload: each.at for each in inbox.got} == {b"1": later, b"2": later - timedelta(hours=1)}
    counts = await ledger(server)
    assert (counts["cancelled"], counts["moved"], counts["acked"]) == (1, 1, 2)


async def test_a_worker_that_leaves_and_comes_back(server: Server, client: Client, inbox: Inbox) -> None:
    """What it has not taken waits for the next one; nothing comes twice."""
    await pile_up(server, client)
    for _ in range(5):
        await server.advance(minutes=40)
        worker = await inbox.works("mails")
        await server.advance(minutes=2)
        await worker.stop()
    assert inbox.payloads == [b"%d" % n for n in range(200)]
    counts = await ledger(server)
    assert counts["acked"] == 200
