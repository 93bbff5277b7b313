"""However many steps a call has, and whoever else waits: it is answered in time while the store is in trouble, and
waited for where the store is only slow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import grpc
import grpc.aio
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.services.api_rig import NOW_MS, FakeVerbs, running, trailers
from tests.services.session_rig import batch, opened
from timerd.adapters.memory import MemoryStore
from timerd.model.errors import StoreUnavailable
from timerd.model.partition import Partition
from timerd.model.registers import RegisterKey, control_key
from timerd.model.storage import Cas, CasResult, CasStatus
from timerd.ports import Store
from timerd.services.calls.call_deadline import LOOK_S, SILENT_S, CallDeadline
from timerd.services.holding.registers import try_cas
from timerd.v1 import task_pb2 as task_wire
from timerd.v1 import timer_service_pb2 as wire
from timerd.v1.task_pb2 import Problem

LIMIT_S = 0.05
LONG_S = 30
CHANGE = Cas(control_key(Partition(0, 0, 0)), None, b"1")


class HangingStore(MemoryStore):
    """A change has no known outcome, and whoever looks what it was waits until `goes_on`."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()

    async def cas(self, changes: Sequence[Cas]) -> list[CasResult]:
        return [CasResult(CasStatus.UNKNOWN) for _ in changes]

    async def read(self, keys: Sequence[RegisterKey]) -> list[bytes | None]:
        await self.goes_on.wait()
        return [b"1" for _ in keys]


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def start(work: object) -> asyncio.Task[object]:
    return asyncio.create_task(work)  # type: ignore[arg-type]


async def failing(store: Store) -> None:
    """Somebody else's step."""

    with pytest.raises(StoreUnavailable):
        await store.scan(Partition(0, 0, 0), 0, 1, 0, 1)


class Failing(MemoryStore):
    async def scan(self, *_: object, **__: object) -> None:  # type: ignore[override]
        raise StoreUnavailable("The store does not answer.", "STORE_UNAVAILABLE")


async def test_two_steps_that_hang_do_not_add_up_and_what_began_is_carried_through() -> None:
    call_deadline, inner = CallDeadline(LIMIT_S), HangingStore()
    store = call_deadline.watch(inner)
    running: list[asyncio.Task[object]] = []

    def started(work: object) -> asyncio.Task[object]:
        running.append(start(work))
        return running[0]

    said = await asyncio.wait_for(call_deadline.outcome("Reschedule", try_cas(store, CHANGE), started), LONG_S)
    assert isinstance(said, Problem)
    assert (said.code, said.reason) == (grpc.StatusCode.UNKNOWN.value[0], "")
    assert not running[0].done()
    inner.goes_on.set()
    assert await running[0] == CasResult(CasStatus.APPLIED, b"1")


async def test_a_read_that_gets_no_answer_is_unavailable() -> None:
    call_deadline, inner = CallDeadline(LIMIT_S), HangingStore()
    said = await asyncio.wait_for(
        call_deadline.outcome("Get", try_cas(call_deadline.watch(inner), CHANGE), start), LONG_S
    )
    assert (said.code, said.reason) == (grpc.StatusCode.UNAVAILABLE.value[0], "STORE_UNAVAILABLE")


async def test_who_waits_for_the_steps_of_others_is_told_when_nobody_is_answered() -> None:
    clock = Clock()
    call_deadline = CallDeadline(LIMIT_S, clock)
    store = call_deadline.watch(cast(Store, Failing()))
    await store.read([CHANGE.key])
    turn = asyncio.Event()
    waiting = asyncio.create_task(call_deadline.outcome("Schedule", turn.wait(), start))
    await failing(store)
    clock.now_s += SILENT_S / 2
    await asyncio.sleep(LIMIT_S + 2 * LOOK_S)
    assert not waiting.done(), "a single failure of somebody else is none of this call"
    clock.now_s += SILENT_S / 2
    assert isinstance(await asyncio.wait_for(waiting, LONG_S), Problem)


async def test_a_call_that_is_slow_is_waited_for_while_the_store_answers() -> None:
    clock = Clock()
    call_deadline = CallDeadline(LIMIT_S, clock)
    store = call_deadline.watch(cast(Store, Failing()))
    turn = asyncio.Event()
    waiting = asyncio.create_task(call_deadline.outcome("Schedule", turn.wait(), start))
    await failing(store)
    clock.now_s += 2 * SILENT_S
    await store.read([CHANGE.key])
    await asyncio.sleep(LIMIT_S + 2 * LOOK_S)
    assert not waiting.done()
    turn.set()
    assert await waiting is True


def test_on_one_machine_nothing_is_listened_to() -> None:
    store = MemoryStore()
    assert CallDeadline().watch(store) is store


async def test_a_caller_hears_of_it_on_both_ways() -> None:
    """By a call, and by a message of a session."""
    clock, never = Clock(), asyncio.Event()
    call_deadline = CallDeadline(LIMIT_S, clock)
    await failing(call_deadline.watch(cast(Store, Failing())))
    order = wire.ScheduleRequest(
        template=task_wire.TaskTemplate(queue="q"), request_id="r", fire_time=Timestamp(seconds=NOW_MS // 1000 + 60)
    )
    async with running(FakeVerbs(gate=never.wait), call_deadline) as rig:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await rig.stub.Schedule(order, timeout=LONG_S)
        assert error.value.code() is grpc.StatusCode.UNKNOWN
        assert "timerd-reason" not in trailers(error.value)
        call = await opened(rig)
        await call.write(batch(7))
        reply = await call.read()
        assert (reply.sequence, reply.problem.code) == (7, grpc.StatusCode.UNKNOWN.value[0])
        never.set()
