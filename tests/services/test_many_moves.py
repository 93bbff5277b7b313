"""RescheduleBatch: many moves in one message, each answered by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import grpc.aio
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from timerd.client import Client, FailedPrecondition, InvalidTask, Item, Move, NotFound, TaskState
from timerd.core.protocol import AppendRows, Find, SetMarks
from timerd.model.errors import NotStored, StoreUnavailable
from timerd.model.partition import Partition
from timerd.model.storage import Append, Appended, Found, Mark, MarkKind
from timerd.services.calls.many_moves import MAX_MOVES
from timerd.services.engine.moving import Moving
from timerd.services.engine.verbs import AskedMove
from timerd.services.holding.procedure_runner import ProcedureRunner
from timerd.services.holding.shared_trips import SharedTrips
from timerd.testing import Server
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1.timer_service_pb2_grpc import TimerServiceStub
from timerd.worker import Delivery

HOUR = timedelta(hours=1)
AT = datetime(2030, 3, 1, tzinfo=UTC)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as server:
        yield server


@pytest.fixture
def client(server: Server) -> Client:
    return server.client()


async def test_many_tasks_move_and_come_once_each(server: Server, client: Client) -> None:
    """More than go side by side, some of them loaded, to places that are loaded and to others."""
    count, came = 600, []
    tasks = await client.schedule_many(
        "mails", [Item(b"%d" % n, delay=60 if n % 2 else 86_400, key=f"k{n}") for n in range(count)]
    )
    moved = await client.reschedule_many(
        [
            Move(key=f"k{n}", delay=120 if n % 3 else 90_000) if n % 5 else Move(task_id=tasks[n].id, at=AT)
            for n in range(count)
        ]
    )
    assert [each.error for each in moved] == [None] * count
    assert [each.task_id for each in moved] == [task.id for task in tasks]
    assert moved[0].fire_time == AT
    assert (await client.get(key="k1")).fire_time == moved[1].fire_time
    worker = server.worker()

    @worker.on("mails")
    async def take(delivery: Delivery) -> None:
        came.append(delivery.payload)

    await worker.start()
    await server.advance(minutes=3)
    assert len(came) == len(set(came)) == sum(bool(n % 5 and n % 3) for n in range(count))
    await server.advance(days=90)
    assert sorted(came) == sorted(b"%d" % n for n in range(count))
    await worker.stop()


async def test_one_that_cannot_be_moved_holds_up_no_other(client: Client) -> None:
    gone = await client.schedule("mails", b"1", delay=60)
    await client.cancel(gone.id)
    expires = await client.schedule("mails", b"2", delay=60, expire_after=30)
    good = await client.schedule("mails", b"3", delay=60)
    moved = await client.reschedule_many(
        [
            Move(task_id=gone.id, delay=HOUR),
            Move(key="nobody", delay=HOUR),
            Move(task_id="no id", delay=HOUR),
            Move(task_id=expires.id, at=AT),
            Move(task_id=good.id, at=AT),
        ]
    )
    kinds = [type(each.error) for each in moved]
    assert kinds[:3] == [FailedPrecondition, NotFound, NotFound]
    assert (moved[4].fire_time, moved[4].error) == (AT, None)
    assert (await client.get(gone.id)).state is TaskState.CANCELLED


@pytest.mark.parametrize(
    ("moves", "says"),
    [
        ([], "1 to 1,000"),
        ([pb.RescheduleRequest(key="k")] * (MAX_MOVES + 1), "1,001"),
        ([pb.RescheduleRequest()], "Neither task_id nor key"),
        ([pb.RescheduleRequest(key="k", namespace="other")], "names the namespace 'other'"),
        ([pb.RescheduleRequest(key="k" * 257)], "257 characters"),
    ],
)
async def test_a_message_that_cannot_be_right_is_refused(
    server: Server, moves: list[pb.RescheduleRequest], says: str
) -> None:
    async with grpc.aio.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match=says):
            await TimerServiceStub(channel).RescheduleBatch(pb.RescheduleBatchRequest(moves=moves))


async def test_what_is_wrong_with_one_is_said_of_it(server: Server, client: Client) -> None:
    task = await client.schedule("mails", b"1", delay=60)
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = TimerServiceStub(channel)
        said = await stub.RescheduleBatch(pb.RescheduleBatchRequest(moves=[pb.RescheduleRequest(task_id=task.id)]))
    assert (said.results[0].problem.field, said.results[0].HasField("fire_time")) == ("moves[0].fire_time", False)


async def test_a_task_that_is_named_twice_is_not_moved(client: Client) -> None:
    task = await client.schedule("mails", b"1", delay=60, key="ada")
    with pytest.raises(InvalidTask, match=r"moves\[0\] and moves\[1\] are of one task"):
        await client.reschedule_many([Move(task_id=task.id, delay=1), Move(key="ada", delay=2)])
    assert (await client.get(task.id)).fire_time == task.fire_time


async def test_tasks_of_another_namespace_are_not_found(server: Server, client: Client) -> None:
    task = await client.schedule("mails", b"1", delay=60, key="ada")
    moved = await server.client(namespace="another").reschedule_many(
        [Move(task_id=task.id, at=AT), Move(key="ada", at=AT)]
    )
    assert [type(each.error) for each in moved] == [NotFound, NotFound]
    assert (await client.get(task.id)).fire_time == task.fire_time


@pytest.mark.parametrize("wrong", [Move(), Move(key="k"), Move(delay=1), Move(key="k", task_id="x", delay=1), "k"])
async def test_what_is_no_move_is_not_sent(client: Client, wrong: object) -> None:
    with pytest.raises(InvalidTask):
        await client.reschedule_many([wrong])  # type: ignore[list-item]
    with pytest.raises(InvalidTask, match="list of Move"):
        await client.reschedule_many(wrong)  # type: ignore[arg-type]


async def test_a_store_that_goes_away_in_the_midst_leaves_the_outcome_open(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repeat of the same bytes then says what became of each."""
    tasks = await client.schedule_many("mails", [(b"%d" % n, HOUR) for n in range(300)])
    perform, left = ProcedureRunner.perform, [2]

    async def fail_later(self: ProcedureRunner, request: object) -> object:
        if isinstance(request, AppendRows):
            left[0] -= 1
            if not left[0]:
                raise StoreUnavailable("The disk is away.", "STORE_UNAVAILABLE")
        return await perform(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(ProcedureRunner, "perform", fail_later)
    moved = await client.reschedule_many([Move(task_id=task.id, at=AT) for task in tasks])
    assert {each.fire_time for each in moved} == {AT}


async def test_tries_of_one_call_that_come_side_by_side_are_one(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a caller that did not wait for the answer: four ask the store for no more than one does."""
    perform, asked = ProcedureRunner.perform, list[object]()
    move_all = Moving.move_all

    async def count(self: ProcedureRunner, request: object) -> object:
        asked.append(request)
        return await perform(self, request)  # type: ignore[arg-type]

    async def tried(stub: TimerServiceStub, tries: int) -> int:
        """How much is asked for moves of twenty tasks."""
        tasks = await client.schedule_many("mails", [(b"%d" % n, HOUR) for n in range(20)])
        fire_time = Timestamp(seconds=int(AT.timestamp()))
        moves = [pb.RescheduleRequest(request_id="m", task_id=task.id, fire_time=fire_time) for task in tasks]
        all_are_there = asyncio.Barrier(tries)

        async def begin(self: Moving, moves: Sequence[AskedMove]) -> list[int | NotStored]:
            await all_are_there.wait()
            return await move_all(self, moves)

        monkeypatch.setattr(Moving, "move_all", begin)
        asked.clear()
        said = await asyncio.gather(
            *(stub.RescheduleBatch(pb.RescheduleBatchRequest(moves=moves)) for _ in range(tries))
        )
        assert {each.fire_time.seconds for reply in said for each in reply.results} == {fire_time.seconds}
        return len(asked)

    monkeypatch.setattr(ProcedureRunner, "perform", count)
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = TimerServiceStub(channel)
        one = await tried(stub, 1)
        assert await tried(stub, 4) <= one * 1.2


class Answers:
    """A store that answers with what it was asked, and counts the trips."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    async def perform(self, request: object) -> object:
        self.asked.append(request)
        if isinstance(request, Find):
            return [Found(EMPTY, [Mark(request.partition, key, MarkKind.MOVED, b"")]) for key in request.keys]  # type: ignore[arg-type]
        if isinstance(request, AppendRows):
            return [Appended({}, {message.groups[0][0]: 1}) for message in request.messages]
        assert isinstance(request, SetMarks)
        return len(request.marks)


EMPTY = None
HOMES = [Partition(0, bucket * 300_000, 0) for bucket in range(2)]


async def test_each_is_told_of_its_own_rows() -> None:
    """Of one place they are found in one trip, and written in one wherever they go."""
    store = Answers()
    trips = SharedTrips(store)

    async def one(number: int) -> tuple[object, object, object]:
        home, keys = HOMES[number % 2], [(number, b"a"), (number, b"b")]
        found = await trips.perform(Find(home, keys))
        written = await trips.perform(AppendRows([Append(((home, EMPTY),))]))  # type: ignore[arg-type]
        return found, written, await trips.perform(SetMarks([]))

    said = await asyncio.gather(*map(one, range(4)))
    for number, (found, written, marked) in enumerate(said):
        home = HOMES[number % 2]
        assert [each.marks[0].key for each in found] == [(number, b"a"), (number, b"b")]  # type: ignore[attr-defined]
        assert written == [Appended({}, {home: 1})]
        assert marked == 0
    assert [type(each) for each in store.asked] == [Find, Find, AppendRows, SetMarks]


async def test_a_trip_that_says_no_number_of_its_own_counts_none() -> None:
    class Some:
        async def perform(self, request: SetMarks) -> int:
            return len(request.marks) - 1

    trips = SharedTrips(Some())  # type: ignore[arg-type]
    marks = [Mark(HOMES[0], None, MarkKind.MOVED, b"")]  # type: ignore[arg-type]
    assert await asyncio.gather(*(trips.perform(SetMarks(marks)) for _ in range(3))) == [0, 0, 0]
