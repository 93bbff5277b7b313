"""The life of a Work stream: leases, broken streams, repeats of settlements, leaving in order."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import grpc
import pytest

from tests.sdk.fake_server import FakeServer, deliver_of, split, token_of
from tests.sdk.worker_rig import ACK, NACK, running
from timerd import Delivery, Worker
from timerd.client import AccessDenied
from timerd.v1 import task_pb2
from timerd.v1 import work_service_pb2 as wk


class Patient:
    """A worker whose handlers wait until they are let go."""

    def __init__(self, server: FakeServer, concurrency: int = 4, lease: float = 30.0) -> None:
        self.worker = Worker(server.target, lease=lease)
        self.go = asyncio.Event()
        self.begun: list[bytes] = []
        self.arrivals: asyncio.Queue[Delivery] = asyncio.Queue()
        self.lost: list[bool] = []
        self.worker.on("q", concurrency=concurrency, shield=True)(self.handle)

    async def handle(self, delivery: Delivery) -> None:
        self.begun.append(delivery.payload)
        self.arrivals.put_nowait(delivery)
        await self.go.wait()
        self.lost.append(delivery.lost)


async def until_begun(patient: Patient, count: int) -> None:
    for _ in range(count):
        await patient.arrivals.get()


async def test_after_a_broken_stream_the_worker_resumes_with_what_it_holds(server: FakeServer) -> None:
    patient = Patient(server)
    async with running(patient.worker):
        server.work.put(deliver_of("q", [b"a", b"b"]))
        await until_begun(patient, 2)
        server.work.break_streams()
        await server.work.until(lambda: len(server.work.opens) == 2)
        patient.go.set()
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 2)
    again = server.work.opens[1]
    assert sorted(split(again.resume)) == [token_of(0), token_of(1)]
    assert [credit.tasks for credit in again.credits] == [2]
    assert patient.begun == [b"a", b"b"]


async def test_a_stream_names_those_that_it_replaces(server: FakeServer) -> None:
    """The last one that was answered, and what was tried since."""
    async with running(Patient(server).worker):
        await server.work.until(lambda: len(server.work.opens) == 1)
        for count in (2, 3):
            server.work.break_streams()
            await server.work.until(lambda wanted=count: len(server.work.opens) == wanted)  # type: ignore[misc]
    first, second, third = server.work.opens
    assert len({first.stream, second.stream, third.stream}) == 3
    assert {len(each.stream) for each in server.work.opens} == {16}
    assert [list(each.replaces) for each in server.work.opens] == [[], [first.stream], [second.stream]]


async def test_settlements_are_sent_again_until_confirmed(server: FakeServer) -> None:
    server.work.confirms = False
    patient = Patient(server)
    patient.go.set()
    async with running(patient.worker):
        server.work.put(deliver_of("q", [b"a"]))
        await server.work.until(lambda: len(server.work.settles) == 1)
        server.work.confirms = True
        server.work.break_streams()
        await server.work.until(lambda: len(server.work.settles) == 2)
    first, again = server.work.settles
    # Credit that was given once is not given again.
    assert (len(first.credits), len(again.credits)) == (1, 0)
    first.ClearField("credits")
    assert first.SerializeToString() == again.SerializeToString()
    assert server.work.opens[1].resume == token_of(0)
    assert patient.begun == [b"a"]


async def test_what_ends_while_there_is_no_stream_is_told_later(server: FakeServer) -> None:
    port = int(server.target.rpartition(":")[2])
    patient = Patient(server)
    async with running(patient.worker):
        server.work.put(deliver_of("q", [b"a"]))
        await until_begun(patient, 1)
        await server.stop()
        patient.go.set()
        await asyncio.sleep(0.05)
        await server.start(port)
        await server.work.until(lambda: bool(server.work.settles))
    assert server.work.tokens() == server.work.tokens(ACK) == [token_of(0)]
    assert [split(opening.resume) for opening in server.work.opens] == [[], [token_of(0)]]
    assert patient.begun == [b"a"]


@pytest.fixture
def waits_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acks that can wait do so longer than a test."""
    monkeypatch.setattr("timerd.sdk.working.work_stream._ACKS_EVERY_S", 3_600.0)


@pytest.mark.usefixtures("waits_long")
async def test_acks_share_a_message_until_a_quarter_of_the_credit_has_come_back(server: FakeServer) -> None:
    patient = Patient(server, concurrency=8)
    patient.go.set()
    async with running(patient.worker):
        for _ in range(2):
            server.work.put(deliver_of("q", [b"a"]))
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 2)
    (settle,) = server.work.settles[:1]
    assert (len(split(settle.ack_tokens)), [credit.tasks for credit in settle.credits]) == (2, [2])


@pytest.mark.usefixtures("waits_long")
async def test_credit_of_a_busy_worker_comes_back_at_once(server: FakeServer) -> None:
    """One of eight ends, seven go on: the server has none left to send anything by."""
    worker, go = Worker(server.target), asyncio.Event()

    @worker.on("q", concurrency=8)
    async def handle(delivery: Delivery) -> None:
        if delivery.payload == b"long":
            await go.wait()

    async with running(worker):
        server.work.put(deliver_of("q", [b"long"] * 7))
        server.work.put(deliver_of("q", [b"short"]))
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 1)
        returned = [credit.tasks for settle in server.work.settles for credit in settle.credits]
        go.set()
    assert returned == [1]


@pytest.mark.usefixtures("waits_long")
@pytest.mark.parametrize("waits", ["a caller", "a key"])
async def test_an_ack_that_something_waits_for_is_told_at_once(server: FakeServer, waits: str) -> None:
    """A caller for the result, though there is none; or the next task of an ordering key."""
    patient = Patient(server, concurrency=100)
    patient.go.set()
    awaited = deliver_of("q", [b"b"], first=1)
    if waits == "a caller":
        awaited.templates[0].keep_result_ms = 1_000
    else:
        awaited.ordering_keys.append("doc-1")
        awaited.order_fences = bytes(20)
    async with running(patient.worker):
        server.work.put(deliver_of("q", [b"a"]))
        server.work.put(awaited)
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 2)
    assert len(server.work.opens) == 1, "a new stream says all of it as well"


@pytest.mark.usefixtures("waits_long")
async def test_acks_that_wait_go_with_what_cannot_wait(server: FakeServer) -> None:
    worker = Worker(server.target)

    @worker.on("q", concurrency=100)
    async def handle(delivery: Delivery) -> None:
        if delivery.payload == b"bad":
            raise ValueError("bad")

    async with running(worker):
        server.work.put(deliver_of("q", [b"good", b"good"]))
        server.work.put(deliver_of("q", [b"bad"]))
        await server.work.until(lambda: len(server.work.tokens()) == 3)
    assert [len(server.work.tokens(action)) for action in (ACK, NACK)] == [2, 1]


@pytest.mark.usefixtures("waits_long")
async def test_a_worker_that_stops_waits_for_no_more(server: FakeServer) -> None:
    patient = Patient(server, concurrency=100)
    patient.go.set()
    async with running(patient.worker):
        server.work.put(deliver_of("q", [b"a"]))
        await until_begun(patient, 1)
    assert server.work.tokens(ACK) == [token_of(0)]


async def test_a_refusal_that_may_pass_is_followed_by_another_try(server: FakeServer) -> None:
    server.work.settle_problem = task_pb2.Problem(code=14, message="The store is down.", reason="STORE_DOWN")
    patient = Patient(server)
    patient.go.set()
    async with running(patient.worker):
        server.work.put(deliver_of("q", [b"a"]))
        await server.work.until(lambda: len(server.work.settles) == 2)
    assert server.work.tokens() == server.work.tokens(ACK) == [token_of(0), token_of(0)]
    assert [settle.sequence for settle in server.work.settles] == [1, 2]


async def test_a_final_refusal_is_not_repeated(server: FakeServer) -> None:
    server.work.settle_problem = task_pb2.Problem(code=9, message="Another worker has it.", reason="LOST")
    patient = Patient(server)
    patient.go.set()
    async with running(patient.worker):
        server.work.put(deliver_of("q", [b"a"]))
        await server.work.until(lambda: bool(server.work.settles))
    assert len(server.work.settles) == 1


async def test_leases_of_everything_in_hand_are_extended(server: FakeServer) -> None:
    patient = Patient(server, lease=0.15)
    async with running(patient.worker):
        server.work.put(deliver_of("q", [b"a", b"b"]))
        await server.work.until(lambda: len(server.work.extends) >= 2)
        patient.go.set()
    assert sorted(split(server.work.extends[0].ack_tokens)) == [token_of(0), token_of(1)]


async def test_a_handler_can_see_that_its_lease_is_lost(server: FakeServer) -> None:
    server.work.lost_on_extend = token_of(1)
    patient = Patient(server, lease=0.15)
    async with running(patient.worker):
        server.work.put(deliver_of("q", [b"a", b"b"]))
        await server.work.until(lambda: any(split(one.ack_tokens) == [token_of(0)] for one in server.work.extends))
        patient.go.set()
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 2)
    assert patient.lost == [False, True]


async def test_a_batch_that_was_lost_before_it_began_is_not_begun(server: FakeServer) -> None:
    worker, go, begun = Worker(server.target), asyncio.Event(), list[bytes]()

    @worker.on_batch("q", max_size=1)
    async def handle(deliveries: list[Delivery]) -> None:
        begun.extend(delivery.payload for delivery in deliveries)
        await go.wait()

    async with running(worker):
        server.work.put(deliver_of("q", [b"a"]))
        server.work.put(deliver_of("q", [b"b"], first=1))
        await server.work.until(lambda: bool(server.work.opens) and not server.work.credit["q"])
        server.work.lost = token_of(1)
        server.work.break_streams()
        await server.work.until(lambda: len(server.work.opens) == 2)
        await asyncio.sleep(0.05)
        go.set()
        await server.work.until(lambda: sum(credit.tasks for credit in server.work.credits) == 2)
    assert begun == [b"a"]
    assert server.work.tokens() == [token_of(0)]


async def test_after_go_away_the_worker_finishes_and_connects_again(server: FakeServer) -> None:
    patient = Patient(server)
    async with running(patient.worker):
        server.work.put(deliver_of("q", [b"a"]))
        await until_begun(patient, 1)
        server.work.say(wk.WorkResponse(go_away=wk.GoAway(reason="restart")))
        await asyncio.sleep(0.05)
        assert len(server.work.opens) == 1
        patient.go.set()
        await server.work.until(lambda: len(server.work.opens) == 2)
    assert server.work.tokens(ACK) == [token_of(0)]
    assert server.work.opens[1].resume == b""
    assert server.work.credits == []


async def test_stop_finishes_what_is_in_hand_and_asks_for_nothing_new(server: FakeServer) -> None:
    patient = Patient(server, concurrency=2)
    run = asyncio.create_task(patient.worker.run())
    for number in range(4):
        server.work.put(deliver_of("q", [b"x"], first=number))
    await until_begun(patient, 2)
    stop = asyncio.create_task(patient.worker.stop())
    await asyncio.sleep(0.05)
    assert not stop.done()
    patient.go.set()
    await stop
    await run
    assert server.work.tokens(ACK) == [token_of(0), token_of(1)]
    assert server.work.credits == []
    assert server.work.half_closed == 1


async def test_stop_hands_back_what_waits_for_a_batch_to_end(server: FakeServer) -> None:
    """Before that batch has ended, so that another worker need not wait for it."""
    worker, go, begun = Worker(server.target), asyncio.Event(), asyncio.Queue[list[bytes]]()

    @worker.on_batch("q", max_size=2)
    async def handle(deliveries: list[Delivery]) -> None:
        begun.put_nowait([delivery.payload for delivery in deliveries])
        await go.wait()

    run = asyncio.create_task(worker.run())
    server.work.put(deliver_of("q", [b"a", b"b"]))
    assert await begun.get() == [b"a", b"b"]
    server.work.put(deliver_of("q", [b"c", b"d"], first=2))
    await server.work.until(lambda: not server.work.credit["q"])
    await asyncio.sleep(0.05)
    stop = asyncio.create_task(worker.stop())
    await server.work.until(lambda: len(server.work.released) == 2)
    assert not stop.done()
    go.set()
    await stop
    await run
    assert server.work.released == [token_of(2), token_of(3)]
    assert server.work.tokens() == [token_of(0), token_of(1)]
    assert begun.empty()


async def test_what_comes_after_stop_is_handed_back_unbegun(server: FakeServer) -> None:
    """It was under way when the server had not heard of the stop yet."""
    patient = Patient(server, concurrency=2)
    run = asyncio.create_task(patient.worker.run())
    server.work.put(deliver_of("q", [b"a"]))
    await until_begun(patient, 1)
    stop = asyncio.create_task(patient.worker.stop())
    await asyncio.sleep(0)
    server.work.say(wk.WorkResponse(deliver=deliver_of("q", [b"b"], first=1)))
    await server.work.until(lambda: server.work.released == [token_of(1)])
    patient.go.set()
    await stop
    await run
    assert patient.begun == [b"a"]
    assert server.work.tokens() == [token_of(0)]
    assert len(server.work.opens) == 1


async def test_cancelling_ends_at_once_and_settles_nothing(server: FakeServer) -> None:
    patient = Patient(server)
    run = asyncio.create_task(patient.worker.run())
    server.work.put(deliver_of("q", [b"a"]))
    await until_begun(patient, 1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert server.work.settles == []


async def test_a_worker_that_is_refused_for_good_says_so(server: FakeServer) -> None:
    patient = Patient(server)
    run = asyncio.create_task(patient.worker.run())
    await server.work.until(lambda: bool(server.work.opens))
    server.work.refuses = grpc.StatusCode.PERMISSION_DENIED
    server.work.break_streams()
    with pytest.raises(AccessDenied, match="not for you"):
        await run


async def test_a_worker_whose_token_was_renewed_shows_the_new_one(server: FakeServer) -> None:
    """Its stream was open by the old one."""
    async with running(Patient(server).worker):
        for opened in (1, 2):
            await server.work.until(lambda opened=opened: len(server.work.opens) == opened)  # type: ignore[misc]
            server.work.break_streams(grpc.StatusCode.UNAUTHENTICATED)
        await server.work.until(lambda: len(server.work.opens) == 3)
    assert len(server.work.opens) == 3


async def test_nothing_in_hand_is_acknowledged_as_failed_on_stop(server: FakeServer) -> None:
    patient = Patient(server)
    patient.go.set()
    async with running(patient.worker):
        server.work.put(deliver_of("q", [b"a"] * 4))
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 4)
    assert server.work.tokens(NACK) == []


PROGRAM = """
import sys, time
from timerd import Worker
worker = Worker(sys.argv[1])

@worker.on("q")
def handle(delivery):
    print("begun", flush=True)
    time.sleep(0.3)
    print("ended", flush=True)

worker.run_forever()
print("left", flush=True)
"""


async def test_a_signal_stops_gracefully(server: FakeServer) -> None:
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, server.target, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert worker.stdout is not None
    server.work.put(deliver_of("q", [b"a"]))
    assert await worker.stdout.readline() == b"begun\n"
    os.kill(worker.pid, signal.SIGTERM)
    out, err = await asyncio.wait_for(worker.communicate(), 20)
    assert (worker.returncode, out) == (0, b"ended\nleft\n")
    assert err.count(b"\n") == 1, "the line that says which queues it serves"
    assert server.work.tokens(ACK) == [token_of(0)]


async def test_whatever_breaks_each_delivery_is_handled_once_and_settled(server: FakeServer) -> None:
    worker, handled = Worker(server.target), list[bytes]()

    @worker.on("q", concurrency=7)
    async def one(delivery: Delivery) -> None:
        handled.append(delivery.payload)
        await asyncio.sleep(0.001)

    @worker.on_batch("b", max_size=20)
    async def many(deliveries: list[Delivery]) -> None:
        handled.extend(delivery.payload for delivery in deliveries)
        await asyncio.sleep(0.001)

    async with running(worker):
        for number in range(300):
            server.work.put(deliver_of("q", [str(number).encode()], first=number))
        for number in range(1000, 3000, 20):
            server.work.put(deliver_of("b", [str(task).encode() for task in range(number, number + 20)], first=number))
        for goal in (200, 700, 1500):
            await server.work.until(lambda goal=goal: len(set(server.work.tokens(ACK))) >= goal)  # type: ignore[misc]
            server.work.break_streams()
        await server.work.until(lambda: len(set(server.work.tokens(ACK))) == 2300)
    assert sorted(handled, key=int) == [str(number).encode() for number in [*range(300), *range(1000, 3000)]]
    assert len(server.work.opens) == 4


async def test_a_silent_stream_that_swallows_settlements_is_given_up(server: FakeServer) -> None:
    server.work.confirms = False
    patient = Patient(server, lease=0.1)
    patient.go.set()
    async with running(patient.worker):
        server.work.put(deliver_of("q", [b"a"]))
        await server.work.until(lambda: len(server.work.opens) == 2)
        server.work.confirms = True
    assert set(server.work.tokens()) == {token_of(0)}
