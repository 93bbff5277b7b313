"""A handler that keeps the event loop to itself is named while it does."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator

import pytest

from tests.sdk.fake_server import FakeServer, deliver_of, token_of
from tests.sdk.worker_rig import ACK
from timerd import Delivery, Worker


class Heard(logging.Handler):
    """What a worker in another thread has to say."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.sentences: asyncio.Queue[str] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        self._loop.call_soon_threadsafe(self.sentences.put_nowait, record.getMessage())


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    log, handler = logging.getLogger("timerd.worker"), Heard()
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


@pytest.mark.parametrize("in_batches", [False, True])
async def test_a_coroutine_that_blocks_the_loop_is_named_meanwhile(
    server: FakeServer, heard: Heard, in_batches: bool
) -> None:
    worker, free = Worker(server.target, lease=0.8), threading.Event()

    async def block(given: Delivery | list[Delivery]) -> None:
        free.wait()

    (worker.on_batch("q") if in_batches else worker.on("q"))(block)
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    try:
        server.work.put(deliver_of("q", [b"x"]))
        said = await asyncio.wait_for(heard.sentences.get(), 60)
    finally:
        free.set()
    await server.work.until(lambda: server.work.tokens(ACK) == [token_of(0)])
    await worker.stop()
    await asyncio.to_thread(thread.join)
    assert said.startswith(f"The handler {__name__}.{block.__qualname__} of the queue 'q' has kept the event loop")
    assert "after 0.8 s the tasks are delivered again. Register a plain function" in said
    assert "free.wait()" in said
    assert heard.sentences.empty()


async def test_a_plain_function_may_take_as_long_as_it_likes(server: FakeServer, heard: Heard) -> None:
    """Its lease is extended."""
    worker, free = Worker(server.target, lease=1.5), threading.Event()

    @worker.on("q")
    def block(delivery: Delivery) -> None:
        free.wait()

    run = asyncio.create_task(worker.run())
    server.work.put(deliver_of("q", [b"x"]))
    await server.work.until(lambda: len(server.work.extends) == 3)
    free.set()
    await worker.stop()
    await run
    assert server.work.tokens(ACK) == [token_of(0)]
    assert heard.sentences.empty()
