"""A handler that hangs is ended: its attempt fails with the line at which it was, and its worker goes on."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from math import inf
from time import monotonic
from typing import Any

import pytest

from tests.sdk.fake_server import FakeServer, deliver_of, token_of
from tests.sdk.worker_rig import ACK, NACK, running
from timerd import Delivery, Worker
from timerd.client import InvalidTask
from timerd.sdk.values import DeliveredBatch, Progress
from timerd.sdk.working.leases import Hold
from timerd.sdk.working.time_limits import TimedCall
from timerd.tasks import Tasks
from timerd.v1 import work_service_pb2 as wk

SHORT_S = 0.05
Put = Callable[..., None]


class Gate:
    """Where a handler hangs until the test is over."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.met = threading.Event()
        self.cleaned = False

    def hang(self) -> None:
        self.met.set()
        self.opened.wait()

    async def hang_here(self) -> None:
        self.met.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cleaned = True


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


def first_error(server: FakeServer) -> str:
    return server.work.settles[0].error


async def test_a_coroutine_that_hangs_is_cancelled_and_its_error_names_the_line(server: FakeServer, gate: Gate) -> None:
    worker = Worker(server.target)

    @worker.on("q", concurrency=1, timeout=SHORT_S)
    async def convert(delivery: Delivery) -> None:
        if delivery.payload == b"hangs":
            await gate.hang_here()

    async with running(worker):
        server.work.put(deliver_of("q", [b"hangs"]))
        server.work.put(deliver_of("q", [b"ok"], first=1))
        await server.work.until(lambda: server.work.tokens(ACK) == [token_of(1)])
    assert server.work.tokens(NACK) == [token_of(0)]
    assert gate.cleaned
    assert "convert of the queue 'q' had not ended after 0.05 s. It was at:" in first_error(server)
    assert "await gate.hang_here()" in first_error(server)


async def test_a_plain_handler_goes_on_and_keeps_its_place(
    server: FakeServer, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    """Its attempt ends all the same, with the line. What comes after it begins when it has ended."""
    worker = Worker(server.target)
    begun: list[bytes] = []

    @worker.on("q", concurrency=1, timeout=SHORT_S)
    def convert(delivery: Delivery) -> None:
        begun.append(delivery.payload)
        if delivery.payload == b"hangs":
            gate.hang()

    async with running(worker):
        server.work.put(deliver_of("q", [b"hangs"]))
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(0)])
        server.work.put(deliver_of("q", [b"ok"], first=1))
        await asyncio.sleep(SHORT_S)
        assert begun == [b"hangs"]
        gate.opened.set()
        await server.work.until(lambda: server.work.tokens(ACK) == [token_of(1)])
    assert "gate.hang()" in first_error(server)
    assert "self.opened.wait()" in first_error(server)
    assert "timerd/sdk" not in first_error(server)
    [warned] = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert warned.getMessage().endswith("It runs in a thread, which cannot be ended: it goes on.")


async def test_what_a_task_allows_an_attempt_ends_it_too(server: FakeServer, gate: Gate) -> None:
    worker = Worker(server.target)

    @worker.on("q", timeout=3600)
    async def convert(delivery: Delivery) -> None:
        await gate.hang_here()

    async with running(worker):
        deliver = deliver_of("q", [b"x"])
        deliver.attempt_timeout_ms = 50
        server.work.put(deliver)
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(0)])
    assert "TimeoutError" in first_error(server)


async def test_one_that_is_over_sooner_does_not_wait_for_one_that_began_before(server: FakeServer, gate: Gate) -> None:
    worker = Worker(server.target)

    @worker.on("q")
    async def convert(delivery: Delivery) -> None:
        await gate.hang_here()

    def with_timeout(first: int, ms: int) -> wk.Deliver:
        deliver = deliver_of("q", [b"x"], first=first)
        deliver.attempt_timeout_ms = ms
        return deliver

    async with running(worker):
        server.work.put(with_timeout(0, 2_000))
        server.work.put(with_timeout(1, 50))
        await server.work.until(lambda: len(server.work.tokens(NACK)) == 2)
    assert server.work.tokens(NACK) == [token_of(1), token_of(0)]


async def test_a_coroutine_that_does_not_heed_its_end_is_not_acknowledged(server: FakeServer) -> None:
    worker = Worker(server.target)
    ended = asyncio.Event()

    @worker.on("q", timeout=SHORT_S)
    async def convert(delivery: Delivery) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"]))
        await ended.wait()
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(0)])
    assert server.work.tokens(ACK) == []


async def test_of_a_batch_all_attempts_fail(server: FakeServer, gate: Gate) -> None:
    worker = Worker(server.target)

    @worker.on_batch("q", timeout=SHORT_S)
    def convert(deliveries: list[Delivery]) -> None:
        gate.hang()

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"] * 3))
        await server.work.until(lambda: len(server.work.tokens(NACK)) == 3)
        gate.opened.set()
    assert server.work.tokens(ACK) == []
    assert "gate.hang()" in first_error(server)


async def test_of_a_plain_typed_task_the_line_is_told_as_well(server: FakeServer, gate: Gate) -> None:
    """Its handler is a coroutine that waits for a thread: the thread is what hangs."""
    tasks, worker = Tasks(), Worker(server.target)

    @tasks.task("q")
    def convert(page: int) -> None:
        gate.hang()

    worker.include(tasks, concurrency=1, timeout=SHORT_S)
    async with running(worker):
        server.work.put(deliver_of("q", [b'{"page": 7}']))
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(0)])
        gate.opened.set()
    assert "gate.hang()" in first_error(server)


@pytest.mark.parametrize("timeout", [0, -1, "soon", 1e12])
def test_a_time_limit_that_is_none_is_refused(timeout: float) -> None:
    with pytest.raises(InvalidTask, match="`timeout` must be a timedelta or a number of seconds, more than 0"):
        Worker().on("q", timeout=timeout)


@pytest.mark.parametrize(
    ("spans", "sentence"),
    [
        ({"stall_timeout": 0.5}, "`stall_timeout` is 0.5 s: give a second to 7 days."),
        ({"stall_timeout": timedelta(days=8)}, "`stall_timeout` is 691,200 s: give a second to 7 days."),
        ({"stall_timeout": 0}, "`stall_timeout` must be a timedelta or a number of seconds, more than 0"),
        (
            {"stall_timeout": 30, "timeout": 30},
            "`stall_timeout` (30 s) is not shorter than `timeout` (30 s), so no call could stall: give a shorter one",
        ),
    ],
)
def test_a_handler_may_be_silent_for_as_long_as_a_task_allows_it(spans: dict[str, Any], sentence: str) -> None:
    worker = Worker()
    pool = worker.pool("p", slots=1)
    for register in (worker.on, worker.on_batch, pool.on):
        with pytest.raises(InvalidTask) as refused:
            register("q", **spans)
        assert str(refused.value).startswith(sentence)
        assert refused.value.field == "stall_timeout"


async def test_a_deadline_ends_it_by_the_clock_of_the_server(
    server: FakeServer, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    """Whose clock is years off the one here. Of two tasks of a message each has its own."""
    worker = Worker(server.target)

    @worker.on("q")
    async def convert(delivery: Delivery) -> None:
        if delivery.payload == b"hangs":
            assert delivery.deadline == datetime(2001, 9, 9, 1, 46, 40, 50_000, UTC)
            await gate.hang_here()

    async with running(worker):
        deliver = deliver_of("q", [b"hangs", b"ok"])
        deliver.sent_at_ms = 1_000_000_000_000
        deliver.deadlines_ms.extend([1_000_000_000_050, 0])
        server.work.put(deliver)
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(0)])
    assert server.work.tokens(ACK) == [token_of(1)]
    assert "await gate.hang_here()" in caplog.text


async def test_one_that_says_no_progress_is_ended_with_the_line(server: FakeServer, gate: Gate) -> None:
    worker = Worker(server.target)

    @worker.on("q", stall_timeout=1)
    async def convert(delivery: Delivery) -> None:
        await gate.hang_here()

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"]))
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(0)])
    assert gate.cleaned
    assert first_error(server).startswith("Stalled: ")
    assert "convert of the queue 'q' had said no progress for 1 s. It was at:" in first_error(server)
    assert "await gate.hang_here()" in first_error(server)


async def test_so_is_one_whose_task_may_not_be_silent_and_no_other(server: FakeServer, gate: Gate) -> None:
    worker = Worker(server.target)

    @worker.on("q")
    def convert(delivery: Delivery) -> None:
        gate.hang()

    async with running(worker):
        deliver = deliver_of("q", [b"may", b"may not"])
        del deliver.templates[:]
        deliver.templates.extend([wk.DeliveryTemplate(), wk.DeliveryTemplate(stall_timeout_ms=50)])
        deliver.template_index.extend([0, 1])
        server.work.put(deliver)
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(1)])
        gate.opened.set()
        await server.work.until(lambda: server.work.tokens(ACK) == [token_of(0)])
    assert first_error(server).startswith("Stalled: ")


async def test_each_word_of_a_handler_gives_it_as_long_again() -> None:
    batch = DeliveredBatch(deliver_of("q", [b"a", b"b"]))
    task = asyncio.current_task()
    assert task is not None
    call = TimedCall([Hold(batch, 0, 1)], task, monotonic(), inf, 30.0, inf, lambda: None)
    end_s = call.end_s
    batch.report(token_of(1), Progress(0.5))
    assert call.end_s == end_s == call.begun_s + 30.0
    batch.report(token_of(0), Progress(0.5))
    assert call.end_s > end_s
    assert call.has_stalled
