"""Typed tasks whose arguments are Structs of msgspec."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from enum import Enum

import msgspec
import pytest

from timerd.client import CallFailed, InvalidTask
from timerd.tasks import Tasks
from timerd.testing import Server


class Size(Enum):
    SMALL = "small"


class Address(msgspec.Struct):
    street: str
    since: datetime


class Order(msgspec.Struct, kw_only=True):
    number: int
    size: Size = Size.SMALL
    to: list[Address] = []


ORDER = Order(number=7, to=[Address("Elm Street 1", datetime(2031, 2, 3, tzinfo=UTC))])


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as running:
        yield running


@pytest.fixture
def tasks(server: Server) -> Tasks:
    return Tasks(server.client())


async def test_structs_travel_alone_and_within_others(server: Server, tasks: Tasks) -> None:
    got: list[tuple[object, ...]] = []

    @tasks.task("orders")
    async def ship(order: Order, more: list[Order], by_name: dict[str, Order], maybe: Order | None = None) -> None:
        got.append((order, more, by_name, maybe))

    worker = server.worker()
    worker.include(tasks)
    await worker.start()
    await ship.schedule(ORDER, [ORDER], {"first": ORDER}, maybe=ORDER, delay=1)
    await ship.schedule(ORDER, [], {}, delay=2)
    await server.advance(seconds=5)
    assert got == [(ORDER, [ORDER], {"first": ORDER}, ORDER), (ORDER, [], {}, None)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Order(number="seven"), "Expected `int`, got `str` - at `$.number`"),  # type: ignore[arg-type]
        ({"number": 7, "size": "of my secret"}, "Not a value that it may have - at `$.size`"),
        ({}, "Object missing required field `number`"),
        (object(), "Encoding objects of type object is unsupported"),
    ],
)
async def test_a_struct_is_checked_where_it_is_scheduled(tasks: Tasks, given: object, said: str) -> None:
    @tasks.task("orders")
    async def ship(order: Order) -> None: ...

    with pytest.raises(InvalidTask) as refused:
        await ship.schedule(given, delay=1)
    assert refused.value.field == "order"
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


async def test_a_payload_of_before_is_checked_where_it_is_handled(server: Server, tasks: Tasks) -> None:
    @tasks.task("orders")
    async def ship(order: Order) -> None: ...

    worker = server.worker()
    worker.include(tasks)
    await worker.start()
    await server.client().schedule("orders", b'{"order": {"number": "seven"}}', delay=1)
    await server.advance(seconds=5)
    [dead] = [each async for each in server.client().dead_letters("orders")]
    assert "order: Value error, Expected `int`, got `str`" in dead.last_error


async def test_a_result_may_be_a_struct(server: Server, tasks: Tasks) -> None:
    @tasks.task("orders")
    async def next_order(order: Order) -> Order:
        return Order(number=order.number + 1)

    @tasks.task("orders")
    async def nothing_of_json(order: Order) -> object:
        return object()

    worker = server.worker()
    worker.include(tasks)
    await worker.start()
    assert await next_order.call(ORDER) == Order(number=8)
    with pytest.raises(CallFailed, match="object is no type of JSON"):
        await nothing_of_json.call(ORDER)
