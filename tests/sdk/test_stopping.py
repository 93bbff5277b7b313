"""How a worker is stopped: from anywhere, also before it runs, and by signals; the second one waits for nobody."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import timerd.sdk.working.signals as signals_module
from tests.sdk.fake_server import FakeServer, deliver_of, token_of
from tests.sdk.worker_rig import ACK, running
from timerd import Delivery, Worker


def acknowledging(server: FakeServer) -> Worker:
    worker = Worker(server.target)

    @worker.on("q")
    async def handle(delivery: Delivery) -> None:
        return None

    return worker


async def test_a_stop_before_the_run_has_begun_is_kept(server: FakeServer) -> None:
    worker = acknowledging(server)
    await worker.stop()
    await asyncio.wait_for(worker.run(), 20)
    begun = asyncio.create_task(worker.run())
    await worker.stop()
    await asyncio.wait_for(begun, 20)
    assert server.work.opens == []
    async with running(worker):
        server.work.put(deliver_of("q", [b"x"]))
        await server.work.until(lambda: server.work.tokens(ACK) == [token_of(0)])
    assert len(server.work.opens) == 1


async def test_a_worker_is_stopped_from_another_thread_and_loop(server: FakeServer) -> None:
    worker = acknowledging(server)
    thread = threading.Thread(target=worker.run_forever)
    thread.start()
    server.work.put(deliver_of("q", [b"x"]))
    await server.work.until(lambda: server.work.tokens(ACK) == [token_of(0)])
    await asyncio.wait_for(worker.stop(), 20)
    await asyncio.to_thread(thread.join, 20)
    assert not thread.is_alive()


async def test_a_handler_may_stop_its_worker(server: FakeServer) -> None:
    worker = Worker(server.target)

    @worker.on("q")
    async def handle(delivery: Delivery) -> None:
        await worker.stop()

    server.work.put(deliver_of("q", [b"x"]))
    await asyncio.wait_for(worker.run(), 20)
    assert server.work.tokens(ACK) == [token_of(0)]


async def test_who_stops_waits_until_the_end_also_when_it_gives_up_itself(server: FakeServer) -> None:
    worker, go, begun = Worker(server.target), asyncio.Event(), asyncio.Event()

    @worker.on("q")
    async def handle(delivery: Delivery) -> None:
        begun.set()
        await go.wait()

    run = asyncio.create_task(worker.run())
    server.work.put(deliver_of("q", [b"x"]))
    await asyncio.wait_for(begun.wait(), 20)
    impatient, patient = asyncio.create_task(worker.stop()), asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.gather(impatient, return_exceptions=True)
    assert not patient.done()
    go.set()
    await asyncio.wait_for(asyncio.gather(run, patient), 20)
    assert server.work.tokens(ACK) == [token_of(0)]


# -- signals ----------------------------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, atexit, sys, threading, time
from timerd import Worker
worker = Worker(sys.argv[1])
atexit.register(print, "exits", flush=True)

def begin():
    print("begun", flush=True)

{handler}

worker.run_forever()
print("goes on", flush=True)
"""
FOREVER = {
    "plain": """
@worker.on("q")
def handle(delivery):
    begin()
    threading.Event().wait()
""",
    "batch": """
@worker.on_batch("q")
def handle(deliveries):
    begin()
    threading.Event().wait()
""",
    "coroutine": """
@worker.on("q")
async def handle(delivery):
    begin()
    await asyncio.Event().wait()
""",
    "coroutine in a thread of its own": """
@worker.on("q")
async def handle(delivery):
    begin()
    await asyncio.to_thread(threading.Event().wait)
""",
    "coroutine that cannot be cancelled": """
@worker.on("q")
async def handle(delivery):
    begin()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
""",
    "coroutine that keeps the loop": """
@worker.on("q")
async def handle(delivery):
    begin()
    while True:
        time.sleep(0.01)
""",
}
# Those that can be left in order.
LEAVES = ("plain", "batch", "coroutine")


@asynccontextmanager
async def begun(server: FakeServer, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that has a delivery in hand."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        server.work.put(deliver_of("q", [b"x"]))
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"begun\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def last_line(err: bytes) -> bytes:
    """After the one that says which queues are served."""
    return err.splitlines(keepends=True)[-1]


@pytest.mark.parametrize("handler", FOREVER)
async def test_a_second_signal_ends_the_process(server: FakeServer, handler: str) -> None:
    first, second = signal.SIGINT, signal.SIGTERM
    async with begun(server, "-c", PROGRAM.format(handler=FOREVER[handler]), server.target) as process:
        os.kill(process.pid, first)
        if handler != "coroutine that keeps the loop":
            # It has told the server that it takes nothing new.
            await server.work.until(lambda: not server.work.credit)
        else:
            # Nobody tells. Signals that come together are taken in any order.
            await asyncio.sleep(0.5)
        os.kill(process.pid, second)
        out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 128 + second
    assert last_line(err) == b"A second signal (SIGTERM): ending at once. What is in hand is delivered again.\n"
    assert out == (b"exits\n" if handler in LEAVES else b"")
    assert server.work.tokens() == []


async def test_a_terminal_that_goes_lets_a_worker_finish(server: FakeServer) -> None:
    """However often it says so."""
    work = ("-m", "timerd.cli", "work", "q", "--server", server.target, "--exec", "echo begun; read go <&0; sleep 0.5")
    async with begun(server, *work) as process:
        for _ in range(3):
            os.kill(process.pid, signal.SIGHUP)
            await server.work.until(lambda: not server.work.credit)
        await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    assert len(server.work.tokens()) == 1


INTERRUPTED = """
import asyncio, sys, time
from timerd import Worker
worker = Worker(sys.argv[1])

@worker.on("q")
async def handle(delivery):
    print("begun", flush=True)
    while not running.cancelling():
        time.sleep(0.01)
    print("cancelled", flush=True)
    time.sleep(600)

async def main():
    global running
    running = asyncio.current_task()
    await worker.run()

{run}
"""
RUNS = {
    "asyncio.run": ("asyncio.run(main())", 2),
    "a loop of its own": ("asyncio.new_event_loop().run_until_complete(main())", 1),
}


@pytest.mark.parametrize("run", RUNS)
async def test_ctrl_c_in_a_handler_ends_the_program_and_not_the_attempt(server: FakeServer, run: str) -> None:
    """Where no worker listens to signals, Python raises KeyboardInterrupt in what the loop is at."""
    program, signals = RUNS[run]
    async with begun(server, "-c", INTERRUPTED.format(run=program), server.target) as process:
        assert process.stdout is not None
        os.kill(process.pid, signal.SIGINT)
        if signals == 2:
            assert await asyncio.wait_for(process.stdout.readline(), 60) == b"cancelled\n"
            os.kill(process.pid, signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == -signal.SIGINT
    assert err.rstrip().endswith(b"KeyboardInterrupt")
    assert server.work.tokens() == []


async def test_a_second_signal_ends_the_command_and_what_it_runs(server: FakeServer) -> None:
    work = ("-m", "timerd.cli", "work", "q", "--server", server.target, "--exec", "echo begun; sleep 600")
    async with begun(server, *work) as process:
        os.kill(process.pid, signal.SIGTERM)
        await server.work.until(lambda: not server.work.credit)
        os.kill(process.pid, signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 128 + signal.SIGINT
    assert last_line(err) == b"timerd: A second signal (SIGINT): ending at once. What is in hand is delivered again.\n"
    assert server.work.tokens() == []


class Stoppable:
    """Runs until it is stopped, and counts that."""

    def __init__(self) -> None:
        self.stops = 0
        self._over = asyncio.Event()

    async def run(self) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        await self._over.wait()

    async def stop(self) -> None:
        self.stops += 1
        self._over.set()


async def test_a_signal_that_comes_twice_at_once_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """`timeout` sends its signal to the process, and to the group that the process is in."""
    monkeypatch.setattr(signals_module, "ECHO_S", 3_600.0)
    worker = Stoppable()
    assert await asyncio.wait_for(signals_module.run_until_signalled(worker), 20) == 0
    assert worker.stops == 1
