"""Looking at many tasks: list, count and purge by due time, queue, state and label."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import CancelOutcome, Client, RetryPolicy, TaskInfo, TaskState
from timerd.model.partition import Partition
from timerd.model.storage import Found, Stretch
from timerd.sdk.values.times import instant_ms
from timerd.services.engine.verbs import Cursor, Query
from timerd.testing import Server
from timerd.worker import Delivery

HOUR = timedelta(hours=1)


async def plan(server: Server, client: Client) -> None:
    """Sixty mails and thirty calls, a minute apart; every third one is of acme."""
    start = server.now
    for queue, count in (("mails", 60), ("calls", 30)):
        for tenant in ("acme", "other", "third"):
            which = range(("acme", "other", "third").index(tenant), count, 3)
            items = [(b"%d" % n, start + timedelta(minutes=n + 1)) for n in which]
            await client.schedule_many(queue, items, labels={"tenant": tenant})


async def test_list_is_in_the_order_of_fire_times(server: Server, client: Client) -> None:
    """Each task once, oldest first, whatever the size of the pages."""
    await plan(server, client)
    start = server.now
    for page_size in (0, 7):
        listed = client.list(start=start, end=start + 2 * HOUR, queue="mails", page_size=page_size)
        found = [task async for task in listed]
        assert [task.fire_time for task in found] == [start + timedelta(minutes=n + 1) for n in range(60)]
        assert len({task.id for task in found}) == 60


async def test_every_argument_of_list_count_and_purge_may_be_left_out(server: Server, client: Client) -> None:
    """Without a range it is about all tasks of the namespace."""
    await plan(server, client)
    assert len([task async for task in client.list()]) == 90
    assert len([task async for task in client.list(start=server.now + timedelta(minutes=30))]) == 32
    assert len([task async for task in client.list(end=server.now + timedelta(minutes=10))]) == 18
    assert await client.count(labels={"tenant": "acme"}) == 30
    assert await client.purge() == 90
    assert await client.purge(queue="calls", force=True) == 30
    assert len([task async for task in client.list()]) == 60
    assert [letter async for letter in client.dead_letters()] == []


async def test_list_shows_what_was_asked_for(server: Server, client: Client) -> None:
    """Filters by range (end exclusive), queue and label; payloads on request."""
    await plan(server, client)
    start = server.now
    found = [
        task
        async for task in client.list(
            start=start + timedelta(minutes=10),
            end=start + timedelta(minutes=20),
            queue="calls",
            labels={"tenant": "acme"},
            include_payload=True,
        )
    ]
    assert [task.payload for task in found] == [b"9", b"12", b"15", b"18"]
    assert {task.queue for task in found} == {"calls"}


async def test_count_by_state(server: Server, client: Client, inbox: Inbox) -> None:
    """After half an hour of work the states add up; without a range the count is an estimate."""
    await plan(server, client)
    start = server.now
    await server.advance(seconds=10)
    assert await client.count(queue="mails") == 60
    await inbox.works("mails", "calls")
    await server.advance(minutes=20)

    async def count(*states: TaskState) -> int:
        return await client.count(start=start, end=start + 2 * HOUR, states=states)

    assert await count() == 50
    assert await count(TaskState.ACKED) == 40
    assert await count(TaskState.PENDING) == 50
    assert await count(TaskState.ACKED, TaskState.PENDING) == 90
    assert await client.count(start=start, end=start + 2 * HOUR, queue="calls", states=[TaskState.PENDING]) == 10


async def test_the_estimate_follows_at_once_and_leaves_out_what_was_cancelled(server: Server, client: Client) -> None:
    """Before anything of it is written, and after."""
    await plan(server, client)
    kept = await client.schedule_many("mails", [(b"x", 7200)] * 10)
    assert [await client.count(queue=queue) for queue in ("mails", "calls", "", "none")] == [70, 30, 100, 0]
    await server.advance(seconds=30)
    assert await client.count(queue="mails") == 70
    await client.cancel_many([task.id for task in kept[:4]])
    start, end = server.now, server.now + HOUR
    assert await client.purge(start=start, end=end, queue="mails", labels={"tenant": "acme"}, force=True) == 20
    for _ in range(2):
        counted = await client.count(queue="mails")
        assert (counted, counted.estimated) == (46, True)
        await server.advance(seconds=15)
    assert str(counted) == "about 46"
    assert await client.cancel_many([kept[0].id]) == [CancelOutcome.ALREADY_CANCELLED]
    assert await client.count(queue="mails") == 46


async def test_list_shows_a_moved_task_where_it_lives(server: Server, client: Client) -> None:
    """Once, at its new time."""
    task = await client.schedule("mails", b"x", delay=600)
    wanted = server.now + 5 * HOUR
    await client.reschedule(task.id, at=wanted)
    found = [t async for t in client.list(start=server.now, end=server.now + 10 * HOUR)]
    assert [(t.id, t.fire_time) for t in found] == [(task.id, wanted)]
    assert await client.count(start=server.now, end=server.now + HOUR) == 0


async def test_count_is_what_list_shows(server: Server, client: Client) -> None:
    """Where nothing has happened, rows are counted without a look at each; where some were cancelled or moved away or
    in, or not all states are wanted, one by one. In parts of buckets as well."""
    await plan(server, client)
    start, minute = server.now, timedelta(minutes=1)
    found = [task async for task in client.list(start=start, end=start + HOUR, queue="mails")]
    await client.cancel_many([task.id for task in found[21:24]])
    await client.reschedule(found[31].id, at=start + 42.5 * minute)
    for begin, end, count in ((7, 14, 7), (7, 27, 17), (30, 36, 5), (41, 47, 7), (0, 90, 57), (50, 90, 11)):
        span: dict[str, Any] = {"start": start + begin * minute, "end": start + end * minute, "queue": "mails"}
        assert await client.count(**span) == count == len([task async for task in client.list(**span)])
        assert await client.count(**span, states=[TaskState.PENDING]) == count
        assert await client.count(**span, states=[TaskState.RETRYING]) == 0
    assert await client.count(start=start, end=start + HOUR, labels={"tenant": "acme"}) == 29


async def test_late_and_retried_tasks_are_found_by_their_due_time(server: Server, client: Client, inbox: Inbox) -> None:
    """A task for the past is due when it was stored, a failed one at its next attempt: so they are listed, counted and
    purged, in this order, whatever their fire times are."""

    async def fails(_: Delivery) -> None:
        raise RuntimeError("not now")

    async def listed(start: int, end: int) -> list[TaskInfo]:
        first = server.now
        found = client.list(start=first + start * HOUR, end=first + end * HOUR)
        return [task async for task in found]

    inbox.after = fails
    await inbox.works("retried")
    stored = server.now
    late = await client.schedule("nobody", b"late", at=stored - 5 * HOUR)
    plain = await client.schedule("nobody", b"plain", at=stored + HOUR)
    moved = await client.schedule("nobody", b"moved", delay=9 * 3600)
    retried = await client.schedule("retried", b"x", at=stored, retry=RetryPolicy(initial_backoff=7200, jitter=0))
    await server.settle()
    await client.reschedule(moved.id, at=stored - 9 * HOUR)
    found = await listed(0, 3)
    assert {task.id for task in found} == {late.id, plain.id, moved.id, retried.id}
    assert found == sorted(found, key=lambda task: task.due_time)
    due = {task.id: task.due_time for task in found}
    assert due == {late.id: stored, moved.id: stored, plain.id: stored + HOUR, retried.id: stored + 2 * HOUR}
    assert [task.id for task in await listed(2, 3)] == [retried.id]
    assert await client.count(start=stored + HOUR, end=stored + 2 * HOUR) == 1
    assert await listed(-10, 0) == []
    assert {task: (await client.get(task)).due_time for task in due} == due
    assert (await client.get(late.id)).fire_time == stored - 5 * HOUR
    assert await client.purge(start=stored, end=stored + HOUR, force=True) == 2


async def test_purge_removes_what_the_filter_names(server: Server, client: Client, inbox: Inbox) -> None:
    """A dry run says how many; with force they never come, and nothing else is touched."""
    await plan(server, client)
    start = server.now
    await server.advance(seconds=30)

    async def purge(*, force: bool) -> int:
        return await client.purge(
            start=start, end=start + 2 * HOUR, queue="mails", labels={"tenant": "acme"}, force=force
        )

    assert await purge(force=False) == 20
    assert await purge(force=True) == 20
    assert await purge(force=True) == 0
    await inbox.works("mails", "calls")
    await server.advance(hours=1)
    assert len(inbox.got) == 70
    assert sum(dict(each.delivery.labels) == {"tenant": "acme"} for each in inbox.got) == 10
    assert await client.count(start=start, end=start + 2 * HOUR, states=[TaskState.PURGED]) == 20
    assert await ledger(server) == {"inserted": 90, "purged": 20, "acked": 70}


async def test_namespaces_do_not_see_each_other(server: Server, client: Client, inbox: Inbox) -> None:
    """The same queue and key in another namespace are another queue and key."""
    other = server.client(namespace="other")
    mine = await client.schedule("mails", b"mine", delay=60, key="k")
    theirs = await other.schedule("mails", b"theirs", delay=60, key="k")
    assert mine.id != theirs.id
    assert (await other.get(key="k")).id == theirs.id
    assert await client.count(start=server.now, end=server.now + HOUR) == 1
    await inbox.works("mails")
    await server.advance(minutes=1)
    assert inbox.payloads == [b"mine"]


async def test_pages_of_one_bucket_are_whole_whatever_their_size(server: Server, client: Client, inbox: Inbox) -> None:
    """Tasks of one instant, some of them ended, some waiting for another attempt: each page goes on after the last."""

    async def fails(delivery: Delivery) -> None:
        if delivery.payload.endswith(b"7"):
            raise RuntimeError("not today")

    inbox.after = fails
    await inbox.works("mails")
    at = server.now + timedelta(minutes=1)
    await client.schedule_many("mails", [(b"%d" % n, at) for n in range(30)], retry=RetryPolicy(initial_backoff=60))
    await server.advance(minutes=1)
    waiting = await client.schedule_many("mails", [(b"new %d" % n, at + HOUR) for n in range(200)])
    for page_size in (5, 70, 1_000):
        listed = client.list(start=at, end=at + 2 * HOUR, include_payload=True, page_size=page_size)
        found = [task async for task in listed]
        assert {task.payload for task in found[:3]} == {b"7", b"17", b"27"}
        assert sorted(task.id for task in found[3:]) == sorted(task.id for task in waiting)
        assert {task.payload for task in found[3:]} == {b"new %d" % n for n in range(200)}


async def test_payloads_are_read_only_of_what_is_shown(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large the bucket: its keys are read, and the payloads of one page."""
    at = server.now + HOUR
    await client.schedule_many("mails", [(b"%d" % n * 1_000, at) for n in range(100)])
    store = server.node.store
    stretch, find = store.stretch, store.find
    read_bytes: list[int] = []
    found: list[int] = []

    async def watched_stretch(*args: Any) -> Stretch:  # noqa: ANN401
        read = await stretch(*args)
        read_bytes.append(len(read.rows.payloads))
        return read

    async def watched_find(partition: Partition, keys: Sequence[tuple[int, bytes]]) -> Sequence[Found]:
        found.append(len(keys))
        return await find(partition, keys)

    monkeypatch.setattr(store, "stretch", watched_stretch)
    monkeypatch.setattr(store, "find", watched_find)
    listed = client.list(start=at, end=at + HOUR, include_payload=True, page_size=10)
    assert len({task.payload async for task in listed}) == 100
    assert set(read_bytes) == {0}
    assert set(found) == {10}


@pytest.mark.parametrize("verb", ["list", "count", "purge"])
async def test_what_a_page_reads_does_not_grow_with_the_bucket(server: Server, verb: str) -> None:
    """Be they of one instant or of all of the bucket, and whatever the other pages held."""
    store, engine = server.node.store, server.node.engine
    stretch, reads = store.stretch, [0]

    async def watched(*args: Any) -> Stretch:  # noqa: ANN401
        read = await stretch(*args)
        reads[-1] += len(read.rows)
        return read

    async def page(query: Query, after: Cursor | None) -> Cursor | None:
        reads.append(0)
        if verb == "list":
            return (await engine.list(query, after, 50, 10_000, payload=False)).cursor
        if verb == "count":
            return (await engine.count(query, after, 50))[1]
        return (await engine.purge(query, after, 50))[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "stretch", watched)
        for hours, count in ((1, 200), (3, 2_000)):
            at = server.now + timedelta(hours=hours)
            times = [at + timedelta(milliseconds=n % 7 * 20_000) for n in range(count)]
            await server.client().schedule_many("mails", [(b"x", each) for each in times])
            lo_ms = instant_ms(at, "at")
            query, cursor = Query("default", lo_ms, lo_ms + 300_000), None
            while (cursor := await page(query, cursor)) is not None:
                pass
            assert max(reads) <= 100
            assert sum(reads) >= count
            reads = [0]


async def test_a_page_of_a_queue_among_others_is_short_and_says_where_to_go_on(server: Server, client: Client) -> None:
    """Rows of others are looked at as well, and count."""
    at = server.now + HOUR
    await client.schedule_many("others", [(b"x", at + timedelta(milliseconds=n)) for n in range(1_000)])
    wanted = await client.schedule("mails", b"x", at=at + timedelta(seconds=2))
    lo_ms = instant_ms(at, "at")
    query, cursor, pages, found = Query("default", lo_ms, lo_ms + 60_000, "mails"), None, 0, 0
    while pages == 0 or cursor is not None:
        views = await server.node.engine.list(query, cursor, 100, 100, payload=False)
        cursor, pages, found = views.cursor, pages + 1, found + len(views.views)
        assert cursor is None or views.scanned_through_ms == cursor.position_ms
    assert (pages, found) == (11, 1)
    listed = client.list(start=at, end=at + HOUR, queue="mails")
    assert [task.id async for task in listed] == [wanted.id]
