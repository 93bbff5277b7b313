"""Lost answers: the same bytes again, until the deadline, and then the truth about the outcome."""

from __future__ import annotations

import asyncio
import random
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from tests.sdk.fake_server import FakeServer
from timerd import Client
from timerd.client import AccessDenied, InvalidTask, OutcomeUnknown, Unavailable
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

SOON = datetime.now(UTC) + timedelta(minutes=5)
BUSY = task_pb2.Problem(code=8, message="Too much in hand.", reason="INGEST_BUDGET", retry_after_ms=5)
DOWN = task_pb2.Problem(code=14, message="The store is down.", reason="STORE_DOWN")
LOST = task_pb2.Problem(code=13, message="Something broke.")
NO_TOKEN = task_pb2.Problem(code=16, message="The token has expired.", reason="NO_ACCESS", only_this_try=True)


async def test_after_a_broken_stream_the_same_bytes_go_out_again(client: Client, server: FakeServer) -> None:
    server.timers.break_after_storing = 1
    task = await client.schedule("q", "once", delay=60)
    first, second = server.timers.received
    assert first == second
    assert server.timers.sessions == 2
    assert server.timers.payloads == [b"once"]
    assert task.id


async def test_every_unanswered_message_is_sent_again_in_its_order(client: Client, server: FakeServer) -> None:
    server.timers.gate.clear()
    server.timers.break_after_storing = 1
    calls = [asyncio.create_task(client.schedule("q", str(n), at=SOON, request_id=f"r{n}")) for n in range(5)]
    await server.timers.until(lambda: bool(server.timers.received))
    server.timers.gate.set()
    assert len({task.id for task in await asyncio.gather(*calls)}) == 5
    again = [request.schedule.request_id for request in server.timers.requests()[1:]]
    assert again == ["r0", "r1", "r2", "r3", "r4"]
    assert server.timers.payloads == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("refusal", [BUSY, DOWN, LOST])
async def test_a_refusal_that_may_pass_is_followed_by_the_same_bytes(
    client: Client, server: FakeServer, refusal: task_pb2.Problem
) -> None:
    server.timers.refusals.extend([refusal, refusal])
    assert (await client.schedule("q", "x", delay=60)).id
    assert len(server.timers.received) == 3
    assert len(set(server.timers.received)) == 1


async def test_a_refusal_that_speaks_of_its_try_only_says_nothing_of_a_lost_one(
    client: Client, server: FakeServer
) -> None:
    server.timers.refusals.extend([LOST, NO_TOKEN])
    with pytest.raises(OutcomeUnknown, match="earlier try"):
        await client.schedule("q", "x", delay=60)
    server.timers.refusals.extend([DOWN, NO_TOKEN])
    with pytest.raises(AccessDenied):
        await client.schedule("q", "x", delay=60)


async def test_a_call_that_may_undo_another_one_says_when_it_was_made(client: Client, server: FakeServer) -> None:
    """Unless its caller may make it again with the same request_id: then nothing in it depends on the time."""
    stored = {0: pb.ItemResult(outcome=task_pb2.ITEM_OUTCOME_STORED, task_id="A1")}
    await client.reschedule("A1", at=SOON)
    server.timers.item_results = dict(stored)
    await client.schedule("q", "x", at=SOON, key="k", on_conflict="replace")
    assert [has_time(request) for request in server.timers.requests()] == [True, True]
    await client.reschedule("A1", at=SOON, request_id="r1")
    server.timers.item_results = dict(stored)
    await client.schedule("q", "x", at=SOON, key="k", on_conflict="replace", request_id="r2")
    await client.schedule("q", "x", at=SOON)
    assert [has_time(request) for request in server.timers.requests()[2:]] == [False, False, False]


async def test_what_its_caller_may_make_again_is_the_same_bytes_each_time(server: FakeServer) -> None:
    """At another time, and within another trace."""
    now, traces = datetime(2030, 1, 1, tzinfo=UTC), iter(range(1, 9))

    class Tracing:
        def traceparent(self) -> str:
            return f"00-{next(traces):032x}-0000000000000001-01"

        def handling(self, deliveries: object) -> nullcontext[None]:
            return nullcontext()

    async with Client(server.target, clock=lambda: now, tracing=Tracing()) as client:
        for _ in range(2):
            await client.schedule("q", "x", delay=5, key="k", request_id="r1")
            await client.schedule("q", "x", delay=5, request_id="r2")
            await client.reschedule("A1", delay=5, request_id="r3")
            now += timedelta(minutes=1)
    sent = [*server.timers.requests()]
    for request in sent:
        request.sequence = 0
    assert sent[:3] == sent[3:]


def has_time(request: pb.SessionRequest) -> bool:
    return request.schedule.HasField("request_time") or request.reschedule.HasField("request_time")


async def test_cancel_and_reschedule_are_repeated_too(client: Client, server: FakeServer) -> None:
    server.timers.refusals.append(DOWN)
    assert (await client.cancel("A1")).name == "CANCELLED"
    server.timers.break_after_storing = 1
    await client.reschedule("A1", delay=5)
    cancel, same_cancel, move, same_move = server.timers.received
    assert cancel == same_cancel
    assert move == same_move


async def test_an_unknown_item_is_asked_for_again(client: Client, server: FakeServer) -> None:
    server.timers.item_results = {0: pb.ItemResult(outcome=task_pb2.ITEM_OUTCOME_UNKNOWN)}
    call = asyncio.create_task(client.schedule("q", "x", at=SOON))
    await server.timers.until(lambda: bool(server.timers.by_request_id))
    server.timers.by_request_id.clear()
    assert (await call).id
    assert len(set(server.timers.received)) == 1


async def test_at_the_deadline_items_that_are_known_are_told(server: FakeServer) -> None:
    server.timers.item_results = {0: pb.ItemResult(outcome=task_pb2.ITEM_OUTCOME_UNKNOWN)}
    async with Client(server.target, timeout=0.5) as client:
        unknown, stored = await asyncio.gather(
            client.schedule("q", "1", at=SOON), client.schedule("q", "2", at=SOON), return_exceptions=True
        )
    assert isinstance(unknown, OutcomeUnknown)
    assert getattr(stored, "id", "") == "A-1"


async def test_what_was_sent_and_not_answered_has_an_unknown_outcome(server: FakeServer) -> None:
    server.timers.gate.clear()
    async with Client(server.target, timeout=0.2) as client:
        with pytest.raises(OutcomeUnknown, match=r"the outcome is unknown.*same request_id"):
            await client.schedule("q", "x", at=SOON)
    server.timers.gate.set()


async def test_what_was_never_sent_is_known_not_to_be_stored(server: FakeServer) -> None:
    await server.stop()
    async with Client(server.target, timeout=0.3) as client:
        with pytest.raises(Unavailable, match="nothing was sent") as refused:
            await client.schedule("q", "x", at=SOON)
        assert refused.value.reason == "NOT_SENT"
    await server.start()


async def test_a_server_that_comes_back_gets_what_waited(server: FakeServer) -> None:
    port = int(server.target.rpartition(":")[2])
    async with Client(server.target, timeout=20) as client:
        await client.schedule("q", "before", at=SOON)
        await server.stop()
        waiting = asyncio.create_task(client.schedule("q", "meanwhile", at=SOON))
        await asyncio.sleep(0.05)
        await server.start(port)
        assert (await waiting).id
    assert server.timers.payloads == [b"before", b"meanwhile"]


async def test_a_final_refusal_is_not_repeated(client: Client, server: FakeServer) -> None:
    server.timers.refusals.append(task_pb2.Problem(code=3, message="No such queue name.", reason="INVALID"))
    with pytest.raises(InvalidTask, match="No such queue name"):
        await client.schedule("q?", "x", at=SOON)
    assert len(server.timers.received) == 1


async def test_a_stream_that_is_refused_for_good_fails_its_calls_at_once(server: FakeServer) -> None:
    server.timers.refuses_sessions = grpc.StatusCode.UNAUTHENTICATED
    async with Client(server.target, timeout=60) as client:
        with pytest.raises(AccessDenied, match="not for you"):
            await client.schedule("q", "x", at=SOON)


async def test_what_may_be_stored_is_not_called_refused_by_the_stream_after_it(server: FakeServer) -> None:
    server.timers.gate.clear()
    server.timers.break_after_storing = 1
    async with Client(server.target, timeout=60) as client:
        call = asyncio.create_task(client.schedule("q", "x", at=SOON))
        await server.timers.until(lambda: bool(server.timers.received))
        server.timers.refuses_sessions = grpc.StatusCode.PERMISSION_DENIED
        server.timers.gate.set()
        with pytest.raises(OutcomeUnknown, match=r"outcome is unknown.*same request_id.*not for you") as ended:
            await call
    assert (ended.value.code, ended.value.reason) == ("PERMISSION_DENIED", "")
    assert server.timers.payloads == [b"x"]


async def test_a_session_that_was_open_by_a_token_that_has_been_renewed_is_opened_again(server: FakeServer) -> None:
    server.timers.break_after_storing, server.timers.breaks_with = 1, grpc.StatusCode.UNAUTHENTICATED
    async with Client(server.target, timeout=60) as client:
        await client.schedule("q", "x", at=SOON)
    assert (server.timers.sessions, server.timers.payloads) == (2, [b"x"])


async def test_the_window_bounds_what_is_unanswered(client: Client, server: FakeServer) -> None:
    server.timers.window = pb.SessionWindow(max_unanswered_requests=2, max_unanswered_bytes=1 << 20)
    server.timers.gate.clear()
    calls = [asyncio.create_task(client.schedule("q", "x", at=SOON, request_id=f"r{n}")) for n in range(6)]
    await server.timers.until(lambda: bool(server.timers.received))
    session = client._session
    assert len(session._unanswered) == 2
    server.timers.gate.set()
    await asyncio.gather(*calls)
    assert len(server.timers.received) == 6


async def test_a_message_larger_than_the_window_goes_alone(client: Client, server: FakeServer) -> None:
    server.timers.window = pb.SessionWindow(max_unanswered_requests=8, max_unanswered_bytes=100)
    calls = [client.schedule("q", bytes(5000), at=SOON, request_id=f"r{n}") for n in range(3)]
    assert len(await asyncio.gather(*calls)) == 3


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_breaks_each_task_is_stored_once(client: Client, server: FakeServer, seed: int) -> None:
    server.timers.chaos = random.Random(seed)
    singles = [client.schedule("q", f"s{n}", delay=n, request_id=f"r{n}" if n % 7 == 0 else None) for n in range(150)]
    many = asyncio.create_task(client.schedule_many("q", [(f"m{n}", SOON) for n in range(9000)]))
    stored = [*await asyncio.gather(*singles), *await many]
    expected = [f"s{n}".encode() for n in range(150)] + [f"m{n}".encode() for n in range(9000)]
    assert sorted(server.timers.payloads) == sorted(expected)
    assert len({task.id for task in stored}) == len(expected)
    assert server.timers.sessions > 1


async def test_what_was_given_up_while_the_server_is_away_is_not_kept_until_it_is_back(server: FakeServer) -> None:
    """It may be away for days, in which a caller goes on calling."""
    await server.stop()
    async with Client(server.target, timeout=0.2) as client:
        for _ in range(2):
            calls = [client.schedule("q", "x" * 1_000, at=SOON, request_id=f"r{n}") for n in range(20)]
            assert {type(error) for error in await asyncio.gather(*calls, return_exceptions=True)} == {Unavailable}
            assert (len(client._session._outbox), client._session._open) == (0, {})
    await server.start()
