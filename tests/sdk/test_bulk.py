"""Many tasks at once: the columns form, bounded messages, the order of the items, and honest partial failure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.sdk.fake_server import FakeServer, split_payloads
from timerd import Client
from timerd.client import InvalidTask, Item, ItemOutcome, PartlyStored
from timerd.sdk.values.times import instant_ms
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

SOON = datetime.now(UTC) + timedelta(minutes=5)


async def test_tasks_come_back_in_the_order_of_the_items(client: Client, server: FakeServer) -> None:
    moments = [SOON + timedelta(seconds=7 * n) for n in range(2500)]
    tasks = await client.schedule_many("q", ((f"{n}", moment) for n, moment in enumerate(moments)))
    assert [task.fire_at_ms for task in tasks] == list(map(instant_ms, moments))
    assert len({task.id for task in tasks}) == 2500
    sizes = [len(request.schedule.columns.fire_at_ms) for request in server.timers.requests()]
    assert sizes == [1000, 1000, 500]
    assert server.timers.payloads == [str(n).encode() for n in range(2500)]


async def test_each_message_has_a_request_id_of_its_own(client: Client, server: FakeServer) -> None:
    await client.schedule_many("q", [(b"x", 1.0)] * 3000)
    assert len({request.schedule.request_id for request in server.timers.requests()}) == 3


async def test_payloads_of_one_length_say_it_once(client: Client, server: FakeServer) -> None:
    await client.schedule_many("q", [(b"ab", SOON)] * 10)
    await client.schedule_many("q", [(b"a" * n, SOON) for n in range(3)])
    same, different = (list(request.schedule.columns.payload_lengths) for request in server.timers.requests())
    assert (same, different) == ([2], [0, 1, 2])


async def test_messages_stay_below_a_mebibyte_or_hold_one_task(client: Client, server: FakeServer) -> None:
    payloads = [bytes(300_000), bytes(300_000), bytes(300_000), bytes(300_000), bytes(1_000_000), b"small"]
    await client.schedule_many("q", [(payload, SOON) for payload in payloads])
    sizes = [len(request.schedule.columns.fire_at_ms) for request in server.timers.requests()]
    assert sizes == [3, 1, 1, 1]
    assert all(len(data) < 1 << 20 for data in server.timers.received)


async def test_plain_items_use_the_columns_and_special_ones_the_items_form(client: Client, server: FakeServer) -> None:
    plain = [Item("a", at=SOON), Item("b", at=SOON)]
    special = [Item("c", at=SOON, key="k"), Item("d", at=SOON, labels={"x": "y"}), Item("e", at=SOON)]
    await client.schedule_many("q", plain, priority=2)
    tasks = await client.schedule_many("q", special, priority=2)
    columns, items = (request.schedule for request in server.timers.requests())
    assert split_payloads(columns.columns) == [b"a", b"b"]
    keyed, labelled, ordinary = items.items.items
    assert (keyed.key, keyed.HasField("template")) == ("k", False)
    assert (dict(labelled.template.labels), labelled.template.priority, labelled.template.queue) == ({"x": "y"}, 2, "q")
    assert not ordinary.HasField("template")
    assert [task.key for task in tasks] == ["k", "", ""]


async def test_instants_and_delays_may_be_mixed(client: Client, server: FakeServer) -> None:
    await client.schedule_many("q", [("a", SOON), ("b", 5), ("c", timedelta(seconds=6))])
    request = server.timers.requests()[0].schedule
    assert [item.WhichOneof("due") for item in request.items.items] == ["fire_time", "delay", "delay"]
    assert request.HasField("request_time")


async def test_nothing_to_do_is_done_without_a_message(client: Client, server: FakeServer) -> None:
    assert await client.schedule_many("q", []) == []
    assert server.timers.received == []


async def test_progress_is_told(client: Client) -> None:
    seen: list[int] = []
    await client.schedule_many("q", [(b"x", 1)] * 2100, progress=seen.append)
    assert seen == [1000, 2000, 2100]


async def test_a_bad_item_is_named_and_what_went_before_is_told(client: Client) -> None:
    def items() -> Iterator[tuple[str, datetime]]:
        for _ in range(1500):
            yield "x", SOON
        yield "x", datetime(2030, 1, 1)

    with pytest.raises(InvalidTask, match=r"Item 0: .*no time zone"):
        await client.schedule_many("q", [("x", datetime(2030, 1, 1))])
    with pytest.raises(PartlyStored, match=r"1000 of 1000 .*Item 1500: .*no time zone") as partly:
        await client.schedule_many("q", items())
    assert all(task.outcome is ItemOutcome.STORED for task in partly.value.tasks)


async def test_one_bad_task_does_not_stop_the_others(client: Client, server: FakeServer) -> None:
    refused = task_pb2.Problem(code=3, message="Too far ahead.", reason="TOO_FAR")
    server.timers.item_results = {1: pb.ItemResult(outcome=task_pb2.ITEM_OUTCOME_NOT_STORED, problem=refused)}
    with pytest.raises(PartlyStored, match=r"1999 of 2000 .*Item 1: Too far ahead") as partly:
        await client.schedule_many("q", [(b"x", SOON)] * 2000)
    tasks = partly.value.tasks
    assert [index for index, task in enumerate(tasks) if task.outcome is not ItemOutcome.STORED] == [1]
    assert isinstance(tasks[1].error, InvalidTask)
    assert tasks[1].fire_at_ms == instant_ms(SOON)
    assert (partly.value.reason, partly.value.item) == ("TOO_FAR", 1)


async def test_a_refused_message_stops_the_feed(client: Client, server: FakeServer) -> None:
    server.timers.refusals.append(task_pb2.Problem(code=3, message="No such queue name.", reason="INVALID"))
    fed = 0

    def items() -> Iterator[tuple[bytes, datetime]]:
        nonlocal fed
        for number in range(1, 200_001):
            fed = number
            yield b"x", SOON

    with pytest.raises((InvalidTask, PartlyStored), match="No such queue name"):
        await client.schedule_many("q?", items())
    assert fed < 200_000


async def test_a_broken_stream_in_the_middle_stores_nothing_twice(client: Client, server: FakeServer) -> None:
    server.timers.break_after_storing = 1
    tasks = await client.schedule_many("q", [(b"x", SOON)] * 5000)
    assert len(tasks) == 5000
    assert len(server.timers.payloads) == 5000
    assert (await client.schedule("q", "single", at=SOON)).id
