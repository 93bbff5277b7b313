"""Handlers: what their end means for the delivery."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar

import pytest

from tests.sdk.fake_server import FakeServer, deliver_of, token_of
from tests.sdk.worker_rig import ACK, NACK, REJECT, running
from timerd import Delivery, Reject, Retry, TimerdError, Worker
from timerd.v1 import work_service_pb2 as wk


async def test_a_handler_that_returns_acknowledges(server: FakeServer) -> None:
    worker, seen = Worker(server.target, namespace="n", name="w1", lease=20), list[bytes]()

    @worker.on("q", concurrency=4)
    async def handle(delivery: Delivery) -> str:
        seen.append(delivery.payload)
        return "ignored"

    async with running(worker):
        server.work.put(deliver_of("q", [b"a", b"b"]))
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 2)
    [opening] = server.work.opens
    assert (opening.namespace, opening.worker, opening.lease_ms) == ("n", "w1", 20_000)
    assert [(credit.queue, credit.tasks) for credit in opening.credits] == [("q", 4)]
    assert seen == [b"a", b"b"]
    assert server.work.tokens() == [token_of(0), token_of(1)]


async def test_what_comes_twice_is_handled_twice(server: FakeServer) -> None:
    """Whether a task was done before is not for a worker to guess: the `delivery_id` is there for whoever must know."""
    worker, seen = Worker(server.target), list[str]()

    @worker.on("q", concurrency=2)
    async def handle(delivery: Delivery) -> None:
        seen.append(delivery.delivery_id)

    async with running(worker):
        for times in (1, 2):
            server.work.put(deliver_of("q", [b"a"]))
            await server.work.until(lambda times=times: len(server.work.tokens(ACK)) == times)  # type: ignore[misc]
    assert len(seen) == 2
    assert seen[0] == seen[1]


async def test_acknowledgements_of_one_turn_share_a_message_and_free_their_credit(server: FakeServer) -> None:
    worker = Worker(server.target)

    @worker.on("q", concurrency=50)
    async def handle(delivery: Delivery) -> None:
        return None

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"] * 30))
        await server.work.until(lambda: sum(credit.tasks for credit in server.work.credits) == 30)
    assert len(server.work.settles) == 1
    assert len(server.work.credits) == 1


@pytest.mark.parametrize("in_threads", [False, True])
async def test_how_a_handler_can_fail(server: FakeServer, in_threads: bool) -> None:
    worker = Worker(server.target)
    raises: dict[bytes, Exception] = {
        b"broken": ValueError("no such customer"),
        b"hopeless": Reject("the address is wrong"),
        b"later": Retry(2.5),
        b"soon": Retry(),
    }

    def fail(delivery: Delivery) -> None:
        raise raises[delivery.payload]

    async def fail_in_loop(delivery: Delivery) -> None:
        fail(delivery)

    worker.on("q")(fail if in_threads else fail_in_loop)
    async with running(worker):
        server.work.put(deliver_of("q", list(raises)))
        await server.work.until(lambda: len(server.work.tokens()) == 4)
    by_token = {settle.ack_tokens: settle for settle in server.work.settles}
    broken, hopeless, later, soon = (by_token[token_of(number)] for number in range(4))
    assert broken.action == NACK
    assert not broken.HasField("delay_ms")
    assert "Traceback" in broken.error
    assert "ValueError: no such customer" in broken.error
    assert (hopeless.action, hopeless.error) == (REJECT, "the address is wrong")
    assert (later.action, later.delay_ms) == (NACK, 2500)
    assert (soon.action, soon.HasField("delay_ms")) == (NACK, False)


async def test_a_long_trace_keeps_its_end(server: FakeServer) -> None:
    worker = Worker(server.target)

    @worker.on("q")
    async def handle(delivery: Delivery) -> None:
        raise ValueError("ü" * 20_000 + " at last")

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"]))
        await server.work.until(lambda: bool(server.work.settles))
    error = server.work.settles[0].error
    assert len(error.encode()) <= 16 * 1024
    assert error.rstrip().endswith("at last")


async def test_a_plain_function_runs_in_threads_side_by_side(server: FakeServer) -> None:
    worker, meet, threads = Worker(server.target), threading.Barrier(3), set[int]()

    @worker.on("q", concurrency=3)
    def handle(delivery: Delivery) -> None:
        threads.add(threading.get_ident())
        meet.wait(timeout=20)

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"] * 3))
        await server.work.until(lambda: len(server.work.tokens()) == 3)
    assert sorted(server.work.tokens(ACK)) == [token_of(number) for number in range(3)]
    assert len(threads - {threading.get_ident()}) == 3


async def test_a_function_around_a_coroutine_is_waited_for(server: FakeServer) -> None:
    worker = Worker(server.target)

    async def work(delivery: Delivery) -> None:
        raise Reject("after all")

    worker.on("q")(lambda delivery: asyncio.wait_for(work(delivery), 20))
    async with running(worker):
        server.work.put(deliver_of("q", [b"x"]))
        await server.work.until(lambda: bool(server.work.settles))
    [settle] = server.work.settles
    assert (settle.action, settle.error, settle.ack_tokens) == (REJECT, "after all", token_of(0))


async def test_a_handler_that_cancels_itself_has_failed(server: FakeServer) -> None:
    worker = Worker(server.target)

    @worker.on("q")
    async def handle(delivery: Delivery) -> None:
        raise asyncio.CancelledError

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"]))
        await server.work.until(lambda: bool(server.work.settles))
    [settle] = server.work.settles
    assert (settle.action, settle.ack_tokens) == (NACK, token_of(0))
    assert "CancelledError" in settle.error


async def test_a_batch_handler_gets_lists_and_acknowledges_by_returning(server: FakeServer) -> None:
    worker, sizes = Worker(server.target), list[int]()

    @worker.on_batch("q", max_size=100)
    async def handle(deliveries: list[Delivery]) -> None:
        sizes.append(len(deliveries))
        assert [delivery.payload for delivery in deliveries] == [b"x"] * len(deliveries)

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"] * 100))
        server.work.put(deliver_of("q", [b"x"] * 30, first=100))
        server.work.put(deliver_of("q", [b"x"] * 70, first=130))
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 200)
    assert server.work.opens[0].credits[0].tasks == 200
    assert sum(sizes) == 200
    assert max(sizes) <= 100
    assert sorted(server.work.tokens()) == [token_of(number) for number in range(200)]


async def test_a_message_larger_than_a_batch_is_split(server: FakeServer) -> None:
    worker, sizes = Worker(server.target), list[int]()

    @worker.on_batch("q", max_size=10)
    def handle(deliveries: list[Delivery]) -> None:
        sizes.append(len(deliveries))

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"] * 20))
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 20)
    assert sizes == [10, 10]
    assert server.work.tokens() == [token_of(number) for number in range(20)]


async def test_a_batch_handler_may_answer_for_each(server: FakeServer) -> None:
    worker = Worker(server.target)

    @worker.on_batch("q")
    async def handle(deliveries: list[Delivery]) -> list[object]:
        return [None, Reject("bad"), Retry(1), ValueError("oops"), "fine"]

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"] * 5))
        await server.work.until(lambda: len(server.work.tokens()) == 5)
    assert server.work.tokens(ACK) == [token_of(0), token_of(4)]
    assert server.work.tokens(REJECT) == [token_of(1)]
    assert sorted(server.work.tokens(NACK)) == [token_of(2), token_of(3)]


def wrong_length(deliveries: list[Delivery]) -> list[object]:
    return [None]


def raising(deliveries: list[Delivery]) -> list[object]:
    raise ValueError("one entry per delivery is not the trouble here")


@pytest.mark.parametrize("handler", [wrong_length, raising])
async def test_a_batch_that_fails_fails_as_a_whole(
    server: FakeServer, handler: Callable[[list[Delivery]], list[object]]
) -> None:
    worker = Worker(server.target)
    worker.on_batch("q")(handler)
    async with running(worker):
        server.work.put(deliver_of("q", [b"x"] * 3))
        await server.work.until(lambda: len(server.work.tokens(NACK)) == 3)
    assert len(server.work.settles) == 1
    assert "one entry per delivery" in server.work.settles[0].error


async def test_queues_have_credit_of_their_own(server: FakeServer) -> None:
    worker, free = Worker(server.target), asyncio.Event()

    @worker.on("slow", concurrency=1)
    async def slow(delivery: Delivery) -> None:
        await free.wait()

    @worker.on("quick", concurrency=1)
    async def quick(delivery: Delivery) -> None:
        return None

    async with running(worker):
        for number in range(5):
            server.work.put(deliver_of("slow", [b"x"], first=number))
            server.work.put(deliver_of("quick", [b"x"], first=100 + number))
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 5)
        assert set(server.work.tokens(ACK)) == {token_of(100 + number) for number in range(5)}
        free.set()
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 10)


async def test_mistakes_are_told_before_anything_runs(server: FakeServer) -> None:
    worker = Worker(server.target)
    with pytest.raises(TimerdError, match="has no handlers"):
        await worker.run()
    worker.on("q")(print)
    with pytest.raises(TimerdError, match="has a handler already"):
        worker.on_batch("q")(print)
    with pytest.raises(TimerdError, match="`concurrency` is 0"):
        worker.on("r", concurrency=0)(print)


async def test_what_a_handler_sets_for_itself_no_other_call_sees(server: FakeServer) -> None:
    """As a library does that notes whose request this is. What is set where the worker runs all of them see."""
    worker, seen = Worker(server.target), list[tuple[str, str]]()
    customer, program = ContextVar("customer", default="nobody"), ContextVar("program", default="none")

    @worker.on("q", concurrency=1)
    async def handle(delivery: Delivery) -> None:
        seen.append((program.get(), customer.get()))
        customer.set(delivery.payload.decode())

    program.set("letters")
    async with running(worker):
        await server.work.until(lambda: bool(server.work.opens))
        # More than there is room for: the second one begins where the first one ends.
        server.work.say(wk.WorkResponse(deliver=deliver_of("q", [b"ada", b"bob", b"eve"])))
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 3)
    assert seen == [("letters", "nobody")] * 3
