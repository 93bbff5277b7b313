"""The Session stream: many messages in hand, replies in any order, errors that stay with their message."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.services.api_rig import NOW_MS, FakeVerbs, running
from tests.services.session_rig import batch, opened
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.services.transport import session as session_module
from timerd.v1 import task_pb2 as task_wire
from timerd.v1 import timer_service_pb2 as wire


async def replies(call: Any, count: int) -> dict[int, wire.SessionResponse]:  # noqa: ANN401
    found = [await call.read() for _ in range(count)]
    return {reply.sequence: reply for reply in found}


async def test_the_window_comes_first_and_says_what_holds() -> None:
    async with running() as rig:
        call = rig.stub.Session()
        window = (await call.read()).window
        assert window.max_unanswered_bytes == session_module.MAX_UNANSWERED_BYTES
        assert window.max_unanswered_requests == session_module.MAX_UNANSWERED_REQUESTS
        call.cancel()


async def test_each_kind_of_message_is_answered_under_its_sequence() -> None:
    async with running() as rig:
        call = await opened(rig)
        await call.write(batch(7))
        schedule = (await replies(call, 1))[7].schedule
        assert schedule.stored == 1
        (view,) = rig.verbs.views.values()
        task_id = str(view.task_id)
        move = wire.RescheduleRequest(task_id=task_id, fire_time=Timestamp(seconds=NOW_MS // 1000 + 60))
        await call.write(wire.SessionRequest(sequence=8, reschedule=move))
        assert (await replies(call, 1))[8].reschedule.task_id == task_id
        await call.write(wire.SessionRequest(sequence=9, cancel=wire.CancelBatchRequest(task_ids=[task_id])))
        assert list((await replies(call, 1))[9].cancel.outcomes) == [task_wire.CANCEL_OUTCOME_CANCELLED]
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_a_slow_message_does_not_hold_up_the_next() -> None:
    first = asyncio.Event()
    waits = iter([True, False])

    async def gate() -> None:
        if next(waits):
            await first.wait()

    async with running(FakeVerbs(gate=gate)) as rig:
        call = await opened(rig)
        await call.write(batch(1))
        await call.write(batch(2))
        assert (await call.read()).sequence == 2
        first.set()
        assert (await call.read()).sequence == 1
        call.cancel()


NOW_S = NOW_MS // 1000
BAD_MESSAGES = {
    "nothing asked": (wire.SessionRequest(), "request"),
    "bad queue": (batch(0, template=task_wire.TaskTemplate(queue="a b")), "template.queue"),
    "bad namespace": (
        wire.SessionRequest(cancel=wire.CancelBatchRequest(namespace="a b", task_ids=["x"])),
        "namespace",
    ),
    "no ids": (wire.SessionRequest(cancel=wire.CancelBatchRequest()), "task_ids"),
    "unknown id": (
        wire.SessionRequest(
            reschedule=wire.RescheduleRequest(task_id="x", fire_time=Timestamp(seconds=NOW_MS // 1000))
        ),
        "task_id",
    ),
}


@pytest.mark.parametrize("name", BAD_MESSAGES)
async def test_a_bad_message_is_answered_and_the_stream_goes_on(name: str) -> None:
    message, field = BAD_MESSAGES[name]
    async with running() as rig:
        call = await opened(rig)
        message.sequence = 5
        await call.write(message)
        problem = (await replies(call, 1))[5].problem
        assert problem.field == field
        assert problem.message.endswith((".", ":"))
        await call.write(batch(6))
        assert (await replies(call, 1))[6].schedule.stored == 1
        call.cancel()


async def test_bytes_that_are_no_message_are_answered_and_the_stream_goes_on() -> None:
    async with running() as rig:
        raw: Any = rig.channel.stream_stream("/timerd.v1.TimerService/Session", None, wire.SessionResponse.FromString)()
        await raw.read()
        await raw.write(b"\xff\xff\xff")
        problem = (await raw.read()).problem
        assert (problem.reason, problem.code) == ("MALFORMED", grpc.StatusCode.INVALID_ARGUMENT.value[0])
        await raw.write(batch(2).SerializeToString())
        assert (await raw.read()).schedule.stored == 1
        raw.cancel()


async def test_a_message_over_the_limit_is_answered_under_its_sequence() -> None:
    async with running() as rig:
        call = await opened(rig)
        await call.write(batch(4, 300, b"x" * 60_000))
        problem = (await replies(call, 1))[4].problem
        assert problem.reason == "MESSAGE_TOO_LARGE"
        assert rig.verbs.asked == []
        call.cancel()


async def test_errors_of_the_engine_stay_with_their_message(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as rig:
        call = await opened(rig)
        told = {}
        for sequence, error in enumerate(
            [StoreUnavailable("The store is down.", "STORE_DOWN", retry_after_ms=500), StoreUnknown("?"), KeyError("x")]
        ):
            rig.verbs.fail = error
            await call.write(batch(sequence))
            problem = (await replies(call, 1))[sequence].problem
            told[sequence] = (problem.code, problem.reason, problem.retry_after_ms)
        assert told == {
            0: (grpc.StatusCode.UNAVAILABLE.value[0], "STORE_DOWN", 500),
            1: (grpc.StatusCode.UNKNOWN.value[0], "", 0),
            2: (grpc.StatusCode.INTERNAL.value[0], "", 0),
        }
        call.cancel()
    assert "KeyError" in caplog.text


async def test_no_more_than_the_window_is_in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MAX_UNANSWERED_REQUESTS", 3)
    gate, full = asyncio.Semaphore(0), asyncio.Event()
    in_hand = most = 0

    async def pass_gate() -> None:
        nonlocal in_hand, most
        in_hand += 1
        most = max(most, in_hand)
        if in_hand == 3:
            full.set()
        await gate.acquire()
        in_hand -= 1

    async with running(FakeVerbs(gate=pass_gate)) as rig:
        call = await opened(rig)
        for sequence in range(10):
            await call.write(batch(sequence))
        await full.wait()
        for _ in range(10):
            gate.release()
        assert set(await replies(call, 10)) == set(range(10))
        call.cancel()
    assert most == 3


async def test_what_has_begun_is_carried_through_when_the_client_hangs_up() -> None:
    begun, go, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def gate() -> None:
        begun.set()
        await go.wait()
        done.set()

    async with running(FakeVerbs(gate=gate)) as rig:
        call = await opened(rig)
        await call.write(batch(1))
        await begun.wait()
        call.cancel()
        await rig.channel.close()
        go.set()
        await done.wait()
        await rig.api.finished(10_000)
        assert len(rig.verbs.views) == 1


async def test_drain_answers_what_was_read_and_ends_the_stream_well() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def gate() -> None:
        begun.set()
        await go.wait()

    async with running(FakeVerbs(gate=gate)) as rig:
        call = await opened(rig)
        await call.write(batch(1))
        await begun.wait()
        stopping = asyncio.create_task(rig.server.stop(10_000))
        await asyncio.sleep(0)
        go.set()
        assert (await call.read()).schedule.stored == 1
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK
        await stopping


async def test_beyond_the_ingest_budget_nothing_is_written() -> None:
    go = asyncio.Event()
    async with running(FakeVerbs(gate=go.wait), ingest_budget_bytes=100_000) as rig:
        call = await opened(rig)
        await call.write(batch(1, 10, b"x" * 6_000))
        await call.write(batch(2, 10, b"x" * 6_000))
        refused = await call.read()
        assert (refused.sequence, refused.problem.reason) == (2, "INGEST_BUDGET")
        assert refused.problem.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        assert refused.problem.retry_after_ms > 0
        go.set()
        assert (await call.read()).schedule.stored == 10
        assert rig.api.ingest.used_bytes == 0
        await call.write(batch(3, 10, b"x" * 6_000))
        assert (await call.read()).schedule.stored == 10
        assert len(rig.verbs.scheduled) == 2
        call.cancel()
