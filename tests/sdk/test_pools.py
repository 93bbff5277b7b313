"""Pools of the SDK's worker: slots that the handlers of several queues share."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.sdk.fake_server import FakeServer, deliver_of
from tests.sdk.worker_rig import ACK, NACK, running
from timerd import Delivery, Worker
from timerd.client import InvalidTask, TimerdError
from timerd.v1 import work_service_pb2 as wk


class Converter:
    """A worker of two types in three slots, whose handlers wait until they are let go."""

    def __init__(self, server: FakeServer, slots: int = 3) -> None:
        self.worker = Worker(server.target)
        self.go = asyncio.Event()
        self.begun: list[str] = []
        self.arrivals: asyncio.Queue[Delivery] = asyncio.Queue()
        self.most = self.now = 0
        pool = self.worker.pool("convert", slots=slots)
        for queue in ("pdf", "excel"):
            pool.on(queue)(self.handle)

    async def handle(self, delivery: Delivery) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        self.begun.append(delivery.queue)
        self.arrivals.put_nowait(delivery)
        await self.go.wait()
        self.now -= 1

    async def until_begun(self, count: int) -> None:
        for _ in range(count):
            await self.arrivals.get()


def given(server: FakeServer) -> int:
    """Slots that the worker has said are free, on all streams."""
    return sum(credit.tasks for credit in server.work.credits if credit.pool == "convert")


async def test_the_queues_of_a_pool_share_its_slots(server: FakeServer) -> None:
    converter = Converter(server)
    for number, queue in enumerate(("pdf", "excel", "pdf", "excel", "pdf")):
        server.work.put(deliver_of(queue, [b"x"], number))
    async with running(converter.worker):
        await server.work.until(lambda: given(server) == 3)
        await converter.until_begun(3)
        assert sum(map(len, server.work.waiting.values())) == 2, "no more was asked for"
        converter.go.set()
        await server.work.until(lambda: len(server.work.tokens(ACK)) == 5)
        await server.work.until(lambda: given(server) == 3 + 5)
    assert converter.most == 3
    assert sorted(converter.begun) == ["excel", "excel", "pdf", "pdf", "pdf"]


async def test_a_pool_is_declared_and_its_credit_follows_when_the_server_knows_what_it_is(server: FakeServer) -> None:
    converter = Converter(server)
    converter.worker.on("mail", concurrency=2)(converter.handle)
    async with running(converter.worker):
        await server.work.until(lambda: given(server) == 3)
    (opening,) = server.work.opens
    assert [(each.name, list(each.queues), each.slots) for each in opening.pools] == [("convert", ["pdf", "excel"], 3)]
    assert list(opening.credits) == [wk.Credit(queue="mail", tasks=2)]
    assert server.work.credits == [wk.Credit(pool="convert", tasks=3)]


async def test_after_a_broken_stream_the_slots_in_use_are_not_free(server: FakeServer) -> None:
    converter = Converter(server)
    server.work.put(deliver_of("pdf", [b"x", b"x"]))
    async with running(converter.worker):
        await converter.until_begun(2)
        server.work.credits.clear()
        server.work.break_streams()
        await server.work.until(lambda: given(server) == 1)
        converter.go.set()
        await server.work.until(lambda: given(server) == 3)
    assert len(server.work.opens) == 2


async def test_what_ends_before_the_server_has_answered_is_counted_once(server: FakeServer) -> None:
    converter = Converter(server)
    server.work.put(deliver_of("pdf", [b"x", b"x"]))
    async with running(converter.worker):
        await converter.until_begun(2)
        server.work.credits.clear()
        server.work.break_streams()
        converter.go.set()
        await server.work.until(lambda: len(server.work.opens) == 2 and bool(given(server)))
        await converter.worker.stop()
    assert given(server) == 3


async def test_a_thread_that_goes_on_after_its_time_keeps_its_slot(server: FakeServer) -> None:
    worker, let_go, begun = Worker(server.target), threading.Event(), threading.Event()
    pool = worker.pool("convert", slots=1)

    @pool.on("pdf", timeout=0.05)
    def stuck(_: Delivery) -> None:
        begun.set()
        let_go.wait(20)

    server.work.put(deliver_of("pdf", [b"x"]))
    async with running(worker):
        await server.work.until(lambda: len(server.work.tokens(NACK)) == 1)
        assert begun.is_set()
        assert given(server) == 1, "the slot is not free"
        let_go.set()
        await server.work.until(lambda: given(server) == 2)


async def test_a_server_that_knows_no_pools_is_named_in_a_sentence(server: FakeServer) -> None:
    server.work.knows_pools = False
    with pytest.raises(TimerdError, match="The server 'fake' is of a release that knows no pools: upgrade it") as error:
        await Converter(server).worker.run()
    assert error.value.code == "UNIMPLEMENTED"
    assert not server.work.credits, "it would not have understood"


def test_what_is_wrong_with_a_pool_is_said_before_the_worker_runs() -> None:
    worker = Worker("127.0.0.1:1")
    with pytest.raises(InvalidTask, match=r"`slots` is 0; give a whole number from 1 to 1,000,000\."):
        worker.pool("convert", slots=0)
    with pytest.raises(InvalidTask, match="`name` is empty: give its text"):
        worker.pool("", slots=1)
    pool = worker.pool("convert", slots=8)
    with pytest.raises(InvalidTask, match="This worker has a pool 'convert' already: give the other one a name"):
        worker.pool("convert", slots=1)
    pool.on("pdf")(print)
    for again in (pool, worker.pool("other", slots=1), worker):
        with pytest.raises(InvalidTask, match="The queue 'pdf' has a handler already; a worker takes one per queue"):
            again.on("pdf")(print)
    with pytest.raises(InvalidTask, match="which cannot be called"):
        pool.on("excel")(5)  # type: ignore[type-var]
    assert (pool.name, pool.slots) == ("convert", 8)
