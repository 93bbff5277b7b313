"""Many tasks in columns, each with an ordering key and a limit key of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import Client, InvalidTask
from timerd.testing import Server
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1.timer_service_pb2_grpc import TimerServiceStub


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(data=tmp_path / "data") as running:
        yield running


def at_ms(server: Server, count: int) -> Sequence[int]:
    return [int(server.now.timestamp() * 1_000) + 60_000] * count


async def test_each_task_has_its_keys_through_a_restart(server: Server, client: Client, inbox: Inbox) -> None:
    """None is that of the call. Tasks of one key come one at a time, those of others and of none beside them."""
    orders = ["a", "b", "a", None, "b", "a"]
    customers = [None, "acme", "acme", "initech", "initech", "acme"]
    tasks = await client.schedule_columns(
        "docs",
        [b"%d" % n for n in range(6)],
        at_ms(server, 6),
        ordering_keys=orders,
        limit_keys=customers,
        limit_key="other",
        labels={"from": "file"},
    )
    await server.restart()
    shown = [await client.get(task.id) for task in tasks]
    assert [each.ordering_key or None for each in shown] == orders
    assert [each.limit_key for each in shown] == [each or "other" for each in customers]
    assert {each.labels["from"] for each in shown} == {"file"}
    await inbox.works("docs")
    await server.advance(minutes=2)
    assert {each.delivery.payload: each.delivery.ordering_key for each in inbox.got} == {
        b"%d" % n: key or "" for n, key in enumerate(orders)
    }
    for key in "ab":
        assert [each.payload for each in inbox.got if each.delivery.ordering_key == key] == [
            b"%d" % n for n, each in enumerate(orders) if each == key
        ]
    await ledger(server)


async def test_columns_of_more_than_a_message(server: Server, client: Client) -> None:
    count = 2_500
    names = [f"doc-{n % 7}" if n % 3 else None for n in range(count)]
    tasks = await client.schedule_columns("docs", [b""] * count, at_ms(server, count), ordering_keys=names)
    for n in (0, 1, 999, 1_000, 1_001, 2_499):
        assert (await client.get(tasks[n].id)).ordering_key == (names[n] or "")


async def test_a_repeat_of_a_message_is_known_by_its_keys_too(server: Server, client: Client) -> None:
    await client.server_info()
    stub = TimerServiceStub(client._channel)

    async def stored(*keys: str, of: Sequence[int] = (1, 0)) -> str:
        columns = pb.TaskColumns(delay_ms=[60_000] * 2, ordering_keys=keys, ordering_key_of=of)
        request = pb.ScheduleBatchRequest(request_id="once", columns=columns)
        request.template.queue = "docs"
        reply: pb.ScheduleBatchResponse = await stub.ScheduleBatch(request)
        return reply.placement.prefix.hex()

    first = await stored("a")
    assert await stored("a") == first
    assert len({first, await stored("b"), await stored("a", of=(1, 1))}) == 3


async def test_wrong_columns_are_refused_before_anything_is_stored(server: Server, client: Client) -> None:
    async def schedule(**columns: Any) -> None:  # noqa: ANN401 - of several kinds
        await client.schedule_columns("docs", [b"x", b"y"], at_ms(server, 2), **columns)

    with pytest.raises(InvalidTask, match="`ordering_keys` has 1 entries and `payloads` has 2"):
        await schedule(ordering_keys=["a"])
    with pytest.raises(InvalidTask, match="`limit_keys` must be texts or None, not 7") as number:
        await schedule(limit_keys=["a", 7])
    assert number.value.item == 1
    with pytest.raises(InvalidTask, match="`ordering_keys` must be a list"):
        await schedule(ordering_keys="ab")
    with pytest.raises(InvalidTask, match="ordering_key has 300 characters"):
        await schedule(ordering_keys=["a", "b" * 300])
    stub = TimerServiceStub(client._channel)
    for columns, says in (
        (pb.TaskColumns(ordering_keys=["a"], ordering_key_of=[1]), "There are 1 ordering_key_of for 2 tasks"),
        (pb.TaskColumns(limit_keys=["a"], limit_key_of=[1, 2]), "limit_key_of names the place 2, and limit_keys has 1"),
    ):
        columns.delay_ms.extend([60_000] * 2)
        request = pb.ScheduleBatchRequest(columns=columns)
        request.template.queue = "docs"
        with pytest.raises(Exception, match=says):
            await stub.ScheduleBatch(request)
    assert not [task async for task in client.list(queue="docs")]


async def test_how_long_a_result_is_kept_is_shown(client: Client) -> None:
    kept = await client.schedule("sums", b"1", delay=60, keep_result=90)
    plain = await client.schedule("sums", b"1", delay=60)
    span = (await client.get(kept.id)).keep_result
    assert span is not None
    assert span.total_seconds() == 90
    assert (await client.get(plain.id)).keep_result is None
    listed = [task async for task in client.list(queue="sums")]
    assert {each.id: each.keep_result for each in listed} == {kept.id: span, plain.id: None}


async def test_keys_of_no_tasks_are_no_tasks(client: Client) -> None:
    await client.server_info()
    request = pb.ScheduleBatchRequest(columns=pb.TaskColumns(ordering_keys=["a"], limit_keys=["b"]))
    request.template.queue = "docs"
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await TimerServiceStub(client._channel).ScheduleBatch(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
