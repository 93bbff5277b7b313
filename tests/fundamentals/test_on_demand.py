"""Tasks on demand: somebody waits for them, so they go before what waits in line, and not for ever."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import Client, InvalidTask, TaskInfo, TaskOptions
from timerd.model.task import Template
from timerd.testing import Cluster, Server
from timerd.worker import Delivery

SOON = TaskOptions(on_demand=True, expire_after=600)


async def test_a_task_on_demand_passes_what_has_waited_for_256_seconds_less(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """And for twice as long as it waits itself: ten seconds here, so 276. A level of priority counts as ever."""
    start = server.now + timedelta(minutes=1)
    for name, before_s, priority in (("old", 278, 0), ("less old", 275, 0), ("urgent", 0, 4), ("new", 0, 0)):
        at = start + timedelta(seconds=300 - before_s)
        await client.schedule("mails", name, at=at, priority=priority)
    await client.schedule("mails", b"on demand", at=start + timedelta(seconds=300), options=SOON)
    await server.advance(seconds=370)
    await inbox.works("mails", concurrency=1)
    await server.settle()
    assert inbox.payloads == [b"old", b"on demand", b"less old", b"urgent", b"new"]


async def test_among_tasks_on_demand_priority_is_worth_a_third_of_the_waiting(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """A level is 1024 points, and each second 48: 21.3 s."""
    start = server.now + timedelta(minutes=1)
    for name, after_s, priority in (("first", 0, 0), ("second", 21, 1), ("third", 22, 1)):
        await client.schedule("mails", name, at=start + timedelta(seconds=after_s), priority=priority, options=SOON)
    await server.advance(seconds=90)
    await inbox.works("mails", concurrency=1)
    await server.settle()
    assert inbox.payloads == [b"second", b"first", b"third"]


@pytest.mark.parametrize("expire_after", [None, 600.001])
async def test_it_is_worth_something_for_ten_minutes_at_most(client: Client, expire_after: float | None) -> None:
    """Else a stream of them could keep back for ever what waits in line (rule A7)."""
    with pytest.raises(InvalidTask) as refused:
        await client.schedule("mails", b"x", delay=1, on_demand=True, expire_after=expire_after)
    assert refused.value.field == "template.on_demand"
    assert str(refused.value).startswith("A task on demand goes before those that wait in line, so it may be worth")


async def test_it_is_shown_and_stays_so_when_it_is_moved(server: Server, client: Client) -> None:
    task = await client.schedule("mails", b"x", delay=1, options=SOON)
    await client.reschedule(task.id, delay=30)
    assert (await client.get(task.id)).on_demand
    assert not (await client.get((await client.schedule("mails", b"x", delay=1)).id)).on_demand


async def test_yes_and_no_are_all_that_it_may_be(client: Client) -> None:
    wrong: Any = "no"
    with pytest.raises(InvalidTask, match="give True or False"):
        await client.schedule("mails", b"x", delay=1, on_demand=wrong, expire_after=60)


async def test_a_call_is_answered_before_a_thousand_tasks_that_wait_in_line(server: Server, client: Client) -> None:
    begun = list[bytes]()
    worker = server.worker()

    @worker.on("sums", concurrency=1)
    async def add(delivery: Delivery) -> bytes:
        begun.append(delivery.payload)
        await server.sleep(seconds=1)
        return b"the sum"

    await client.schedule_many("sums", [(b"in line", 1)] * 1_000)
    await server.advance(seconds=10)
    await worker.start()
    await server.advance(seconds=10)
    assert begun[-1] == b"in line"
    calling = asyncio.create_task(client.call("sums", b"called", timeout=60))
    await server.advance(seconds=10)
    assert await calling == b"the sum"
    assert len(begun) < 30


@pytest.mark.parametrize(("useful_s", "is_on_demand"), [(600, True), (600.001, False)])
async def test_a_call_that_may_take_longer_than_ten_minutes_waits_in_line(
    server: Server, client: Client, useful_s: float, is_on_demand: bool
) -> None:
    calling = asyncio.create_task(client.call("nobody", b"called", timeout=useful_s))
    while not server.node.server.api.ends.waiting:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    found: list[TaskInfo] = []
    async with asyncio.timeout(10):
        while not found:
            found = [task async for task in client.list(queue="nobody", start=server.now - timedelta(hours=1))]
    assert [task.on_demand for task in found] == [is_on_demand]
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_in_a_pool_it_is_ahead_of_the_tasks_of_other_queues(server: Server, client: Client) -> None:
    begun = list[str]()
    worker = server.worker()
    pool = worker.pool("convert", slots=1)

    async def convert(delivery: Delivery) -> None:
        begun.append(delivery.payload.decode())
        await server.sleep(seconds=1)

    pool.on("pdf")(convert)
    pool.on("excel")(convert)
    for number in range(3):
        await client.schedule("pdf", f"pdf {number}", delay=1 + number, priority=3)
    await client.schedule("excel", b"excel", delay=9, options=SOON)
    await server.advance(seconds=10)
    await worker.start()
    await server.advance(seconds=10)
    assert begun == ["excel", "pdf 0", "pdf 1", "pdf 2"]


async def test_where_limit_keys_take_turns_it_is_first_of_its_own_key(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """It takes the turn of no other customer."""
    for name in ("acme 0", "acme 1", "globex 0", "globex 1"):
        await client.schedule("mails", name, delay=1, limit_key=name.split()[0])
    await client.schedule("mails", b"acme now", delay=2, options=SOON, limit_key="acme")
    await server.advance(seconds=10)
    await inbox.works("mails", concurrency=1)
    await server.settle()
    order = [payload.decode() for payload in inbox.payloads]
    assert [name for name in order if "acme" in name] == ["acme now", "acme 0", "acme 1"]
    assert order.index("globex 0") < order.index("acme 0")


async def test_it_keeps_to_limits_and_to_a_pause_as_every_other_one(
    server: Server, client: Client, inbox: Inbox
) -> None:
    await client.queues.put("mails", rate="1/s", burst=1)
    await client.schedule_many("mails", [(b"now", 1)] * 5, options=SOON)
    await inbox.works("mails")
    await server.advance(seconds=3.5)
    assert len(inbox.got) == 3
    await client.queues.pause("mails")
    await server.advance(seconds=10)
    assert len(inbox.got) == 3
    await client.queues.resume("mails")
    await server.advance(seconds=10)
    assert len(inbox.got) == 5


async def test_within_an_ordering_key_it_keeps_its_place(server: Server, client: Client, inbox: Inbox) -> None:
    """Between keys it is ahead."""
    inbox.after = lambda _: server.sleep(seconds=1)
    await inbox.works("mails", concurrency=1)
    await client.schedule("mails", b"begun", delay=10)
    await client.schedule("mails", b"first", delay=10.2, ordering_key="doc")
    await client.schedule("mails", b"second", delay=10.3, ordering_key="doc", options=SOON)
    await client.schedule("mails", b"on demand", delay=10.5, ordering_key="doc 2", options=SOON)
    await server.advance(seconds=20)
    assert inbox.payloads == [b"begun", b"on demand", b"first", b"second"]


async def test_another_instance_hears_of_it_while_what_waits_there_has_been_asked_for() -> None:
    """The tasks are of two buckets, and so of two holders; the worker has one slot."""
    async with Cluster("a", "b", "c") as cluster:
        client, begun = cluster.client("a"), list[str]()
        worker = cluster.worker("a")

        @worker.on("mails", concurrency=1)
        async def note(delivery: Delivery) -> None:
            begun.append(delivery.payload.decode())
            await cluster.sleep(seconds=2)

        for delay in (290, 310) * 20:
            await client.schedule("mails", b"in line", delay=delay)
        await cluster.advance(seconds=340)
        await worker.start()
        await cluster.advance(seconds=20)
        assert begun == ["in line"] * len(begun) != []
        await client.schedule("mails", b"on demand", delay=1, options=SOON)
        await cluster.advance(seconds=10)
        assert "on demand" in begun


def test_a_release_that_does_not_know_it_keeps_it_and_delivers_the_task() -> None:
    stored = Template("default", "mails", on_demand=True).to_json()
    older = {"later" if name == "on_demand" else name: value for name, value in stored.items()}
    assert Template.from_json(older).to_json() == older
    assert not Template.from_json(older).lacks
