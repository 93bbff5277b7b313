"""Several event loops in one process: what gRPC makes them complain of in vain is not heard, all else is."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from types import FunctionType
from typing import Any

import pytest

from timerd.sdk.transport.wakeups import ignore_idle_wakeups, is_idle_wakeup

# The server, the worker and the client without await have a loop each.
PROGRAM = """
import asyncio, logging, threading
from timerd import Client, SyncClient, Worker
from timerd.testing import Server

logging.basicConfig()
TASKS = 200
up, ended, arrived = threading.Event(), threading.Event(), set()


async def serve():
    global server
    async with Server() as server:
        up.set()
        while not ended.is_set():
            await server.settle()
            await asyncio.sleep(0.001)


def now():
    return server.now


serving = threading.Thread(target=asyncio.run, args=[serve()])
serving.start()
up.wait()
{story}
ended.set()
serving.join()
print(len(arrived))
"""

FOLLOW_UPS = """
client, worker, stopping = SyncClient(server.address, clock=now), Worker(server.address), []


@worker.on("first")
def first(delivery):
    client.schedule("second", delivery.payload, delay=0)


@worker.on("second")
async def second(delivery):
    arrived.add(delivery.payload)
    if len(arrived) == TASKS:
        stopping.append(asyncio.create_task(worker.stop()))


def begin():
    for number in range(TASKS):
        client.schedule("first", str(number), delay=0)


{run}
client.close()
"""

ON_THE_PROGRAMS_LOOP = """
async def main():
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(begin)
    await running


asyncio.run(main())
"""

FOREVER_IN_A_THREAD = """
running = threading.Thread(target=worker.run_forever)
running.start()
begin()
running.join()
"""

TWO_CLIENTS = """
async def schedule(queue):
    async with Client(server.address, clock=now) as client:
        for _ in range(TASKS // 2):
            arrived.add((await client.schedule(queue, "x", delay=0)).id)


threads = [threading.Thread(target=asyncio.run, args=[schedule(queue)]) for queue in ("a", "b")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize(
    "story",
    [FOLLOW_UPS.format(run=ON_THE_PROGRAMS_LOOP), FOLLOW_UPS.format(run=FOREVER_IN_A_THREAD), TWO_CLIENTS],
    ids=["worker-on-own-loop", "run-forever", "two-clients"],
)
def test_loops_beside_one_another_say_nothing(story: str) -> None:
    program = PROGRAM.format(story=story)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "200\n", "")


def raised(error: BaseException, function_name: str) -> BaseException:
    """`error`, as it comes out of a function of that name."""

    def throw() -> None:
        raise error

    renamed: Any = FunctionType(throw.__code__.replace(co_name=function_name), {}, closure=throw.__closure__)
    with pytest.raises(type(error)) as caught:
        renamed()
    return caught.value


IDLE = raised(BlockingIOError(11, "idle"), "grpc._cython.cygrpc.PollerCompletionQueue._handle_events")
ELSEWHERE = raised(BlockingIOError(11, "elsewhere"), "read_my_socket")
SERIOUS = raised(RuntimeError("serious"), "grpc._cython.cygrpc.PollerCompletionQueue._handle_events")
TOO_LATE = raised(RuntimeError("Event loop is closed"), "grpc._cython.cygrpc.PollerCompletionQueue._handle_events")
CLOSED = raised(RuntimeError("Event loop is closed"), "use_my_loop")


def test_only_grpcs_reader_that_has_nothing_to_do_is_meant() -> None:
    for meant in (IDLE, TOO_LATE):
        assert is_idle_wakeup(meant)
    for other in (ELSEWHERE, SERIOUS, CLOSED, BlockingIOError(), RuntimeError("Event loop is closed"), None):
        assert not is_idle_wakeup(other)


def report(loop: asyncio.AbstractEventLoop) -> None:
    for error in (IDLE, ELSEWHERE, SERIOUS):
        loop.call_exception_handler({"message": str(error), "exception": error})
    loop.call_exception_handler({"message": "without an exception"})


async def test_what_a_loop_reports_is_logged_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    """Also by a loop that has no channel of ours."""
    loop, stranger = asyncio.get_running_loop(), asyncio.new_event_loop()
    ignore_idle_wakeups(loop)
    with caplog.at_level(logging.ERROR, "asyncio"):
        report(loop)
        report(stranger)
    stranger.close()
    texts = [record.message.partition("\n")[0] for record in caplog.records]
    assert texts == ["[Errno 11] elsewhere", "serious", "without an exception"] * 2


async def test_a_programs_own_exception_handler_hears_the_rest() -> None:
    loop, heard = asyncio.get_running_loop(), list[str]()
    loop.set_exception_handler(lambda _, context: heard.append(context["message"]))
    ignore_idle_wakeups(loop)
    ignore_idle_wakeups(loop)
    report(loop)
    assert heard == ["[Errno 11] elsewhere", "serious", "without an exception"]
