"""Progress on its way to the server: with signs of life, before a failure, and no longer than the attempt lasts."""

from __future__ import annotations

import asyncio

from tests.sdk.fake_server import FakeServer, deliver_of, token_of
from tests.sdk.worker_rig import ACK, NACK, running
from timerd import Delivery, Worker
from timerd.worker import Progress

LEASE_S = 1.0


def reports(server: FakeServer) -> list[tuple[bytes, Progress | None]]:
    return [(each.ack_token, Progress.of(each.progress)) for extend in server.work.extends for each in extend.reports]


async def test_it_goes_with_each_sign_of_life_until_its_attempt_has_ended(server: FakeServer) -> None:
    worker, ended = Worker(server.target, lease=LEASE_S), asyncio.Event()

    @worker.on("q")
    async def export(delivery: Delivery) -> None:
        await delivery.progress(0.1, "page 3")
        await delivery.progress(0.4, b"page 17")
        await ended.wait()

    async with running(worker):
        server.work.put(deliver_of("q", [b"x"]))
        await server.work.until(lambda: len(reports(server)) >= 2)
        ended.set()
        await server.work.until(lambda: server.work.tokens(ACK) == [token_of(0)])
    assert set(reports(server)) == {(token_of(0), Progress(0.4, b"page 17"))}


async def test_a_plain_handler_says_it_before_it_fails(server: FakeServer) -> None:
    """Of the one that fails, and not of others."""
    worker = Worker(server.target)

    @worker.on("q")
    def export(delivery: Delivery) -> None:
        delivery.progress(0.5, delivery.payload)
        if delivery.payload == b"fails":
            raise ValueError

    async with running(worker):
        server.work.put(deliver_of("q", [b"fine", b"fails"]))
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(1)])
    assert reports(server) == [(token_of(1), Progress(0.5, b"fails"))]
