"""A call that comes again, byte for byte the same, is answered as the first time and changes nothing, whatever other
calls came in between (guarantee G2).

Each story runs on a store that remembers messages (SQLite), and on one that does not: there the call comes again by
another instance.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.error_details_pb2 import ErrorInfo
from grpc_status import rpc_status

from timerd.client import Client
from timerd.testing import Cluster, Server
from timerd.testing.async_server import CONFIG
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1.task_pb2 import (
    CANCEL_OUTCOME_ALREADY_FIRED,
    CANCEL_OUTCOME_CANCELLED,
    CANCEL_OUTCOME_NOT_FOUND,
    CONFLICT_POLICY_KEEP,
    CONFLICT_POLICY_REJECT,
    CONFLICT_POLICY_REPLACE,
    CONFLICT_POLICY_UNSPECIFIED,
    ITEM_OUTCOME_KEPT,
    ITEM_OUTCOME_NOT_STORED,
    ITEM_OUTCOME_STORED,
    ConflictPolicy,
    RetryPolicy,
    TaskTemplate,
)
from timerd.v1.timer_service_pb2_grpc import TimerServiceStub
from timerd.worker import Delivery, Reject, Retry

QUEUE = "mails"


@dataclass
class Place:
    """One server, or several instances. Each call of `first` is answered by the first of them, each of `again` by
    another one."""

    running: Server | Cluster
    first: Any
    again: Any
    got: list[bytes]

    @property
    def now(self) -> datetime:
        return self.running.now

    async def advance(self, **parts: float) -> None:
        await self.running.advance(timedelta(**parts))

    def clients(self) -> tuple[Client, Client]:
        """As `first` and `again`."""
        if isinstance(self.running, Server):
            return self.running.client(), self.running.client()
        return self.running.client("a"), self.running.client("b")

    def at(self, **parts: float) -> Timestamp:
        moment = Timestamp()
        moment.FromDatetime(self.now + timedelta(**parts))
        return moment


@pytest.fixture(params=["sqlite", "cluster"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    running = Server(data=tmp_path) if request.param == "sqlite" else Cluster("a", "b")
    async with running:
        if isinstance(running, Cluster):
            addresses, worker = [each.node.address for each in running.instances.values()], running.worker("a")
        else:
            addresses, worker = [running.address] * 2, running.worker()
        got: list[bytes] = []

        @worker.on(QUEUE)
        async def handle(delivery: Delivery) -> None:
            got.append(delivery.payload)
            if delivery.payload.startswith(b"bad"):
                raise Reject(f"no good, attempt {delivery.attempt}")
            if delivery.payload.startswith(b"third time"):
                # A dead letter at first, in its second life it waits.
                came = got.count(delivery.payload)
                if came < 3:
                    raise Reject("not yet") if came == 1 else Retry(60)

        channels = [grpc.aio.insecure_channel(address) for address in addresses]
        stubs = [TimerServiceStub(channel) for channel in channels]
        await worker.start()
        yield Place(running, stubs[0], stubs[1], got)
        for channel in channels:
            await channel.close()


def schedule(
    request_id: str, payload: bytes, at: Timestamp, key: str = "", policy: ConflictPolicy = CONFLICT_POLICY_UNSPECIFIED
) -> pb.ScheduleRequest:
    template = TaskTemplate(queue=QUEUE, on_conflict=policy, retry=RetryPolicy(max_attempts=1))
    return pb.ScheduleRequest(request_id=request_id, template=template, payload=payload, fire_time=at, key=key)


async def test_a_repeat_of_replace_does_not_take_the_key_from_a_later_call(place: Place) -> None:
    first = schedule("r1", b"one", place.at(seconds=20), "order", CONFLICT_POLICY_REPLACE)
    second = schedule("r2", b"two", place.at(seconds=25), "order", CONFLICT_POLICY_REPLACE)
    answers = [await place.first.Schedule(first), await place.first.Schedule(second)]
    assert [await place.again.Schedule(first), await place.again.Schedule(second)] == answers
    assert (await place.again.Get(pb.GetRequest(key="order"))).task.task_id == answers[1].task_id
    await place.advance(seconds=40)
    assert place.got == [b"two"]


async def test_so_it_is_when_both_have_ended(place: Place) -> None:
    first = schedule("r1", b"one", place.at(seconds=20), "order", CONFLICT_POLICY_REPLACE)
    second = schedule("r2", b"two", place.at(seconds=25), "order", CONFLICT_POLICY_REPLACE)
    answers = [await place.first.Schedule(first), await place.first.Schedule(second)]
    await place.advance(seconds=40)
    assert [await place.again.Schedule(first), await place.again.Schedule(second)] == answers
    await place.advance(seconds=40)
    assert place.got == [b"two"]


async def test_repeats_of_many_replaces_are_known(place: Place) -> None:
    """More than the register of a key holds."""
    calls = [schedule(f"r{n}", b"%d" % n, place.at(seconds=20), "order", CONFLICT_POLICY_REPLACE) for n in range(60)]
    answers = [await place.first.Schedule(call) for call in calls]
    # Whatever was forgotten would stand instead of the last one.
    assert [await place.again.Schedule(call) for call in calls[:40]] == answers[:40]
    await place.advance(seconds=40)
    assert place.got == [b"59"]


@pytest.mark.parametrize("policy", [CONFLICT_POLICY_KEEP, CONFLICT_POLICY_REJECT])
async def test_what_was_said_of_a_key_that_was_taken_is_said_again_when_it_is_free(
    place: Place, policy: ConflictPolicy
) -> None:
    await place.first.Schedule(schedule("r1", b"one", place.at(seconds=10), "order"))
    other = schedule("r2", b"two", place.at(seconds=10), "order", policy)
    said = await answer(place.first.Schedule(other))
    await place.advance(seconds=40)
    again = await answer(place.again.Schedule(other))
    await place.advance(seconds=40)
    assert place.got == [b"one"]
    if policy == CONFLICT_POLICY_KEEP:
        assert said.outcome == ITEM_OUTCOME_KEPT
        assert (again.task_id, again.outcome) == (said.task_id, said.outcome)
    else:
        assert said == again == "KEY_TAKEN"


async def test_a_repeat_of_keep_that_stored_a_task_says_so_again(place: Place) -> None:
    first = schedule("r1", b"one", place.at(seconds=10), "order", CONFLICT_POLICY_KEEP)
    said = await place.first.Schedule(first)
    await place.advance(seconds=40)
    await place.first.Schedule(schedule("r2", b"two", place.at(seconds=10), "order", CONFLICT_POLICY_KEEP))
    assert await place.again.Schedule(first) == said
    await place.advance(seconds=40)
    assert place.got == [b"one", b"two"]


def moved(request_id: str, task_id: str, at: Timestamp) -> pb.RescheduleRequest:
    return pb.RescheduleRequest(request_id=request_id, task_id=task_id, fire_time=at)


async def test_a_repeat_of_a_move_does_not_undo_a_later_one(place: Place) -> None:
    task = (await place.first.Schedule(schedule("s", b"one", place.at(seconds=240)))).task_id
    first, second = moved("m1", task, place.at(seconds=20)), moved("m2", task, place.at(seconds=90))
    answers = [await place.first.Reschedule(first), await place.first.Reschedule(second)]
    assert [await place.again.Reschedule(first), await place.again.Reschedule(second)] == answers
    await place.advance(seconds=60)
    assert place.got == []
    await place.advance(seconds=60)
    assert place.got == [b"one"]
    assert [await place.again.Reschedule(first), await place.again.Reschedule(second)] == answers
    await place.advance(seconds=90)
    assert place.got == [b"one"]


async def test_repeats_of_many_moves_are_known(place: Place) -> None:
    """More than the register of a task holds."""
    task = (await place.first.Schedule(schedule("s", b"one", place.at(seconds=240)))).task_id
    calls = [moved(f"m{n}", task, place.at(seconds=30 + n)) for n in range(60)]
    answers = [await place.first.Reschedule(call) for call in calls]
    # Whatever was forgotten would stand instead of the last one.
    assert [await place.again.Reschedule(call) for call in calls[:40]] == answers[:40]
    await place.advance(seconds=88)
    assert place.got == []
    await place.advance(seconds=2)
    assert place.got == [b"one"]


async def test_a_move_by_delay_is_known_again_when_its_request_time_is_long_ago(place: Place) -> None:
    task = (await place.first.Schedule(schedule("s", b"one", place.at(seconds=240)))).task_id
    delay, request_time = Duration(seconds=200), place.at()
    call = pb.RescheduleRequest(request_id="m", task_id=task, delay=delay, request_time=request_time)
    said = await place.first.Reschedule(call)
    await place.advance(seconds=65)
    assert await place.again.Reschedule(call) == said


@pytest.mark.parametrize("key", ["", "order-17"])
async def test_a_call_of_the_sdk_with_a_delay_and_a_request_id_is_known_again(place: Place, key: str) -> None:
    """It is made later, and perhaps by another process: its delay counts from the first time."""
    first, again = place.clients()
    asked: Any = {"queue": QUEUE, "payload": b"x", "delay": 90, "key": key or None, "request_id": "remind-17"}
    task = await first.schedule(**asked)
    await place.advance(seconds=20)
    repeated = await again.schedule(**asked)
    assert (repeated.id, repeated.fire_time) == (task.id, task.fire_time)
    moved = await first.reschedule(task.id, delay=120, request_id="later-17")
    await place.advance(seconds=20)
    assert await again.reschedule(task.id, delay=120, request_id="later-17") == moved
    await place.advance(minutes=10)
    assert place.got == [b"x"]


async def test_fire_now_fires_once(place: Place) -> None:
    task = (await place.first.Schedule(schedule("s", b"one", place.at(seconds=240)))).task_id
    call = pb.FireNowRequest(request_id="f", task_id=task)
    said = await place.first.FireNow(call)
    await place.advance(seconds=10)
    assert place.got == [b"one"]
    assert await place.again.FireNow(call) == said
    await place.advance(seconds=90)
    assert place.got == [b"one"]


async def test_a_held_up_move_does_not_undo_a_later_one(place: Place) -> None:
    """None of its tries was carried out before the later call was acknowledged."""
    task = (await place.first.Schedule(schedule("s", b"one", place.at(seconds=240)))).task_id
    late = pb.RescheduleRequest(request_id="m1", task_id=task, fire_time=place.at(seconds=20), request_time=place.at())
    await place.advance(seconds=1)
    later = pb.RescheduleRequest(request_id="m2", task_id=task, fire_time=place.at(seconds=90), request_time=place.at())
    await place.first.Reschedule(later)
    await place.advance(seconds=20)
    assert await answer(place.again.Reschedule(late)) == "OVERTAKEN"
    await place.advance(seconds=60)
    assert place.got == []


async def test_a_held_up_replace_does_not_undo_a_later_one(place: Place) -> None:
    late = schedule("r1", b"one", place.at(seconds=20), "order", CONFLICT_POLICY_REPLACE)
    late.request_time.CopyFrom(place.at())
    await place.advance(seconds=1)
    later = schedule("r2", b"two", place.at(seconds=25), "order", CONFLICT_POLICY_REPLACE)
    later.request_time.CopyFrom(place.at())
    await place.first.Schedule(later)
    await place.advance(seconds=20)
    assert await answer(place.again.Schedule(late)) == "OVERTAKEN, only this try"
    await place.advance(seconds=40)
    assert place.got == [b"two"]


async def test_a_cancel_by_key_is_about_the_task_that_had_the_key(place: Place) -> None:
    first = await place.first.Schedule(schedule("s1", b"one", place.at(seconds=20), "order"))
    call = pb.CancelRequest(request_id="c", key="order")
    assert (await place.first.Cancel(call)).outcome == CANCEL_OUTCOME_CANCELLED
    second = await place.first.Schedule(schedule("s2", b"two", place.at(seconds=20), "order"))
    assert first.task_id != second.task_id
    assert (await place.again.Cancel(call)).outcome == CANCEL_OUTCOME_CANCELLED
    await place.advance(seconds=40)
    assert place.got == [b"two"]


async def test_a_cancel_that_found_no_task_with_the_key_finds_none_later(place: Place) -> None:
    call = pb.CancelRequest(request_id="c", key="order")
    assert (await place.first.Cancel(call)).outcome == CANCEL_OUTCOME_NOT_FOUND
    await place.first.Schedule(schedule("s", b"one", place.at(seconds=20), "order"))
    assert (await place.again.Cancel(call)).outcome == CANCEL_OUTCOME_NOT_FOUND
    await place.advance(seconds=40)
    assert place.got == [b"one"]


async def test_a_move_by_key_is_about_the_task_that_had_the_key(place: Place) -> None:
    await place.first.Schedule(schedule("s1", b"one", place.at(seconds=240), "order"))
    call = pb.RescheduleRequest(request_id="m", key="order", fire_time=place.at(seconds=20))
    said = await place.first.Reschedule(call)
    await place.advance(seconds=25)
    await place.first.Schedule(schedule("s2", b"two", place.at(seconds=240), "order"))
    assert await place.again.Reschedule(call) == said
    await place.advance(seconds=40)
    assert place.got == [b"one"]


async def test_a_move_of_a_batch_is_known_again_alone_and_in_another_batch(place: Place) -> None:
    """By its own request_id and content, by id and by key."""
    one = (await place.first.Schedule(schedule("s1", b"one", place.at(seconds=240)))).task_id
    await place.first.Schedule(schedule("s2", b"two", place.at(seconds=240), "order"))
    by_id = moved("m1", one, place.at(seconds=20))
    by_key = pb.RescheduleRequest(request_id="m2", key="order", fire_time=place.at(seconds=30))
    said = await place.first.RescheduleBatch(pb.RescheduleBatchRequest(moves=[by_id, by_key]))
    assert [result.fire_time for result in said.results] == [by_id.fire_time, by_key.fire_time]
    later = await place.first.Reschedule(moved("m3", one, place.at(seconds=90)))
    assert await place.again.RescheduleBatch(pb.RescheduleBatchRequest(moves=[by_key, by_id])) == (
        pb.RescheduleBatchResponse(results=reversed(said.results))
    )
    assert (await place.again.Reschedule(by_id)).fire_time == by_id.fire_time
    await place.advance(seconds=40)
    assert place.got == [b"two"]
    await place.first.Schedule(schedule("s3", b"three", place.at(seconds=240), "order"))
    assert (await place.again.RescheduleBatch(pb.RescheduleBatchRequest(moves=[by_key]))).results[0] == said.results[1]
    await place.advance(seconds=60)
    assert (later.task_id, place.got) == (one, [b"two", b"one"])


async def test_a_batch_goes_on_where_single_moves_have_ended(place: Place) -> None:
    """As a relay of the outbox does whose server is of another release by then."""
    tasks = [
        (await place.first.Schedule(schedule(f"s{n}", b"%d" % n, place.at(seconds=240)))).task_id for n in range(3)
    ]
    calls = [moved(f"m{n}", task, place.at(seconds=20 + n)) for n, task in enumerate(tasks)]
    await place.first.Reschedule(calls[1])
    said = await place.again.RescheduleBatch(pb.RescheduleBatchRequest(moves=calls))
    assert [result.fire_time for result in said.results] == [call.fire_time for call in calls]
    await place.advance(seconds=40)
    assert place.got == [b"0", b"1", b"2"]


async def test_a_move_of_a_batch_by_delay_is_known_again_when_its_request_time_is_long_ago(place: Place) -> None:
    """What was carried out is told; what was not is refused for its time."""
    await place.first.Schedule(schedule("s1", b"one", place.at(seconds=240), "order"))
    two = (await place.first.Schedule(schedule("s2", b"two", place.at(seconds=240)))).task_id
    delay, request_time = Duration(seconds=200), place.at()
    by_key = pb.RescheduleRequest(request_id="m", key="order", delay=delay, request_time=request_time)
    said = await place.first.RescheduleBatch(pb.RescheduleBatchRequest(moves=[by_key]))
    await place.advance(seconds=65)
    other = pb.RescheduleRequest(request_id="n", task_id=two, delay=delay, request_time=request_time)
    again = (await place.again.RescheduleBatch(pb.RescheduleBatchRequest(moves=[by_key, other]))).results
    assert (again[0], again[1].problem.reason) == (said.results[0], "CLOCKS_DIFFER")


async def test_what_a_purge_left_and_what_came_later_is_not_purged_by_its_repeat(place: Place) -> None:
    await place.first.Schedule(schedule("s1", b"one", place.at(seconds=20)))
    span = {"start_time": place.at(), "end_time": place.at(seconds=40)}
    call = pb.PurgeRequest(request_id="p", filter={**span, "queue": QUEUE}, force=True)
    said = await place.first.Purge(call)
    assert said.purged == 1
    await place.first.Schedule(schedule("s2", b"two", place.at(seconds=25)))
    assert await place.again.Purge(call) == said
    await place.advance(seconds=40)
    assert place.got == [b"two"]


async def test_a_redrive_brings_a_task_back_once(place: Place) -> None:
    """Its repeat leaves the dead letter of the second life alone."""
    task = (await place.first.Schedule(schedule("s", b"bad", place.at(seconds=5)))).task_id
    await place.advance(seconds=10)
    call = pb.RedriveRequest(request_id="r", task_ids=[task])
    said = await place.first.Redrive(call)
    assert said.redriven == 1
    await place.advance(seconds=10)
    assert place.got == [b"bad", b"bad"]
    assert await place.again.Redrive(call) == said
    await place.advance(seconds=10)
    assert place.got == [b"bad", b"bad"]
    dead_letters = await place.first.ListDeadLetters(pb.ListDeadLettersRequest(queue=QUEUE))
    assert [letter.task.task_id for letter in dead_letters.dead_letters] == [task]


async def test_a_repeat_of_a_cancel_leaves_a_task_alone_that_lives_again(place: Place) -> None:
    """It was a dead letter when the call was made first. Another cancel ends it."""
    asked = {name: schedule(name, b"third time %b" % name.encode(), place.at(seconds=5)) for name in ("one", "two")}
    for call in asked.values():
        call.template.retry.max_attempts = 3
    tasks = [(await place.first.Schedule(call)).task_id for call in asked.values()]
    await place.advance(seconds=10)
    calls = [pb.CancelRequest(request_id="c", task_id=task) for task in tasks]
    assert [(await place.first.Cancel(call)).outcome for call in calls] == [CANCEL_OUTCOME_ALREADY_FIRED] * 2
    batch = pb.CancelBatchRequest(request_id="b", task_ids=tasks)
    said = await place.first.CancelBatch(batch)
    assert (await place.first.Redrive(pb.RedriveRequest(request_id="r", task_ids=tasks))).redriven == 2
    await place.advance(seconds=10)
    assert [(await place.again.Cancel(call)).outcome for call in calls] == [CANCEL_OUTCOME_ALREADY_FIRED] * 2
    assert await place.again.CancelBatch(batch) == said
    other = pb.CancelRequest(request_id="other", task_id=tasks[1])
    assert (await place.again.Cancel(other)).outcome == CANCEL_OUTCOME_CANCELLED
    await place.advance(seconds=90)
    assert sorted(place.got) == [b"third time one"] * 3 + [b"third time two"] * 2


async def test_a_redrive_of_other_content_is_another_redrive(place: Place) -> None:
    """Whatever its request_id: what has died again since lives again."""
    task = (await place.first.Schedule(schedule("s", b"bad", place.at(seconds=5)))).task_id
    await place.advance(seconds=10)
    assert (await place.first.Redrive(pb.RedriveRequest(request_id="r", task_ids=[task]))).redriven == 1
    await place.advance(seconds=10)
    assert (await place.again.Redrive(pb.RedriveRequest(request_id="r", queue=QUEUE))).redriven == 1
    await place.advance(seconds=10)
    assert place.got == [b"bad"] * 3


async def test_a_redrive_of_a_queue_leaves_what_died_later(place: Place) -> None:
    await place.first.Schedule(schedule("s1", b"bad 1", place.at(seconds=5)))
    await place.advance(seconds=10)
    call = pb.RedriveRequest(request_id="r", queue=QUEUE)
    said = await place.first.Redrive(call)
    await place.advance(seconds=10)
    await place.first.Schedule(schedule("s2", b"bad 2", place.at(seconds=5)))
    await place.advance(seconds=10)
    assert await place.again.Redrive(call) == said
    await place.advance(seconds=10)
    assert place.got == [b"bad 1", b"bad 1", b"bad 2"]


async def test_a_delay_is_known_again_when_its_request_time_is_long_ago(place: Place) -> None:
    """It is recognised before the clocks are compared."""
    template = TaskTemplate(queue=QUEUE)
    call = pb.ScheduleRequest(
        request_id="r", template=template, payload=b"one", delay=Duration(seconds=90), request_time=place.at()
    )
    said = await place.first.Schedule(call)
    await place.advance(seconds=65)
    assert await place.again.Schedule(call) == said
    await place.advance(seconds=40)
    assert place.got == [b"one"]
    assert said.outcome == ITEM_OUTCOME_STORED


@pytest.mark.parametrize("by", ["instant", "span"])
@pytest.mark.parametrize("form", ["unary", "columns", "items"])
async def test_a_delay_is_known_again_when_it_would_end_after_the_task_expires(
    place: Place, form: str, by: str
) -> None:
    """By now: it was judged when the call was made first, and who calls does not say when that was."""
    expiring, due = TaskTemplate(queue=QUEUE, expire_time=place.at(seconds=40)), Duration(seconds=30)
    if by == "span":
        expiring = TaskTemplate(queue=QUEUE, expire_after=Duration(seconds=10))
    unary = pb.ScheduleRequest(request_id="r", template=expiring, payload=b"one", delay=due)
    columns = pb.TaskColumns(delay_ms=[30_000, 31_000], payloads=b"onetwo", payload_lengths=[3, 3])
    items = pb.TaskItems(items=[pb.TaskItem(payload=each, delay=due) for each in (b"one", b"two")])
    batch = pb.ScheduleBatchRequest(request_id="r", template=expiring)
    if form == "columns":
        batch.columns.CopyFrom(columns)
    else:
        batch.items.CopyFrom(items)
    call, verb = (unary, "Schedule") if form == "unary" else (batch, "ScheduleBatch")
    said = await getattr(place.first, verb)(call)
    await place.advance(seconds=20)
    assert await getattr(place.again, verb)(call) == said
    await place.advance(seconds=60)
    assert await getattr(place.again, verb)(call) == said
    assert place.got == ([b"one"] if form == "unary" else [b"one", b"two"])


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_repeat_is_known_as_long_as_its_task_has_not_fired_and_a_day_more(place: Place) -> None:
    """It does not say when it was made, and other calls are forgotten after a day."""
    call = schedule("r", b"one", place.at(hours=50))
    said = await place.first.Schedule(call)
    for _ in range(3):
        await place.advance(hours=24)
        assert await place.again.Schedule(call) == said
    assert place.got == [b"one"]
    await place.advance(hours=30)
    # When exactly it is forgotten is not promised.
    assert await answer(place.again.Schedule(call)) in (said, "REQUEST_TOO_OLD, only this try")
    await place.advance(hours=1)
    assert place.got == [b"one"]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_that_is_so_as_well_in_the_last_hour_before_it_is_due(place: Place) -> None:
    """Also of a task that was cancelled or moved meanwhile, before memory has met it or after."""
    calls = [schedule(name, name.encode(), place.at(hours=50)) for name in ("plain", "cancelled", "moved", "late")]
    said = [await place.first.Schedule(call) for call in calls]
    await place.advance(hours=30)
    await place.first.Cancel(pb.CancelRequest(task_id=said[1].task_id))
    await place.first.Reschedule(pb.RescheduleRequest(task_id=said[2].task_id, fire_time=place.at(hours=21)))
    await place.advance(hours=19, minutes=30)
    # What is remembered for a day goes as new calls come.
    await place.first.Schedule(schedule("", b"other", place.at(hours=9)))
    assert [await place.again.Schedule(call) for call in calls[:3]] == said[:3]
    await place.advance(minutes=29)
    await place.first.Cancel(pb.CancelRequest(task_id=said[3].task_id))
    assert [await place.again.Schedule(call) for call in calls] == said
    await place.advance(hours=3)
    assert place.got == [b"plain", b"moved"]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_call_for_long_ago_says_when_it_was_made(place: Place) -> None:
    """With a request_id: without one it cannot be a repeat."""
    call = schedule("r1", b"one", place.at(hours=-30))
    assert await answer(place.first.Schedule(call)) == "REQUEST_TOO_OLD, only this try"
    call.request_time.CopyFrom(place.at())
    await place.first.Schedule(call)
    await place.first.Schedule(schedule("", b"two", place.at(hours=-30)))
    await place.advance(minutes=1)
    assert sorted(place.got) == [b"one", b"two"]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_what_may_be_an_old_repeat_is_refused_and_says_that_it_speaks_of_this_try_only(place: Place) -> None:
    """Calls are remembered for a day."""
    call = schedule("r", b"one", place.at())
    call.request_time.CopyFrom(place.at())
    await place.first.Schedule(call)
    await place.advance(minutes=1)
    await place.advance(hours=26)
    # What is remembered goes as new calls come.
    await place.first.Schedule(schedule("", b"two", place.at(hours=9)))
    assert await answer(place.again.Schedule(call)) == "REQUEST_TOO_OLD, only this try"
    for verb, old in {
        "Cancel": pb.CancelRequest(request_id="c", key="k", request_time=call.request_time),
        "Purge": pb.PurgeRequest(request_id="p", filter={"queue": QUEUE}, force=True, request_time=call.request_time),
        "Redrive": pb.RedriveRequest(request_id="d", queue=QUEUE, request_time=call.request_time),
    }.items():
        assert await answer(getattr(place.again, verb)(old)) == "REQUEST_TOO_OLD, only this try", verb
    await place.advance(minutes=1)
    assert place.got == [b"one"]


async def answer(call: Awaitable[Any]) -> Any:  # noqa: ANN401 - a reply, or the reason of a refusal
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        refused = error
    status = rpc_status.from_call(cast(grpc.Call, refused))
    assert status is not None, refused
    info = ErrorInfo()
    assert any(detail.Unpack(info) for detail in status.details), refused
    return info.reason + (", only this try" if info.metadata.get("only_this_try") == "true" else "")


async def test_a_limit_that_was_lowered_does_not_refuse_what_is_stored(tmp_path: Path) -> None:
    """As after an upgrade. Of a batch a task that was refused then is refused again, though it would be stored now."""
    due = Timestamp(seconds=1_893_456_060)
    one = schedule("r1", b"x" * 2_000, due)
    items = pb.TaskItems(items=[pb.TaskItem(fire_time=due, payload=payload) for payload in (b"x" * 2_000, b"one")])
    batch = pb.ScheduleBatchRequest(request_id="r2", template=TaskTemplate(queue=QUEUE), items=items)

    async def ask(limit_bytes: int, method: str, request: Message) -> Any:  # noqa: ANN401 - the reply
        config = replace(CONFIG, payload_limit_bytes=limit_bytes)
        async with Server(data=tmp_path, config=config) as server, grpc.aio.insecure_channel(server.address) as channel:
            return await getattr(TimerServiceStub(channel), method)(request)

    answers = [await ask(limit_bytes, "Schedule", one) for limit_bytes in (4_096, 1_024)]
    assert answers[0] == answers[1]
    replies = [await ask(limit_bytes, "ScheduleBatch", batch) for limit_bytes in (1_024, 4_096)]
    for reply in replies:
        assert [result.outcome for result in reply.results] == [ITEM_OUTCOME_NOT_STORED, ITEM_OUTCOME_STORED]
    assert replies[0].results[1] == replies[1].results[1]


@pytest.mark.parametrize("form", ["items", "columns"])
async def test_an_item_that_was_refused_is_refused_again_for_the_same_reason(place: Place, form: str) -> None:
    """By a limit of the server's, by the time, and by rules that never change; beside one that was stored."""
    due = Timestamp(seconds=1_893_456_060)
    large, late = b"x" * (CONFIG.payload_limit_bytes + 1), Timestamp(seconds=8_000_000_000)
    if form == "items":
        asked = [(due, large), (due, b"good"), (late, b"late")]
        items = pb.TaskItems(items=[pb.TaskItem(fire_time=at, payload=payload) for at, payload in asked])
        batch = pb.ScheduleBatchRequest(request_id="r", template=TaskTemplate(queue=QUEUE), items=items)
    else:
        due_ms = due.seconds * 1_000
        columns = pb.TaskColumns(
            fire_at_ms=[due_ms, due_ms, late.seconds * 1_000],
            payload_lengths=[len(large), 4, 4],
            payloads=large + b"goodlate",
        )
        batch = pb.ScheduleBatchRequest(request_id="r", template=TaskTemplate(queue=QUEUE), columns=columns)
    first = await place.first.ScheduleBatch(batch)
    assert [result.outcome for result in first.results][:2] == [ITEM_OUTCOME_NOT_STORED, ITEM_OUTCOME_STORED]
    assert first.results[0].problem.reason == "PAYLOAD_TOO_LARGE"
    await place.advance(seconds=5)
    again = await place.again.ScheduleBatch(batch)
    assert again.stored == 1
    assert list(map(said_of, again.results)) == list(map(said_of, first.results))
    await place.advance(minutes=2)
    assert place.got == [b"good"]


async def test_what_was_too_large_is_not_let_in_by_a_repeat_that_comes_too_late_for_its_delays(place: Place) -> None:
    """It would be refused for the time by now, so what it may have is judged apart from that."""
    wait, large = Duration(seconds=7_200), b"x" * (CONFIG.payload_limit_bytes + 1)
    items = pb.TaskItems(items=[pb.TaskItem(delay=wait, payload=payload) for payload in (large, b"good")])
    template = TaskTemplate(queue=QUEUE)
    batch = pb.ScheduleBatchRequest(request_id="r", template=template, items=items, request_time=place.at())
    first = await place.first.ScheduleBatch(batch)
    assert first.stored == 1
    await place.advance(minutes=3)
    again = await place.again.ScheduleBatch(batch)
    assert again.stored == 1
    assert list(map(said_of, again.results)) == list(map(said_of, first.results))


async def test_what_was_refused_for_the_time_is_not_let_in_by_a_repeat(place: Place) -> None:
    """A delay of a caller whose clock is off, beside an instant."""
    items = [pb.TaskItem(delay=Duration(seconds=7_200), payload=b"off"), pb.TaskItem(fire_time=place.at(hours=1))]
    asked, template = pb.TaskItems(items=items), TaskTemplate(queue=QUEUE)
    batch = pb.ScheduleBatchRequest(request_id="r", template=template, items=asked, request_time=place.at(minutes=-2))
    first = await place.first.ScheduleBatch(batch)
    again = await place.again.ScheduleBatch(batch)
    assert first.results[0].problem.reason == "CLOCKS_DIFFER"
    assert (first.stored, again.stored) == (1, 1)
    assert list(map(said_of, again.results)) == list(map(said_of, first.results))


def said_of(result: Any) -> tuple[object, ...]:  # noqa: ANN401 - of a batch
    """All but the sentence, which may name the time."""
    return result.outcome, result.task_id, result.problem.reason, result.problem.field
