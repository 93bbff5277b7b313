"""What a handler may be, and that its end, however odd, is the end of one attempt and of nothing else."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.sdk.fake_server import FakeServer, deliver_of, token_of
from tests.sdk.worker_rig import ACK, NACK, REJECT, running
from timerd import Delivery, Reject, Retry, Worker
from timerd.client import InvalidTask
from timerd.sdk.working.handlers import HandlerCalls


class LibraryTimeout(BaseException):
    """As some libraries end what takes too long."""


class HastyRetry(Retry):
    def __init__(self, code: int) -> None:
        self.code = code


class HastyReject(Reject):
    def __init__(self, code: int) -> None:
        self.code = code


class DelayedWrongly(Retry):
    def __init__(self) -> None:
        self.delay_ms = -5


class Unspeakable(Reject):
    def __str__(self) -> str:
        raise ValueError("there are no words for it")


def too_far_away() -> Retry:
    return Retry(timedelta(days=60))


ENDS: list[tuple[Callable[[], BaseException], str]] = [
    (lambda: StopIteration("no more rows"), "StopIteration: no more rows"),
    (lambda: StopAsyncIteration("no more pages"), "StopAsyncIteration: no more pages"),
    (lambda: SystemExit(3), "SystemExit: 3"),
    (KeyboardInterrupt, "KeyboardInterrupt"),
    (GeneratorExit, "GeneratorExit"),
    (lambda: LibraryTimeout("2 s"), "LibraryTimeout: 2 s"),
    (asyncio.CancelledError, "CancelledError"),
    (lambda: HastyRetry(7), "7"),
    (DelayedWrongly, "`delay_ms` must be a timedelta"),
    (Unspeakable, "there are no words for it"),
    (too_far_away, "`delay` must be a timedelta or a number of seconds, 0 or more and at most 49 days"),
]


def register(worker: Worker, kind: str, end: Callable[[], BaseException]) -> None:
    def plain(given: object) -> None:
        raise end()

    async def coroutine(given: object) -> None:
        raise end()

    async def answer(given: list[Delivery]) -> Sequence[object]:
        return [end()]

    def answer_plainly(given: list[Delivery]) -> Sequence[object]:
        return [end()]

    handlers: dict[str, Any] = {
        "plain": plain, "coroutine": coroutine, "answer": answer, "answer plainly": answer_plainly
    }  # fmt: skip
    name = kind.removeprefix("batch ")
    (worker.on("q") if name == kind else worker.on_batch("q"))(handlers[name])


@pytest.mark.parametrize(("end", "error"), ENDS, ids=[error for _, error in ENDS])
@pytest.mark.parametrize(
    "kind", ["plain", "coroutine", "batch plain", "batch coroutine", "batch answer", "batch answer plainly"]
)
async def test_whatever_a_handler_raises_fails_its_attempt_and_no_other(
    server: FakeServer, kind: str, end: Callable[[], BaseException], error: str
) -> None:
    worker = Worker(server.target)
    register(worker, kind, end)

    @worker.on("neighbour")
    def neighbour(delivery: Delivery) -> None:
        return None

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"]))
        await server.work.until(lambda: server.work.tokens() == [token_of(0)])
        [settle] = server.work.settles
        server.work.put(deliver_of("q", [b"x"], first=1))
        server.work.put(deliver_of("neighbour", [b"x"], first=2))
        await server.work.until(lambda: set(server.work.tokens()) == {token_of(number) for number in range(3)})
    assert (settle.action, settle.HasField("delay_ms")) == (NACK, False)
    assert error in settle.error
    assert server.work.tokens(ACK) == [token_of(2)]


async def test_a_reject_without_its_init_is_one(server: FakeServer) -> None:
    worker = Worker(server.target)

    @worker.on("q")
    async def handle(delivery: Delivery) -> None:
        raise HastyReject(7)

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"]))
        await server.work.until(lambda: server.work.tokens(REJECT) == [token_of(0)])
    assert server.work.settles[0].error == "7"


async def test_a_handler_that_leaves_the_program_is_told_by_its_name(
    server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(server.target)

    @worker.on("q")
    def leave(delivery: Delivery) -> None:
        raise SystemExit(3)

    with caplog.at_level(logging.WARNING, logger="timerd.worker"):
        async with running(worker):
            server.work.put(deliver_of("q", [b"x"]))
            await server.work.until(lambda: bool(server.work.settles))
    [told] = [record for record in caplog.records if "failed" in record.getMessage()]
    assert f"The handler {leave.__module__}.{leave.__qualname__} of the queue 'q' failed." in told.getMessage()
    assert "The worker goes on: `Worker.stop` is what ends it." in told.getMessage()
    assert told.exc_info is not None
    assert isinstance(told.exc_info[1], SystemExit)


async def test_an_entry_of_a_batch_may_be_the_class_of_an_exception(server: FakeServer) -> None:
    worker = Worker(server.target)

    @worker.on_batch("q")
    async def handle(deliveries: list[Delivery]) -> list[object]:
        return [None, Reject, ValueError, int]

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"] * 4))
        await server.work.until(lambda: len(server.work.tokens()) == 4)
    assert (server.work.tokens(ACK), server.work.tokens(REJECT), server.work.tokens(NACK)) == (
        [token_of(0), token_of(3)],
        [token_of(1)],
        [token_of(2)],
    )


# -- what may be one ----------------------------------------------------------------------------------------------


class Mailer:
    def __init__(self) -> None:
        self.seen: list[bytes] = []

    async def __call__(self, delivery: Delivery) -> None:
        self.seen.append(delivery.payload)

    async def send(self, delivery: Delivery, urgency: int = 0) -> None:
        self.seen.append(delivery.payload)

    def pages(self, delivery: Delivery) -> Iterator[int]:
        yield 1


class Pages:
    def __call__(self, delivery: Delivery) -> Iterator[int]:
        yield 1


def injected(function: Callable[..., object]) -> Callable[[Delivery], object]:
    @functools.wraps(function)
    def wrapper(delivery: Delivery) -> object:
        return function(delivery, b"from the decorator")

    return wrapper


def generate(delivery: Delivery) -> Iterator[int]:
    yield 1


async def generate_async(delivery: Delivery) -> AsyncIterator[int]:
    yield 1


def nothing() -> None: ...


def two(delivery: Delivery, more: bytes) -> None: ...


def keyword_only(delivery: Delivery, *, more: bytes) -> None: ...


REFUSED: list[tuple[object, str]] = [
    (3, "is 3, which cannot be called"),
    (None, "is None, which cannot be called"),
    (generate, "generator function tests.sdk.test_handlers.generate: calling it runs none of its lines"),
    (generate_async, "the generator function"),
    (functools.partial(generate), "the generator function"),
    (Mailer().pages, "the generator function"),
    (Pages(), "the generator function tests.sdk.test_handlers.Pages"),
    (Mailer, "the class tests.sdk.test_handlers.Mailer: calling it makes an object and runs nothing more"),
    (functools.partial(Mailer), "the class"),
    (nothing, "test_handlers.nothing() -> 'None', which cannot be called with one argument"),
    (two, "cannot be called with one argument"),
    (keyword_only, "cannot be called with one argument"),
    (Mailer.send, "cannot be called with one argument"),
    (functools.partial(nothing), "cannot be called with one argument"),
]


@pytest.mark.parametrize(("handler", "sentence"), REFUSED)
def test_what_cannot_be_a_handler_is_refused_at_once(handler: Any, sentence: str) -> None:  # noqa: ANN401
    worker = Worker()
    for register_it in (worker.on("q"), worker.on_batch("q")):
        with pytest.raises(InvalidTask) as told:
            register_it(handler)
        assert sentence in str(told.value)
    assert worker._lanes == {}


def test_a_queue_that_was_forgotten_is_told_at_once() -> None:
    """`@worker.on` without the queue would make the handler its name and register nothing."""
    worker: Any = Worker()
    for forgotten in (worker.on, worker.on_batch, worker.pool("p", slots=1).on):
        with pytest.raises(InvalidTask, match=r"takes a queue: write `\.on(_batch)?\(\"mails\"\)`"):
            forgotten(nothing)


@pytest.mark.parametrize("kind", ["object", "partial object", "method", "partial", "decorated", "builtin"])
async def test_what_can_be_called_with_one_delivery_is_a_handler(server: FakeServer, kind: str) -> None:
    worker, mailer, seen = Worker(server.target), Mailer(), list[object]()

    async def of_two(more: bytes, delivery: Delivery) -> None:
        mailer.seen.append(delivery.payload)

    handlers: dict[str, Callable[[Delivery], object]] = {
        "object": mailer,
        "partial object": functools.partial(mailer),
        "method": mailer.send,
        "partial": functools.partial(of_two, b"more"),
        "decorated": injected(lambda delivery, more: mailer.seen.append(delivery.payload)),
        "builtin": seen.append,
    }
    worker.on("q")(handlers[kind])
    async with running(worker):
        server.work.put(deliver_of("q", [b"x"]))
        await server.work.until(lambda: server.work.tokens(ACK) == [token_of(0)])
    assert len(mailer.seen) + len(seen) == 1


@pytest.mark.parametrize("kind", ["plain", "coroutine", "batch plain", "batch coroutine"])
async def test_work_that_is_handed_back_undone_is_done_or_told(server: FakeServer, kind: str) -> None:
    """Neither is what it looks like at its registration."""
    worker, done = Worker(server.target), list[str]()

    async def work() -> None:
        done.append(kind)

    def pick(given: Any) -> object:  # noqa: ANN401 - a delivery or a list of them
        delivery = given[0] if isinstance(given, list) else given
        return work() if delivery.payload == b"later" else generate(delivery)

    async def pick_async(given: object) -> object:
        return pick(given)

    handler: Any = pick_async if "coroutine" in kind else pick
    (worker.on_batch("q") if "batch" in kind else worker.on("q"))(handler)
    async with running(worker):
        server.work.put(deliver_of("q", [b"later"]))
        await server.work.until(lambda: server.work.tokens(ACK) == [token_of(0)])
        server.work.put(deliver_of("q", [b"never"], first=1))
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(1)])
    assert done == [kind]
    assert "of which not a line has run" in server.work.settles[-1].error


async def test_a_worker_that_is_interrupted_while_it_aborts_keeps_no_place() -> None:
    """As by a second Ctrl-C. A call that had not begun says nothing of its end."""
    calls = HandlerCalls(print, "q", 1, None)
    aborting = asyncio.create_task(calls.abort())
    calls.spawn(asyncio.sleep(0))
    await asyncio.sleep(0)
    aborting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await aborting
    assert len(calls) == 0
    assert not calls.is_cut_short(ValueError())


async def test_a_call_of_a_loop_that_is_gone_makes_no_room_in_another_one() -> None:
    freed, started = list[str](), list[asyncio.Task[None]]()
    calls = HandlerCalls(print, "q", 1, None, lambda: freed.append("q"))

    async def call() -> None:
        task = asyncio.current_task()
        assert task is not None
        started.append(task)
        try:
            await asyncio.Event().wait()
        finally:
            calls.ended(task)

    async def begin() -> None:
        calls.spawn(call())
        await asyncio.sleep(0)

    gone = asyncio.new_event_loop()
    gone.set_exception_handler(lambda *_: None)
    await asyncio.to_thread(gone.run_until_complete, begin())
    gone.close()
    (task,) = started
    work = task.get_coro()
    assert isinstance(work, Coroutine)
    work.close()
    assert (len(calls), freed) == (0, [])
