"""A handler hears that its work is for nothing, and how it ends is what its worker says of the delivery."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sdk.converting import convert, until_gone
from tests.sdk.fake_server import FakeServer, deliver_of, split, token_of
from tests.sdk.worker_rig import ACK, NACK, running
from timerd import Delivery, Interrupted, Worker
from timerd.commands.execution import execute
from timerd.v1 import work_service_pb2 as wk
from timerd.worker import InterruptReason

CANCELLED, EXPIRED, LOST = wk.INTERRUPT_REASON_CANCELLED, wk.INTERRUPT_REASON_EXPIRED, wk.INTERRUPT_REASON_LOST
SHORT_S = 0.05


def interrupt(server: FakeServer, *numbers: int, reason: wk.InterruptReason = CANCELLED) -> None:
    tokens = b"".join(map(token_of, numbers))
    server.work.say(wk.WorkResponse(interrupt=wk.Interrupt(ack_tokens=tokens, reason=reason)))


class Desk:
    """A coroutine handler that waits for ever. `ends`: what it does when it is cancelled."""

    def __init__(self, ends: Callable[[], None] | None = None) -> None:
        self.begun: asyncio.Queue[Delivery] = asyncio.Queue()
        self.go = asyncio.Event()
        self.cancelled: list[InterruptReason | None] = []
        self._ends = ends

    async def handle(self, delivery: Delivery) -> None:
        self.begun.put_nowait(delivery)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.append(delivery.interrupted.reason)
            if self._ends is None:
                raise
            self._ends()


async def ended(server: FakeServer, desk: Desk, reason: wk.InterruptReason, *, shield: bool = False) -> None:
    """One delivery is interrupted, and the one after it is not."""
    worker = Worker(server.target)
    worker.on("q", concurrency=1, shield=shield)(desk.handle)
    async with running(worker):
        server.work.put(deliver_of("q", [b"a"]))
        delivery = await desk.begun.get()
        interrupt(server, 0, reason=reason)
        while not delivery.interrupted:  # noqa: ASYNC110 - it comes with a message
            await asyncio.sleep(0.001)
        if shield:
            desk.go.set()
        server.work.put(deliver_of("q", [b"b"], first=1))
        await desk.begun.get()
        desk.go.set()
        await server.work.until(lambda: token_of(1) in server.work.tokens(ACK))


@pytest.mark.parametrize(("reason", "said"), [(CANCELLED, "was cancelled"), (EXPIRED, "expired")])
async def test_a_coroutine_is_cancelled_and_the_attempt_given_up(
    server: FakeServer, reason: wk.InterruptReason, said: str
) -> None:
    desk = Desk()
    await ended(server, desk, reason)
    assert desk.cancelled == [InterruptReason(reason)]
    assert server.work.tokens(NACK) == [token_of(0)]
    [settle] = [each for each in server.work.settles if each.action == NACK]
    assert settle.error == f"Interrupted: the task {said} while its handler had it."


async def test_of_one_that_is_lost_nothing_is_said(server: FakeServer) -> None:
    desk = Desk()
    await ended(server, desk, LOST)
    assert desk.cancelled == [InterruptReason.LOST]
    assert server.work.tokens() == [token_of(1)]


async def test_one_that_catches_it_and_returns_has_done_its_work(server: FakeServer) -> None:
    await ended(server, Desk(ends=lambda: None), CANCELLED)
    assert server.work.tokens(ACK) == [token_of(0), token_of(1)]


async def test_one_that_fails_on_the_way_has_failed_by_that(server: FakeServer) -> None:
    def fails() -> None:
        raise OSError("no space left")

    await ended(server, Desk(ends=fails), CANCELLED)
    assert "no space left" in server.work.settles[0].error


async def test_a_shielded_one_is_not_cancelled_and_may_look(server: FakeServer) -> None:
    desk = Desk()
    await ended(server, desk, CANCELLED, shield=True)
    assert desk.cancelled == []
    assert server.work.tokens(ACK) == [token_of(0), token_of(1)]


async def test_a_reason_of_a_later_server_ends_nothing(server: FakeServer) -> None:
    desk, worker = Desk(), Worker(server.target)
    worker.on("q")(desk.handle)
    async with running(worker):
        server.work.put(deliver_of("q", [b"a"]))
        delivery = await desk.begun.get()
        interrupt(server, 0, reason=99)  # type: ignore[arg-type]
        interrupt(server, 7)
        server.work.put(deliver_of("q", [b"b"], first=1))
        await desk.begun.get()
        assert not delivery.interrupted
        desk.go.set()
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 2)
    assert desk.cancelled == []


async def test_what_the_answer_to_an_extend_says_is_heard_as_well(server: FakeServer) -> None:
    """A message that was lost costs no more than the time to the next sign of life."""
    server.work.lost_on_extend = token_of(0)
    desk, worker = Desk(), Worker(server.target, lease=0.15)
    worker.on("q")(desk.handle)
    async with running(worker):
        server.work.put(deliver_of("q", [b"a"]))
        delivery = await desk.begun.get()
        while not desk.cancelled:  # noqa: ASYNC110 - it comes with a message
            await asyncio.sleep(0.001)
    assert delivery.interrupted.reason is InterruptReason.LOST
    assert server.work.tokens() == []


async def test_a_plain_handler_looks(server: FakeServer) -> None:
    worker, begun = Worker(server.target), threading.Event()

    @worker.on("q", concurrency=1)
    def convert(delivery: Delivery) -> None:
        begun.set()
        if delivery.payload == b"steps":
            while True:
                delivery.interrupted.wait(0.001)
                delivery.interrupted.check()
        assert delivery.interrupted.wait(20)

    async with running(worker):
        for number, payload in enumerate([b"steps", b"waits"]):
            server.work.put(deliver_of("q", [payload], first=number))
            await asyncio.to_thread(begun.wait)
            begun.clear()
            interrupt(server, number)
        await server.work.until(lambda: len(server.work.tokens()) == 2)
    assert (server.work.tokens(NACK), server.work.tokens(ACK)) == ([token_of(0)], [token_of(1)])


async def test_one_that_gives_up_though_nobody_asked_has_failed(server: FakeServer) -> None:
    worker = Worker(server.target)

    @worker.on("q")
    async def convert(_: Delivery) -> None:
        raise Interrupted("I had enough")

    async with running(worker):
        server.work.put(deliver_of("q", [b"a"]))
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(0)])
    assert "I had enough" in server.work.settles[0].error


async def test_a_plain_handler_whose_time_is_over_sees_it(server: FakeServer) -> None:
    """Its attempt has ended then, and it may, too."""
    worker, seen = Worker(server.target), list[InterruptReason | None]()

    @worker.on("q", timeout=SHORT_S)
    def convert(delivery: Delivery) -> None:
        delivery.interrupted.wait()
        seen.append(delivery.interrupted.reason)

    @worker.on("ending")
    def expire(delivery: Delivery) -> None:
        convert(delivery)

    ending = deliver_of("ending", [b"b"], first=1)
    ending.sent_at_ms, ending.attempt_timeout_ms = 1_000, 60_000
    ending.deadlines_ms.append(1_050)
    async with running(worker):
        server.work.put(deliver_of("q", [b"a"]))
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(0)])
        server.work.put(ending)
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(0), token_of(1)])
    assert seen == [InterruptReason.LOST, InterruptReason.EXPIRED]


async def test_a_batch_goes_on_as_long_as_one_of_it_is_wanted(server: FakeServer) -> None:
    worker, begun, cancelled = Worker(server.target), asyncio.Event(), list[list[bool]]()

    @worker.on_batch("q", max_size=2)
    async def handle(deliveries: list[Delivery]) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append([each.interrupted.is_set() for each in deliveries])

    async with running(worker):
        server.work.put(deliver_of("q", [b"a", b"b"]))
        await begun.wait()
        interrupt(server, 0)
        await worker_has_heard(server)
        assert cancelled == []
        interrupt(server, 1, reason=LOST)
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(0)])
    assert cancelled == [[True, True]]
    assert server.work.tokens() == [token_of(0)], "of the lost one nothing is said"


async def worker_has_heard(server: FakeServer) -> None:
    """All that was said until now: an answer to what it says next comes after it."""
    await asyncio.sleep(0.05)


@pytest.mark.process
@pytest.mark.parametrize("what", ["hangs", "stubborn"])
async def test_a_process_is_ended_even_one_that_does_not_obey(server: FakeServer, tmp_path: Path, what: str) -> None:
    file, worker = tmp_path / "pid", Worker(server.target)
    worker.on("q", concurrency=1, isolation="process")(convert)
    async with running(worker):
        server.work.put(deliver_of("q", [f"{what} {file}".encode()]))
        while not (file.exists() and file.read_text().count(" ") == 2):  # noqa: ASYNC110 - processes tell nobody
            await asyncio.sleep(0.01)
        pid = int(file.read_text().split(" ")[0])
        interrupt(server, 0)
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(0)])
        await until_gone(pid)
        server.work.put(deliver_of("q", [f"fine {file}".encode()], first=1))
        await server.work.until(lambda: server.work.tokens(ACK) == [token_of(1)])
    assert "was cancelled" in server.work.settles[0].error
    assert int(file.read_text().split(" ")[0]) not in (pid, os.getpid())


@pytest.mark.process
async def test_a_command_is_killed_with_all_that_it_has_started(server: FakeServer, tmp_path: Path) -> None:
    worker = Worker(server.target)

    @worker.on("q")
    async def run(delivery: Delivery) -> None:
        await execute(f"cd {tmp_path}; sleep 60 & echo $! >pid; sleep 60", delivery, keep_stdout_clean=False)

    async with running(worker):
        server.work.put(deliver_of("q", [b""]))
        while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        interrupt(server, 0)
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(0)])
        await until_gone(int((tmp_path / "pid").read_text()))


async def test_tokens_are_those_that_were_delivered(server: FakeServer) -> None:
    """Of many in hand only those that are named are interrupted."""
    desk, worker = Desk(), Worker(server.target)
    worker.on("q")(desk.handle)
    async with running(worker):
        server.work.put(deliver_of("q", [b"a", b"b", b"c"]))
        deliveries = [await desk.begun.get() for _ in range(3)]
        interrupt(server, 0, 2)
        await server.work.until(lambda: len(server.work.tokens(NACK)) == 2)
        assert [bool(each.interrupted) for each in deliveries] == [True, False, True]
        desk.go.set()
    assert split(b"".join(server.work.tokens(ACK))) == [token_of(1)]
