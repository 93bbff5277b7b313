"""Buckets of several shards, one of which grows while it is open: callers and workers see no difference."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from timerd.client import CancelOutcome
from timerd.model.partition import TIME_SCOPE, bucket_of
from timerd.sdk.values.times import instant_ms
from timerd.services.engine.verbs import Query, TaskView
from timerd.testing import Server
from timerd.testing.async_server import CONFIG
from timerd.worker import Delivery

FOUR = replace(CONFIG, shards=4)
TASKS = 60
HOUR = timedelta(hours=1)


async def arrivals(server: Server) -> Counter[bytes]:
    """What a worker gets from now on."""
    found: Counter[bytes] = Counter()
    worker = server.worker()

    @worker.on("mails")
    async def take(delivery: Delivery) -> None:
        found[bytes(delivery.payload)] += 1

    await worker.start()
    return found


async def shard_count(server: Server) -> int:
    """Of the bucket that is open."""
    bucket_ms = bucket_of(instant_ms(server.now, "now"))
    [entry] = await server.node.store.catalogue(TIME_SCOPE, bucket_ms, bucket_ms + 1)
    return entry.shard_count


async def test_every_task_arrives_once_through_growth_and_a_restart() -> None:
    async with Server(config=FOUR) as server:
        found, client = await arrivals(server), server.client()
        tasks = [await client.schedule("mails", b"%d" % n, delay=5 + n) for n in range(TASKS)]
        assert await shard_count(server) == 4
        await server.node.engine.shards.grow(bucket_of(instant_ms(server.now, "now")), 16)
        tasks += [await client.schedule("mails", b"%d" % n, delay=5 + n) for n in range(TASKS, 2 * TASKS)]
        assert await shard_count(server) > 8
        await server.advance(seconds=20)
        await server.restart()
        assert await client.cancel(tasks[70].id) is CancelOutcome.CANCELLED
        await client.reschedule(tasks[-1].id, delay=timedelta(minutes=20))
        await server.advance(minutes=30)
        assert found == Counter({b"%d" % n: 1 for n in range(2 * TASKS) if n != 70})


async def test_a_message_over_a_day_and_a_list_in_the_order_of_time() -> None:
    async with Server(config=FOUR) as server:
        found, client = await arrivals(server), server.client()
        times = [server.now + timedelta(minutes=1 + (n * 37) % 300) for n in range(200)]
        await client.schedule_many("mails", [(b"%d" % n, at) for n, at in enumerate(times)])
        for n in range(TASKS):
            await client.schedule("mails", b"single %d" % n, delay=1 + (n * 37) % TASKS)
        listed = [task async for task in client.list(start=server.now, end=server.now + 6 * HOUR)]
        assert [task.fire_time for task in listed] == sorted(task.fire_time for task in listed)
        assert len({task.id for task in listed}) == 200 + TASKS
        for task in listed[::50]:
            assert (await client.get(task.id)).fire_time == task.fire_time
        await server.advance(hours=6)
        assert set(found.values()) == {1}
        assert len(found) == 200 + TASKS


async def test_pages_over_shards_are_in_order_each_task_once() -> None:
    """Whatever the size of the pages and of what is read for them; counted as they are listed."""
    async with Server(config=FOUR) as server:
        client, start = server.client(), server.now + HOUR
        tasks = []
        for n in range(0, 300, 3):
            items = [(b"%d" % at, start + timedelta(seconds=at * 7 % 40)) for at in range(n, n + 3)]
            tasks += await client.schedule_many("mails", items)
        await client.cancel_many([task.id for task in tasks[::10]])
        lo_ms = instant_ms(start, "start")
        query, engine = Query("default", lo_ms, lo_ms + 60_000), server.node.engine
        for size in (1, 7, 64, 1_000):
            listed: list[TaskView] = []
            counted, cursor, after = 0, None, None
            while True:
                views = await engine.list(query, cursor, size, 10_000, payload=False)
                assert len(views.views) <= size
                listed += views.views
                if (cursor := views.cursor) is None:
                    break
            while True:
                count, after, _ = await engine.count(query, after, size)
                counted += count
                if after is None:
                    break
            assert len({view.task_id for view in listed}) == len(listed) == counted == 270
            places = [(view.due_at_ms, view.task_id.digest) for view in listed]
            assert places == sorted(places)
