"""Typed tasks: functions that are called later, with arguments that are checked on both sides."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from timerd.client import CallFailed, Client, InvalidTask, SyncClient, TaskOptions, TaskState
from timerd.sdk.working.handlers import name_of
from timerd.tasks import Tasks
from timerd.testing import Server
from timerd.worker import Delivery, Worker

HOUR = timedelta(hours=1)


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Address:
    street: str
    city: str


class Order(BaseModel):
    number: int
    to: Address


class Foreign:
    """Of which nobody knows how it is written."""


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as running:
        yield running


@pytest.fixture
def client(server: Server) -> Client:
    return server.client()


@pytest.fixture
def tasks(client: Client) -> Tasks:
    return Tasks(client)


async def works(server: Server, tasks: Tasks) -> None:
    worker = server.worker()
    worker.include(tasks)
    await worker.start()


async def test_a_function_is_called_at_its_instant_with_the_arguments_of_before(server: Server, tasks: Tasks) -> None:
    got = []

    @tasks.task("reminders")
    async def remind(user: int, text: str = "tea is ready") -> None:
        got.append((user, text, server.now))

    await works(server, tasks)
    due = server.now + HOUR
    await remind.schedule(user=7, delay=HOUR)
    await remind.schedule(8, "call Ada", at=due)
    await server.advance(minutes=59)
    assert got == []
    await server.advance(minutes=2)
    assert sorted(got) == [(7, "tea is ready", due), (8, "call Ada", due)]


async def test_warnings_name_the_functions_of_a_queue(tasks: Tasks) -> None:
    @tasks.task("mails")
    async def welcome(user: int) -> None: ...

    @tasks.task("mails")
    async def farewell(user: int) -> None: ...

    said = name_of(tasks.handlers(1)["mails"])
    assert said.startswith("tests.tasks.test_typed.")
    assert said.count("welcome") == said.count("farewell") == 1


async def test_it_is_still_the_function(tasks: Tasks) -> None:
    @tasks.task("sums")
    def add(one: int, other: int) -> int:
        """Adds."""
        return one + other

    assert add(2, 3) == 5
    assert add.__doc__ == "Adds."
    assert add.__name__ == "add"


async def test_values_that_json_does_not_know_travel(server: Server, tasks: Tasks) -> None:
    got: list[tuple[object, ...]] = []

    @tasks.task("orders")
    async def ship(order: Order, size: Size, when: datetime, tag: UUID, within: timedelta, to: list[Address]) -> None:
        got.append((order, size, when, tag, within, to))

    await works(server, tasks)
    home = Address("Elm Street 1", "Springwood")
    given = (Order(number=1, to=home), Size.LARGE, datetime(2031, 2, 3, tzinfo=UTC), UUID(int=7), HOUR, [home, home])
    await ship.schedule(*given, delay=1)
    await server.advance(seconds=2)
    assert got == [given]


async def test_several_functions_share_a_queue(server: Server, tasks: Tasks) -> None:
    got = []

    @tasks.task("mails")
    async def welcome(user: int) -> None:
        got.append(("welcome", user))

    @tasks.task("mails", name="bye")
    async def farewell(user: int) -> None:
        got.append(("farewell", user))

    await works(server, tasks)
    await welcome.schedule(1, delay=1)
    await farewell.schedule(2, delay=2)
    await server.advance(seconds=5)
    assert got == [("welcome", 1), ("farewell", 2)]


async def test_a_plain_function_runs_in_a_thread_and_may_take_the_delivery(server: Server, tasks: Tasks) -> None:
    got = []

    @tasks.task("files")
    def export(delivery: Delivery, name: str) -> None:
        got.append((name, delivery.attempt, threading.current_thread() is threading.main_thread()))

    await works(server, tasks)
    await export.schedule(name="all.csv", delay=1)
    await server.advance(seconds=3)
    assert got == [("all.csv", 1, False)]


async def test_many_are_scheduled_at_once(server: Server, tasks: Tasks) -> None:
    got = []

    @tasks.task("reminders")
    async def remind(user: int) -> None:
        got.append(user)

    await works(server, tasks)
    made = await remind.schedule_many([({"user": n}, timedelta(seconds=n)) for n in range(1, 101)])
    assert len(made) == 100
    await server.advance(minutes=2)
    assert got == list(range(1, 101))


async def test_wrong_arguments_are_refused_before_anything_is_stored(
    server: Server, client: Client, tasks: Tasks
) -> None:
    @tasks.task("reminders")
    async def remind(user: int, text: str = "") -> None: ...

    for arguments, field, says in (
        ({"user": "seven"}, "user", "user: Input should be a valid integer"),
        ({}, "user", "user: Field required"),
        ({"user": 7, "texts": "x"}, "arguments", "unexpected keyword argument 'texts'"),
    ):
        with pytest.raises(InvalidTask, match=says) as refused:
            await remind.schedule(**arguments, delay=1)
        assert refused.value.field == field
    with pytest.raises(InvalidTask, match="Input should be a valid integer"):
        await remind.schedule_many([({"user": 1}, 1), ({"user": "x"}, 1)])
    for no_pair in ({"user": 1}, (7, 1), 7):
        with pytest.raises(InvalidTask, match="A call is a pair of the arguments by name and when, not"):
            await remind.schedule_many([no_pair])  # type: ignore[list-item]
    with pytest.raises(InvalidTask, match=r"keyword argument 'priority'\. Give priority as `options=TaskOptions"):
        await remind.schedule(user=7, delay=1, priority=3)
    assert [task async for task in client.list()] == []


async def test_a_payload_that_does_not_fit_is_a_dead_letter_at_once_without_what_it_said(
    server: Server, client: Client, tasks: Tasks
) -> None:
    @tasks.task("reminders")
    async def remind(user: int) -> None: ...

    await works(server, tasks)
    for payload in (b'{"user": "secret"}', b"no JSON", b'{"user": 7, "more": 1}'):
        await client.schedule("reminders", payload, delay=1)
    await server.advance(seconds=3)
    errors = [letter.last_error async for letter in client.dead_letters()]
    assert len(errors) == 3
    assert all("The payload is not what" in error and "secret" not in error for error in errors)


async def test_what_another_program_schedules_is_known_by_its_label_or_is_the_only_task_of_its_queue(
    server: Server, client: Client, tasks: Tasks
) -> None:
    got = []

    @tasks.task("reminders")
    async def remind(user: int) -> None:
        got.append(user)

    await works(server, tasks)
    await client.schedule("reminders", json.dumps({"user": 1}), delay=1)
    await client.schedule("reminders", remind.payload(2), delay=1, labels={"task": "remind"})
    await server.advance(seconds=3)
    assert sorted(got) == [1, 2]


async def test_a_task_that_only_a_newer_worker_knows_waits_for_it(server: Server, client: Client, tasks: Tasks) -> None:
    @tasks.task("reminders")
    async def remind(user: int) -> None: ...

    await works(server, tasks)
    task = await client.schedule("reminders", b"{}", delay=1, labels={"task": "shout"})
    await server.advance(seconds=3)
    found = await client.get(task.id)
    assert found.state is TaskState.RETRYING
    assert "This worker has no task 'shout' for the queue 'reminders': it knows remind." in found.last_error


async def test_keys_and_options_are_those_of_a_client(server: Server, client: Client, tasks: Tasks) -> None:
    @tasks.task("reminders")
    async def remind(user: int) -> None: ...

    await remind.schedule(7, delay=HOUR, key="seven", options=TaskOptions(labels={"tenant": "acme"}, priority=3))
    found = await client.get(key="seven")
    assert (found.labels, found.priority) == ({"tenant": "acme", "task": "remind"}, 3)
    assert found.content_type == "application/json"
    with pytest.raises(InvalidTask, match="The label 'task' says which function"):
        await remind.schedule(7, delay=HOUR, options=TaskOptions(labels={"task": "other"}))


def test_what_cannot_be_a_typed_task_is_refused_where_it_is_written() -> None:
    tasks = Tasks()

    def bare(user) -> None: ...  # type: ignore[no-untyped-def] # noqa: ANN001

    def many(*users: int) -> None: ...

    def later(delay: int) -> None: ...

    async def steps(user: int) -> AsyncIterator[int]:
        yield user

    class Local: ...

    def hidden(user: Local) -> None: ...

    def foreign(lock: Foreign) -> None: ...

    for function, says in (
        (hidden, "not found where the function stands"),
        (foreign, "a type that pydantic does not know"),
        (bare, "does not say of what type 'user' is"),
        (many, r"takes \*users"),
        (later, "a parameter 'delay', which is a word of `schedule` itself"),
        (steps, "without `yield`"),
        (Order, "register a function"),
    ):
        with pytest.raises(InvalidTask, match=says):
            tasks.task("reminders")(function)


def test_a_queue_that_was_forgotten_is_told_at_once() -> None:
    """`@tasks.task` without the queue would make the function its name, register nothing, and leave None of it."""
    tasks: Any = Tasks()

    async def remind(user: int) -> None: ...

    with pytest.raises(InvalidTask, match=r"The decorator `task` takes a queue: write `\.task\(\"mails\"\)`"):
        tasks.task(remind)


def test_a_worker_includes_registries_alone() -> None:
    tasks, worker = Tasks(), Worker()

    @tasks.task("reminders")
    async def remind(user: int) -> None: ...

    for no_registry in (remind, [tasks], "reminders"):
        with pytest.raises(InvalidTask, match=r"is a registry, a `timerd.tasks.Tasks`, not \w+\. It includes all"):
            worker.include(no_registry)  # type: ignore[arg-type]


async def test_without_a_client_a_task_says_what_to_do() -> None:
    tasks = Tasks()

    @tasks.task("reminders")
    async def remind(user: int) -> None: ...

    with pytest.raises(InvalidTask, match=r"tasks.bind\(client\)"):
        await remind.schedule(7, delay=1)
    with pytest.raises(InvalidTask, match="has a task 'remind' already"):
        tasks.task("reminders", name="remind")(remind.function)


async def test_a_function_is_called_by_a_worker_and_its_caller_gets_what_it_returns(
    server: Server, client: Client, tasks: Tasks
) -> None:
    """By the annotations of the function; also of a plain one, and of one that returns nothing."""

    @tasks.task("orders")
    async def moved(order: Order, to: Address) -> Order:
        return Order(number=order.number + 1, to=to)

    @tasks.task("orders")
    def sizes(number: int) -> list[Size]:
        return [Size.LARGE] * number

    @tasks.task("orders")
    async def nothing() -> None: ...

    worker = server.worker()
    worker.include(tasks)
    async with server.working(worker):
        home = Address("Main Street", "Oslo")
        assert await moved.call(Order(number=1, to=home), to=Address("Quay", "Bergen"), timeout=5) == Order(
            number=2, to=Address("Quay", "Bergen")
        )
        assert await sizes.call(2, timeout=5) == [Size.LARGE, Size.LARGE]
        assert await nothing.call(timeout=5) is None
    task = await sizes.schedule(1, delay=0)
    assert (await client.get(task.id)).result is None


async def test_what_cannot_be_json_ends_the_call_at_once(server: Server, tasks: Tasks) -> None:
    @tasks.task("orders")
    async def opaque(number: int) -> object:
        within: list[object] = [number]
        within.append(within if number else object())
        return within

    worker = server.worker()
    worker.include(tasks)
    async with server.working(worker):
        for number in (0, 1):
            with pytest.raises(CallFailed, match=r"DEAD: What .*opaque returned cannot be kept as JSON"):
                await opaque.call(number, timeout=60)


def test_a_client_without_await_is_refused() -> None:
    """It would be noticed with the first call only, where nothing can be done about it."""
    tasks = Tasks()
    with SyncClient("127.0.0.1:7400") as client:
        for give in (tasks.bind, Tasks, lambda given: tasks.bound(given).__enter__()):
            with pytest.raises(InvalidTask, match="`client` is a SyncClient, and typed tasks are scheduled with await"):
                give(client)  # type: ignore[arg-type]
