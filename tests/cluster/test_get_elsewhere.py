"""Get of a task that another instance holds: what it says is never taken back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.cluster.peer_rig import Pair, holder_hangs, until
from timerd.adapters.memory import MemoryStore
from timerd.client import CancelOutcome, TaskState
from timerd.model.errors import Unavailable
from timerd.model.identity import parse_task_id
from timerd.model.settle import SettleRecord
from timerd.model.storage import DeadLetter
from timerd.worker import Delivery


class Slow(MemoryStore):
    """No settle record becomes durable while it does not go on."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.waiting = 0

    async def settle(self, records: Sequence[SettleRecord], dead_letters: Sequence[DeadLetter] = ()) -> None:
        self.waiting += 1
        await self.goes_on.wait()
        self.waiting -= 1
        await super().settle(records, dead_letters)


@pytest.fixture
def store() -> Slow:
    return Slow()


@pytest.fixture
async def pair(store: Slow) -> AsyncIterator[Pair]:
    async with Pair(store=store) as pair:
        yield pair


async def in_hand(pair: Pair) -> str:
    """A task that b holds, that a worker of b has for 20 s, and whose retries are stopped."""

    async def works_a_while(_: Delivery) -> None:
        await pair.cluster.sleep(seconds=20)

    await pair.b_holds()
    await pair.works(after=works_a_while, shield=True)
    task = await pair.client.schedule("q", b"x", delay=1)
    await pair.cluster.advance(seconds=4)
    assert await pair.client.cancel(task.id) is CancelOutcome.IN_FLIGHT
    return task.id


async def state_of(pair: Pair, task: str) -> TaskState:
    return (await pair.client.get(task)).state


async def test_what_a_worker_has_is_in_flight_though_its_retries_are_stopped(pair: Pair) -> None:
    task = await in_hand(pair)
    assert await state_of(pair, task) is TaskState.IN_FLIGHT
    await pair.cluster.advance(seconds=30)
    assert await state_of(pair, task) is TaskState.ACKED


async def test_who_cannot_ask_the_holder_does_not_say_that_it_was_cancelled(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mark alone tells of it, and the worker may be about to end it otherwise."""
    monkeypatch.setattr("timerd.services.peers.peers.SILENCE_S", 0.0)
    task = await in_hand(pair)
    named = parse_task_id(task)
    assert named is not None
    with monkeypatch.context() as patch:
        holder_hangs(patch)
        with pytest.raises(Unavailable, match="does not answer") as refused:
            await pair.cluster.instances["a"].node.engine.get("default", named)
        assert refused.value.reason == "HOLDER_SILENT"
    await pair.cluster.advance(seconds=30)
    assert await state_of(pair, task) is TaskState.ACKED


async def test_an_ack_that_is_not_durable_yet_is_in_flight_to_others(pair: Pair, store: Slow) -> None:
    """A crash would take it back; and what is read of the mark meanwhile would be CANCELLED."""
    task = await in_hand(pair)
    store.goes_on.clear()
    turning = asyncio.create_task(pair.cluster.advance(seconds=30))
    await until(lambda: store.waiting > 0)
    assert await state_of(pair, task) is TaskState.IN_FLIGHT
    store.goes_on.set()
    await turning
    assert await state_of(pair, task) is TaskState.ACKED
