"""A call that has ended leaves nothing for Python's collector: in a burst it would go through all that is alive."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.sdk.fake_server import FakeServer, deliver_of
from tests.sdk.worker_rig import running
from timerd import Delivery, Worker
from timerd.sdk.values import DeliveredBatch
from timerd.sdk.working.leases import Hold
from timerd.sdk.working.time_limits import TimedCall

COUNT = 20
KINDS = (TimedCall, Hold, Delivery, DeliveredBatch)


async def returns(delivery: Delivery) -> None: ...


async def fails(delivery: Delivery) -> None:
    raise ValueError(delivery.payload)


def returns_in_a_thread(delivery: Delivery) -> None: ...


def fails_in_a_thread(delivery: Delivery) -> None:
    raise ValueError(delivery.payload)


async def returns_batch(deliveries: list[Delivery]) -> None: ...


@pytest.fixture
def uncollected() -> Iterator[None]:
    """And what is logged, with its traceback, nobody keeps."""
    gc.collect()
    gc.disable()
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def left() -> Counter[str]:
    """What only the collector would have freed."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    return Counter(type(each).__name__ for each in gc.garbage if isinstance(each, KINDS))


async def worked(server: FakeServer, worker: Worker, *, stall_timeout_ms: int = 0) -> None:
    async with running(worker):
        for first in range(COUNT):
            deliver = deliver_of("q", [b"x"], first=first)
            deliver.templates.add(stall_timeout_ms=stall_timeout_ms)
            server.work.put(deliver)
        await server.work.until(lambda: len(server.work.tokens()) == COUNT)


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("handler", [returns, fails, returns_in_a_thread, fails_in_a_thread])
async def test_a_call_leaves_nothing(server: FakeServer, handler: Callable[[Delivery], object]) -> None:
    worker = Worker(server.target)
    worker.on("q")(handler)
    await worked(server, worker)
    assert not left()


@pytest.mark.usefixtures("uncollected")
async def test_a_call_that_may_not_be_silent_leaves_nothing(server: FakeServer) -> None:
    worker = Worker(server.target)
    worker.on("q")(returns)
    await worked(server, worker, stall_timeout_ms=60_000)
    assert not left()


@pytest.mark.usefixtures("uncollected")
async def test_a_batch_leaves_nothing(server: FakeServer) -> None:
    worker = Worker(server.target)
    worker.on_batch("q")(returns_batch)
    await worked(server, worker)
    assert not left()
