"""Cancels of many tasks by their keys: one call, and what its repeats are about."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from timerd.client import TaskState
from timerd.core.protocol import ReadRegister, ReadRegisters, Request, TryCas, TryCasMany
from timerd.model.errors import StoreUnavailable
from timerd.model.registers import RegisterKey, name_key
from timerd.model.storage import Cas
from timerd.services.holding.shared_trips import SharedTrips
from timerd.testing import Server
from timerd.v1 import task_pb2 as task_wire
from timerd.v1 import timer_service_pb2 as wire
from timerd.v1 import timer_service_pb2_grpc as stubs

# Generated code has no types.
Stub = Any
NAMES = {value: name.removeprefix("CANCEL_OUTCOME_") for name, value in task_wire.CancelOutcome.items()}


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as server:
        yield server


@pytest.fixture
async def stub(server: Server) -> AsyncIterator[Stub]:
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield stubs.TimerServiceStub(channel)


async def cancelled(stub: Stub, request: wire.CancelBatchRequest) -> list[str]:
    return [NAMES[outcome] for outcome in (await stub.CancelBatch(request)).outcomes]


async def test_tasks_are_cancelled_by_their_keys(server: Server, stub: Stub) -> None:
    client = server.client()
    tasks = [await client.schedule("mails", b"x", key=f"k{n}", delay=3600) for n in range(40)]
    keys = [f"k{n}" for n in range(30)]
    assert await cancelled(stub, wire.CancelBatchRequest(keys=[*keys, "nobody", "k0"])) == [
        *["CANCELLED"] * 30,
        "NOT_FOUND",
        "CANCELLED",
    ]
    states = [(await client.get(task.id)).state for task in tasks]
    assert states == [TaskState.CANCELLED] * 30 + [TaskState.PENDING] * 10
    assert await cancelled(stub, wire.CancelBatchRequest(namespace="other", keys=["k35"])) == ["NOT_FOUND"]


async def test_a_repeat_is_about_the_tasks_of_the_first_time(server: Server, stub: Stub) -> None:
    """Also where nobody had the key then."""
    client = server.client()
    for n in range(3):
        await client.schedule("mails", b"x", key=f"k{n}", delay=3600)
    call = wire.CancelBatchRequest(request_id="r1", keys=["k0", "k1", "free"])
    first = await cancelled(stub, call)
    assert first == ["CANCELLED", "CANCELLED", "NOT_FOUND"]
    later = [await client.schedule("mails", b"later", key=key, delay=3600) for key in ("k0", "free")]
    assert await cancelled(stub, call) == first
    assert [(await client.get(task.id)).state for task in later] == [TaskState.PENDING] * 2
    other = wire.CancelBatchRequest(request_id="r2", keys=["k0", "k1", "free"])
    assert await cancelled(stub, other) == ["CANCELLED", "ALREADY_CANCELLED", "CANCELLED"]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (wire.CancelBatchRequest(keys=["k"], task_ids=["x"]), "Both task_ids and keys are set"),
        (wire.CancelBatchRequest(keys=["k"] * 1_001), "1,000"),
        (wire.CancelBatchRequest(keys=["k", ""]), "A key of the message is empty"),
        (wire.CancelBatchRequest(keys=["k" * 257]), "257 characters: at most 256"),
    ],
)
async def test_a_call_that_cannot_be_right_is_refused(stub: Stub, request_: wire.CancelBatchRequest, says: str) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match=says) as refused:
        await stub.CancelBatch(request_)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


class Counting:
    """Performs nothing, and remembers what it was asked for."""

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails
        self.asked: list[Request] = []

    async def perform(self, request: Request) -> object:
        self.asked.append(request)
        if self._fails:
            raise StoreUnavailable("The disk is away.", "STORE_UNAVAILABLE")
        if isinstance(request, ReadRegisters):
            return [key.name for key in request.keys]
        return [change.value for change in request.changes] if isinstance(request, TryCasMany) else request


def names(count: int) -> list[RegisterKey]:
    return [name_key("default", f"k{n}") for n in range(count)]


async def test_what_is_asked_in_one_turn_is_one_trip() -> None:
    runner = Counting()
    trips = SharedTrips(runner)

    async def one(key: RegisterKey) -> tuple[object, object]:
        return await trips.perform(ReadRegister(key)), await trips.perform(TryCas(Cas(key, None, key.name + b"!", 0)))

    said = await asyncio.gather(*map(one, names(5)))
    assert said == [(key.name, key.name + b"!") for key in names(5)]
    assert [type(request) for request in runner.asked] == [ReadRegisters, TryCasMany]
    other = ReadRegisters(names(1))
    assert await trips.perform(other) == [names(1)[0].name]


async def test_a_trip_that_fails_fails_for_all() -> None:
    trips = SharedTrips(Counting(fails=True))
    said = await asyncio.gather(*(trips.perform(ReadRegister(key)) for key in names(3)), return_exceptions=True)
    assert [type(each) for each in said] == [StoreUnavailable] * 3
