"""A worker says who it is, where, and what it serves."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

import pytest

from tests.sdk.fake_server import FakeServer
from tests.sdk.worker_rig import running
from timerd import Delivery, Worker

PROGRAM = """
import sys
from timerd import Worker
worker = Worker(sys.argv[1], name="w")
worker.on("mails")(lambda delivery: None)
worker.run_forever()
"""


def serving(server: FakeServer, **options: str) -> Worker:
    worker = Worker(server.target, name="w", **options)  # type: ignore[arg-type]

    @worker.on("mails", concurrency=1_000)
    async def one(delivery: Delivery) -> None: ...

    @worker.on_batch("rows", max_size=50)
    async def many(deliveries: list[Delivery]) -> None: ...

    return worker


async def said(worker: Worker, server: FakeServer, caplog: pytest.LogCaptureFixture) -> list[str]:
    with caplog.at_level(logging.INFO, "timerd.worker"):
        async with running(worker):
            await server.work.until(lambda: len(server.work.opens) == 1)
            server.work.break_streams()
            await server.work.until(lambda: len(server.work.opens) == 2)
            await worker._stream.sync()  # type: ignore[union-attr]
    return [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]


async def test_it_says_so_when_it_is_there_and_when_it_is_back(
    server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    line = "The worker w is on fake and serves mails (1,000 at a time), rows (batches of up to 50)."
    assert await said(serving(server), server, caplog) == [line] * 2


async def test_many_queues_are_one_line(server: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    worker = serving(server, namespace="shop")
    for number in range(9):
        worker.on(f"q{number}")(lambda delivery: None)
    line, _ = await said(worker, server, caplog)
    assert line.startswith("The worker w is on fake, namespace shop and serves mails")
    assert line.endswith("q2 (16 at a time) and 6 more.")


async def test_a_program_without_logging_shows_it(server: FakeServer) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, server.target, stderr=asyncio.subprocess.PIPE
    )
    assert program.stderr is not None
    try:
        assert await program.stderr.readline() == b"The worker w is on fake and serves mails (16 at a time).\n"
    finally:
        program.send_signal(signal.SIGTERM)
        await program.wait()
