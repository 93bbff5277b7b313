"""Ended tasks keep their outcome for history_retention; then their bucket is dropped as a whole."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import CancelOutcome, Client, TaskState
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.testing import Server
from timerd.worker import Delivery, Reject, Retry


@pytest.mark.parametrize("kind", ["memory", "disk"])
async def test_a_finished_bucket_is_dropped_after_a_day(kind: str, tmp_path: Path) -> None:
    """Twenty-three hours later the outcome is known and the rows are stored; two days later both are gone."""
    async with Server(data=tmp_path / "data" if kind == "disk" else None) as server:
        client, inbox = server.client(), Inbox(server)
        await inbox.works("mails")
        task = await client.schedule("mails", b"x" * 1000, delay=60)
        store = server.node.store
        home = (await _entries(server))[0]
        await server.advance(hours=23)
        assert (await client.get(task.id)).state is TaskState.ACKED
        assert await client.cancel(task.id) is CancelOutcome.ALREADY_FIRED
        assert len((await store.scan(home, home.bucket_ms, home.end_ms, 0, 1 << 20)).groups) == 1
        await server.advance(hours=25)
        assert (await client.get(task.id)).state is TaskState.FINISHED
        assert await client.cancel(task.id) is CancelOutcome.FINISHED
        page = await store.scan(home, home.bucket_ms, home.end_ms, 0, 1 << 20)
        assert (page.groups, page.marks, await store.settled(home)) == ([], [], [])
        assert inbox.payloads == [b"x" * 1000]


async def test_a_task_far_ahead_is_not_touched_by_it(server: Server, client: Client, inbox: Inbox) -> None:
    """Months later it comes at its instant."""
    await inbox.works("mails")
    at = server.now + timedelta(days=40)
    await client.schedule("mails", b"x", at=at)
    await server.advance(days=41)
    assert (inbox.payloads, inbox.times) == ([b"x"], [at])


async def test_retries_that_go_on_for_days_are_found_by_the_old_id(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """The bucket that the id names is dropped after a day; the task goes on, is shown, moved and cancelled."""

    async def fails(_: Delivery) -> None:
        raise Retry(5 * 3600)

    inbox.after = fails
    await inbox.works("mails")
    tasks = [await client.schedule("mails", b"%d" % n, delay=60) for n in range(3)]
    await server.advance(days=3, hours=1)
    seen = await client.get(tasks[0].id)
    assert (seen.state, seen.payload, seen.attempt) == (TaskState.RETRYING, b"0", 15)
    assert await client.cancel(tasks[0].id) is CancelOutcome.CANCELLED
    assert (await client.get(tasks[0].id)).state is TaskState.CANCELLED
    moved = await client.reschedule(tasks[1].id, delay=86_400)
    inbox.after = None
    inbox.got.clear()
    await server.advance(days=2)
    assert [(each.payload, each.at) for each in inbox.got[1:]] == [(b"1", moved)]
    assert inbox.payloads[0] == b"2"
    states = [(await client.get(task.id)).state for task in tasks]
    assert states == [TaskState.FINISHED, TaskState.ACKED, TaskState.FINISHED]


async def test_a_retry_that_nobody_takes_for_days_is_found_by_the_old_id(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """It waits in the backlog of its queue, which has no place in the id."""

    async def fails(_: Delivery) -> None:
        raise Retry(600)

    inbox.after = fails
    worker = await inbox.works("mails")
    tasks = [await client.schedule("mails", b"%d" % n, delay=60) for n in range(2)]
    await server.advance(minutes=2)
    await worker.stop()
    await server.advance(days=5)
    seen = await client.get(tasks[0].id)
    assert (seen.state, seen.attempt) == (TaskState.RETRYING, 1)
    assert await client.cancel(tasks[0].id) is CancelOutcome.CANCELLED
    inbox.after = None
    await inbox.works("mails")
    await server.advance(minutes=1)
    assert (inbox.payloads[2:], inbox.attempts[2:]) == ([b"1"], [2])
    assert (await client.get(tasks[1].id)).state is TaskState.ACKED


async def test_what_was_moved_before_a_long_outage_comes_once(tmp_path: Path) -> None:
    """Both its rows are due when the server comes back, days after a finished move is forgotten; their outcomes are
    kept for a day from then."""
    async with Server(data=tmp_path / "data") as server:
        client, inbox = server.client(), Inbox(server)
        tasks = [await client.schedule("mails", b"%d" % n, delay=3600 * (n + 1)) for n in range(4)]
        for task in tasks:
            await client.reschedule(task.id, delay=7200)
        await server.stop()
        await server.advance(days=5)
        await server.start()
        await inbox.works("mails")
        await server.advance(hours=20)
        assert sorted(inbox.payloads) == [b"0", b"1", b"2", b"3"]
        assert [(await client.get(task.id)).state for task in tasks] == [TaskState.ACKED] * 4


async def test_what_was_moved_out_of_a_backlog_comes_once_however_late_a_worker_comes(tmp_path: Path) -> None:
    """The row that it left still lies in the backlog when the move is long over."""
    async with Server(data=tmp_path / "data") as server:
        client, inbox = server.client(), Inbox(server)
        tasks = [await client.schedule("mails", b"%d" % n, delay=60) for n in range(4)]
        await server.advance(hours=1)
        for task in tasks:
            await client.reschedule(task.id, delay=7200)
        await server.advance(days=4)
        await inbox.works("mails")
        await server.advance(hours=1)
        assert sorted(inbox.payloads) == [b"0", b"1", b"2", b"3"]


async def test_a_dead_letter_is_redriven_long_after_its_bucket_was_dropped(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Somebody looks at the dead letters after the holidays; the task lives again, once, under its old id."""

    async def rejects(_: Delivery) -> None:
        raise Reject("no such customer")

    inbox.after = rejects
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60, labels={"tenant": "acme"}, key="order 7")
    await server.advance(days=10)
    inbox.after = None
    inbox.got.clear()
    assert await client.redrive([task.id]) == 1
    await server.settle()
    assert await client.redrive([task.id]) == 0
    await server.advance(hours=1)
    [got] = [each.delivery for each in inbox.got]
    assert (got.payload, got.attempt, got.task_id, got.labels) == (b"x", 1, task.id, {"tenant": "acme"})
    assert (await client.get(task.id)).state is TaskState.ACKED


async def _entries(server: Server) -> list[Partition]:
    entries = await server.node.store.catalogue(TIME_SCOPE, 0, 1 << 60)
    return [Partition(entry.scope, entry.bucket_ms, 0) for entry in entries]
