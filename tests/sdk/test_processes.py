"""Handlers in processes of their own: what hangs, crashes or leaves is ended, and the worker goes on."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.sdk.converting import convert, until_gone
from tests.sdk.fake_server import FakeServer, deliver_of, token_of
from tests.sdk.worker_rig import ACK, NACK, REJECT, running
from timerd import Delivery, Worker
from timerd.client import InvalidTask

pytestmark = pytest.mark.process


async def convert_later(delivery: Delivery) -> None:
    await asyncio.sleep(0)
    convert(delivery)


def convert_all(deliveries: list[Delivery]) -> Sequence[object]:
    return [ValueError("page 7 is torn") if each.payload == b"fails" else None for each in deliveries]


def convert_each(deliveries: list[Delivery]) -> Sequence[object]:
    return [convert(each) for each in deliveries]


def worker_of(server: FakeServer, timeout: float | None = None) -> Worker:
    worker = Worker(server.target)
    worker.on("q", concurrency=1, timeout=timeout, isolation="process")(convert)
    return worker


async def test_one_process_does_one_call_after_the_other(server: FakeServer, tmp_path: Path) -> None:
    deliver = deliver_of("q", [f"fine {tmp_path}/a".encode()])
    deliver.keys.append("k1")
    deliver.attempts.append(3)
    async with running(worker_of(server)):
        server.work.put(deliver)
        server.work.put(deliver_of("q", [f"fine {tmp_path}/b".encode()], first=1))
        await server.work.until(lambda: server.work.tokens(ACK) == [token_of(0), token_of(1)])
    first, second = ((tmp_path / name).read_text().split(" ") for name in "ab")
    assert first[1:] == ["3", "k1"]
    assert first[0] == second[0] != str(os.getpid())
    await until_gone(int(first[0]))


async def test_what_it_says_of_its_progress_comes_before_its_failure(server: FakeServer) -> None:
    deliver = deliver_of("q", [b"reports"])
    deliver.previous_progress.add(fraction=0.1, cursor=b"page 3")
    async with running(worker_of(server)):
        server.work.put(deliver)
        await server.work.until(lambda: server.work.tokens(NACK) == [token_of(0)])
    [[report]] = [extend.reports for extend in server.work.extends if extend.reports]
    assert (report.ack_token, report.progress.fraction, report.progress.cursor) == (token_of(0), 0.4, b"page 17")
    assert "told Progress(fraction=0.1, cursor=b'page 3')" in server.work.settles[0].error


@pytest.mark.parametrize("how", ["hangs", "hangs-in-c", "stubborn"])
async def test_one_that_hangs_is_ended_and_the_next_call_has_a_fresh_one(
    server: FakeServer, tmp_path: Path, how: str
) -> None:
    """Its error names the line, also where it is in code that is not Python's; asked or not, it ends."""
    async with running(worker_of(server, timeout=1)):
        server.work.put(deliver_of("q", [f"{how} {tmp_path}/a".encode()]))
        server.work.put(deliver_of("q", [f"fine {tmp_path}/b".encode()], first=1))
        await server.work.until(lambda: server.work.tokens(ACK) == [token_of(1)])
    assert server.work.tokens(NACK) == [token_of(0)]
    [hung, fresh] = (int((tmp_path / name).read_text().split(" ")[0]) for name in "ab")
    assert hung != fresh
    await until_gone(hung)
    error = server.work.settles[0].error
    assert "convert of the queue 'q' had not ended after 1 s. It was at:" in error
    assert "converting.py" in error
    assert "in convert" in error


@pytest.mark.parametrize(
    ("payload", "action", "error"),
    [
        (b"fails", NACK, "ValueError: page 7 is torn"),
        (b"hopeless", REJECT, "no such page"),
        (b"crashes", NACK, "The process of the handler was ended by SIGSEGV while it had this task."),
        (b"leaves", NACK, "The process of the handler ended with exit code 3 while it had this task."),
    ],
)
async def test_whatever_becomes_of_its_process_is_the_end_of_one_attempt(
    server: FakeServer, payload: bytes, action: int, error: str
) -> None:
    async with running(worker_of(server)):
        server.work.put(deliver_of("q", [payload]))
        server.work.put(deliver_of("q", [b"fine"], first=1))
        await server.work.until(lambda: server.work.tokens(ACK) == [token_of(1)])
    assert server.work.tokens(action) == [token_of(0)]
    assert error in server.work.settles[0].error


async def test_a_coroutine_function_runs_in_a_loop_of_its_own(server: FakeServer) -> None:
    worker = Worker(server.target)
    worker.on("q", isolation="process")(convert_later)
    async with running(worker):
        server.work.put(deliver_of("q", [b"fine", b"fails"]))
        await server.work.until(lambda: len(server.work.tokens()) == 2)
    assert (server.work.tokens(ACK), server.work.tokens(NACK)) == ([token_of(0)], [token_of(1)])


async def test_a_batch_is_one_call(server: FakeServer) -> None:
    worker = Worker(server.target)
    worker.on_batch("q", isolation="process")(convert_all)
    async with running(worker):
        server.work.put(deliver_of("q", [b"fine", b"fails", b"fine"]))
        await server.work.until(lambda: len(server.work.tokens()) == 3)
    assert (server.work.tokens(ACK), server.work.tokens(NACK)) == ([token_of(0), token_of(2)], [token_of(1)])


async def test_what_can_be_no_result_ends_the_task_as_elsewhere(server: FakeServer) -> None:
    """It was acknowledged without a result, as if there were none."""
    worker = worker_of(server)
    worker.on_batch("many", isolation="process")(convert_each)
    kept, in_batch = deliver_of("q", [b"answers"]), deliver_of("many", [b"answers", b"fine"], first=1)
    for message in (kept, in_batch):
        message.templates[0].keep_result_ms = 1000
    async with running(worker):
        for message in (kept, in_batch, deliver_of("q", [b"answers"], first=3)):
            server.work.put(message)
        await server.work.until(lambda: len(server.work.tokens()) == 4)
    assert sorted(server.work.tokens(REJECT)) == [token_of(0), token_of(1)]
    refused = [settle.error for settle in server.work.settles if settle.action == REJECT]
    assert all("returns bytes, a text, a `TaskResult` or None, not dict" in error for error in refused)


async def test_a_worker_that_is_cut_short_leaves_no_process_behind(server: FakeServer, tmp_path: Path) -> None:
    """Nobody would wait for one that does not heed what it is asked."""
    run = asyncio.create_task(worker_of(server).run())
    server.work.put(deliver_of("q", [f"stubborn {tmp_path}/a".encode()]))
    async with asyncio.timeout(20):
        while not (tmp_path / "a").exists():  # noqa: ASYNC110 - processes tell nobody
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    run.cancel()
    await asyncio.wait([run])
    await until_gone(int((tmp_path / "a").read_text().split(" ")[0]))


async def test_a_worker_that_is_killed_takes_its_processes_along(tmp_path: Path) -> None:
    """In the middle of a call: its tasks go to another worker, which would run them beside it."""
    code = (
        "from tests.sdk.converting import convert\n"
        "from tests.sdk.fake_server import deliver_of\n"
        "from timerd.sdk.values import DeliveredBatch, Delivery\n"
        "from timerd.sdk.working.processes import HandlerProcesses\n"
        "if __name__ == '__main__':\n"
        f"    batch = DeliveredBatch(deliver_of('q', [b'hangs {tmp_path}/a']))\n"
        "    HandlerProcesses(convert, 'q')(Delivery(batch, 0))\n"
    )
    program = tmp_path / "worker.py"
    program.write_text(code)
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    worker = await asyncio.create_subprocess_exec(sys.executable, program, env=environment)
    try:
        async with asyncio.timeout(60):
            while not (tmp_path / "a").exists():  # noqa: ASYNC110 - processes tell nobody
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
    finally:
        worker.kill()
        await worker.wait()
    await until_gone(int((tmp_path / "a").read_text().split(" ")[0]))


def test_what_another_process_cannot_import_is_refused() -> None:
    def inner(delivery: Delivery) -> None: ...

    with pytest.raises(InvalidTask, match="which another process cannot import"):
        Worker().on("q", isolation="process")(inner)
    with pytest.raises(InvalidTask, match="`isolation` is 'thread': write \"process\", or leave it out"):
        Worker().on("q", isolation="thread")(convert)
