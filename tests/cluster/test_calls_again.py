"""A call comes again, through whichever instance, on a store that does not know it: it is answered as the first time,
and changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import grpc.aio
import pytest

from tests.cluster.peer_rig import Pair, bucket_on, holder_hangs
from tests.services.raw_worker import RawWorker
from timerd.adapters.memory import MemoryStore
from timerd.client import CancelOutcome, FailedPrecondition
from timerd.model.errors import Unavailable
from timerd.model.identity import TaskId, parse_task_id
from timerd.model.registers import Table
from timerd.model.storage import Cas, CasResult
from timerd.sdk.values.times import datetime_of_ms
from timerd.services.calls.requests import NO_RULES, draft_of_one, rules_for
from timerd.services.engine.verbs import CancelAnswer
from timerd.testing import Cluster
from timerd.v1 import timer_service_pb2 as wire
from timerd.v1.work_service_pb2 import SETTLE_ACTION_ACK, Open
from timerd.v1.work_service_pb2_grpc import WorkServiceStub
from timerd.worker import Delivery


class Deciding(MemoryStore):
    """It counts what it decides of rows' places. Instances do not use that it knows repeats (timerd.testing.gate)."""

    decided = 0

    async def cas(self, changes: Sequence[Cas]) -> Sequence[CasResult]:
        self.decided += sum(change.key.table is Table.KEYS for change in changes)
        return await super().cas(changes)


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with Pair(store=Deciding()) as pair:
        yield pair


@pytest.mark.parametrize("seconds", [5, 90, 400])
async def test_what_was_done_is_not_done_again_by_a_repeat_of_its_call(pair: Pair, seconds: int) -> None:
    other = await pair.b_holds()
    await pair.works()
    at = pair.in_a_second()
    task = (await pair.client.schedule("q", b"once", at=at, request_id="r")).id
    await pair.cluster.advance(seconds=seconds)
    assert pair.payloads == [b"once"]
    assert (await other.schedule("q", b"once", at=at, request_id="r")).id == task
    assert await pair.client.cancel(task) is CancelOutcome.ALREADY_FIRED
    with pytest.raises(FailedPrecondition):
        await pair.client.reschedule(task, delay=timedelta(seconds=1))
    await pair.cluster.advance(seconds=30)
    assert pair.payloads == [b"once"]


@pytest.mark.parametrize("seconds", [0, 30, 70, 400])
async def test_a_call_that_comes_late_and_again_goes_to_one_place(pair: Pair, seconds: int) -> None:
    """Its instant is over when its first try comes; the place that this one chose is what its repeats find."""
    other = await pair.b_holds()
    await pair.works()
    at = pair.cluster.now
    await pair.cluster.advance(seconds=20)
    task = (await pair.client.schedule("q", b"once", at=at, request_id="r")).id
    await pair.cluster.advance(seconds=seconds)
    assert (await other.schedule("q", b"once", at=at, request_id="r")).id == task
    await pair.cluster.advance(seconds=5)
    assert (await pair.client.schedule("q", b"once", at=at, request_id="r")).id == task
    await pair.cluster.advance(seconds=30)
    assert pair.payloads == [b"once"]
    assert await other.cancel(task) is CancelOutcome.ALREADY_FIRED


def delayed(request_id: str) -> wire.ScheduleRequest:
    """As a caller writes it that says nothing of when it made the call."""
    request = wire.ScheduleRequest(namespace="default", request_id=request_id, payload=b"delayed")
    request.template.queue, request.delay.seconds = "q", 40
    return request


async def said(pair: Pair, name: str, request: wire.ScheduleRequest) -> TaskId:
    engine = pair.cluster.instances[name].node.engine
    draft = await draft_of_one(request, rules_for(request, engine.now_ms(), 1 << 16, NO_RULES))
    return (await engine.schedule(draft.tasks)).task_ids[0]


async def test_a_delay_counts_from_the_first_try(pair: Pair) -> None:
    await pair.b_holds()
    await pair.works()
    task = await said(pair, "a", delayed("r"))
    await pair.cluster.advance(seconds=30)
    assert await said(pair, "b", delayed("r")) == task
    await pair.cluster.advance(seconds=60)
    assert await said(pair, "b", delayed("r")) == task
    await pair.cluster.advance(seconds=60)
    assert pair.payloads == [b"delayed"]


async def test_a_call_without_a_request_id_has_no_other_try_to_agree_with(pair: Pair) -> None:
    assert isinstance(pair.store, Deciding)
    assert await said(pair, "a", delayed("")) != await said(pair, "a", delayed(""))
    assert pair.store.decided == 0


async def test_what_is_in_time_or_a_moment_late_decides_nothing(pair: Pair) -> None:
    """Compare-and-sets are dear: only who is too late for its place pays for one, once."""
    await pair.b_holds()
    await pair.works()
    store = pair.store
    assert isinstance(store, Deciding)
    for n in range(10):
        await pair.client.schedule("q", b"%d" % n, delay=0)
        await pair.client.schedule("q", b"later %d" % n, delay=30)
        await pair.cluster.advance(milliseconds=70)
    assert store.decided == 0
    at = pair.cluster.now
    await pair.cluster.advance(seconds=20)
    for _ in range(3):
        await pair.client.schedule("q", b"late", at=at, request_id="late")
    assert store.decided == 1
    await pair.cluster.advance(seconds=20)
    assert len(pair.payloads) == len(set(pair.payloads)) == 21


async def test_what_its_holder_has_is_not_taken_in_once_more(pair: Pair) -> None:
    """Twice in hand, a row that is moved would end twice in the ledger."""
    holder = await pair.b_holds()
    await pair.hinted(rows=1)
    for _ in range(3):
        await holder.schedule("q", b"once", at=pair.in_a_second(), request_id="r")
    machines = pair.cluster.instances["b"].node.scheduler.machines.values()
    assert sum(machine.waiting_rows for machine in machines) == 2


async def test_the_repeat_of_a_cancel_takes_nothing_back_while_the_holder_is_silent(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody held the task when it was cancelled, so only its mark tells of it. Then b holds it, and hangs."""
    monkeypatch.setattr("timerd.services.peers.peers.SILENCE_S", 0.0)
    far = bucket_on("b", after=pair.cluster.now + timedelta(hours=2))
    task = await pair.client.schedule("q", b"x", at=datetime_of_ms(far.bucket_ms + 60_000))
    assert await pair.client.cancel(task.id, request_id="mine") is CancelOutcome.CANCELLED
    pair.cluster.instances["b"].node.scheduler.hold(far)
    await pair.cluster.settle()
    assert await pair.cluster.holders(far) == ["b"]
    named = parse_task_id(task.id)
    assert named is not None
    engine = pair.cluster.instances["a"].node.engine
    with monkeypatch.context() as patch:
        holder_hangs(patch)
        assert await engine.cancel("default", "another", [named]) == [CancelAnswer.PENDING]
        with pytest.raises(Unavailable, match="The cancel is stored") as refused:
            await engine.cancel("default", "mine", [named])
    assert (refused.value.reason, refused.value.only_this_try) == ("HOLDER_SILENT", True)
    assert await pair.client.cancel(task.id, request_id="mine") is CancelOutcome.CANCELLED


async def test_whose_cancel_came_first_is_said_alike_by_every_try(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """b holds the task and has not heard of the first cancel, which is stored: it is not the second one that did it."""
    monkeypatch.setattr("timerd.services.peers.peers.SILENCE_S", 0.0)
    far = bucket_on("b", after=pair.cluster.now + timedelta(hours=2))
    task = await pair.client.schedule("q", b"x", at=datetime_of_ms(far.bucket_ms + 60_000))
    pair.cluster.instances["b"].node.scheduler.hold(far)
    await pair.cluster.settle()
    assert await pair.cluster.holders(far) == ["b"]
    named = parse_task_id(task.id)
    assert named is not None
    a, b = (pair.cluster.instances[name].node.engine for name in "ab")
    with monkeypatch.context() as patch:
        holder_hangs(patch)
        assert await a.cancel("default", "first", [named]) == [CancelAnswer.PENDING]
    said = [await engine.cancel("default", "second", [named]) for engine in (b, a, b)]
    assert said == [[CancelAnswer.ALREADY_CANCELLED]] * 3
    assert await a.cancel("default", "first", [named]) == [CancelAnswer.CANCELLED]


@pytest.mark.parametrize(("away_s", "said"), [(0.4, CancelOutcome.IN_FLIGHT), (3, CancelOutcome.CANCELLED)])
@pytest.mark.parametrize(("home", "back", "again"), [("a", "a", "b"), ("b", "a", "a"), ("c", "b", "b")])
async def test_a_worker_that_comes_back_changes_nothing_of_what_a_cancel_said(
    away_s: float, said: CancelOutcome, home: str, back: str, again: str
) -> None:
    """Its stream broke; within the grace a cancel says IN_FLIGHT, after it CANCELLED. It comes back, and acks."""
    async with Cluster("a", "b", "c") as cluster:
        task = await cluster.client("a").schedule("q", b"x", delay=2)
        worker = cluster.worker(home)
        begun: list[Delivery] = []

        @worker.on("q")
        async def work(delivery: Delivery) -> None:
            begun.append(delivery)
            await cluster.sleep(seconds=1_000)

        await worker.start()
        await cluster.advance(seconds=4)
        assert begun
        assert worker._stream is not None
        tokens = worker._stream.in_hand.tokens()
        await worker.kill()
        await cluster.advance(seconds=away_s)
        assert await cluster.client("a").cancel(task.id, request_id="r") is said
        async with grpc.aio.insecure_channel(cluster.instances[back].node.address) as channel:
            raw = RawWorker(WorkServiceStub(channel).Work())
            await raw.open(Open(resume=tokens, lease_ms=30_000))
            assert await cluster.client(again).cancel(task.id, request_id="r") is said
            await raw.settle(SETTLE_ACTION_ACK, tokens)
            while (response := await raw.next()).WhichOneof("response") == "interrupt":
                assert response.interrupt.ack_tokens == tokens
            assert response.WhichOneof("response") == "confirmed"
            assert bool(response.confirmed.refused) is (said is CancelOutcome.CANCELLED)
            assert await cluster.client(again).cancel(task.id, request_id="r") is said
