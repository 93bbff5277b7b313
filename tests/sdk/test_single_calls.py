"""Single calls of a `SyncClient`: what a caller is told of an answer that is late, lost or a refusal."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from tests.sdk.fake_server import FakeServer
from timerd.client import (
    AccessDenied,
    FailedPrecondition,
    InvalidTask,
    OutcomeUnknown,
    Overloaded,
    SyncClient,
    TimerdError,
    Unavailable,
)
from timerd.sdk.scheduling.sync_twin import SHARED_LOOP
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

SOON = datetime.now(UTC) + timedelta(minutes=5)


def problem(code: int, reason: str = "", retry_after_ms: int = 0) -> task_pb2.Problem:
    return task_pb2.Problem(code=code, message="not now", reason=reason, retry_after_ms=retry_after_ms)


@pytest.fixture
def threaded() -> Iterator[FakeServer]:
    """The fake server on a loop of its own thread."""
    loop = SHARED_LOOP.acquire()
    fake = FakeServer()
    asyncio.run_coroutine_threadsafe(fake.start(), loop).result()
    yield fake
    asyncio.run_coroutine_threadsafe(fake.stop(), loop).result()
    SHARED_LOOP.release()


@pytest.fixture
def client(threaded: FakeServer) -> Iterator[SyncClient]:
    with SyncClient(threaded.target, timeout=20) as connected:
        yield connected


def on_loop(action: Callable[[], object]) -> None:
    loop = SHARED_LOOP.acquire()
    try:
        loop.call_soon_threadsafe(action)
    finally:
        SHARED_LOOP.release()


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def test_a_stream_that_breaks_after_it_was_stored_is_repeated_as_the_same_call(
    client: SyncClient, threaded: FakeServer
) -> None:
    threaded.timers.break_after_storing = 1
    assert client.schedule("q", "x", at=SOON).id
    assert threaded.timers.payloads == [b"x"]
    first, again = threaded.timers.requests()
    assert first.schedule == again.schedule


def test_an_answer_that_never_comes_leaves_the_outcome_unknown_in_time(threaded: FakeServer) -> None:
    on_loop(threaded.timers.gate.clear)
    with SyncClient(threaded.target, timeout=0.4) as client, pytest.raises(OutcomeUnknown) as told:
        client.schedule("q", "x", at=SOON)
    assert told.value.reason == ""
    on_loop(threaded.timers.gate.set)


def test_nobody_there_says_that_nothing_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with SyncClient(f"127.0.0.1:{port}", timeout=0.3) as client, pytest.raises(Unavailable) as told:
        client.schedule("q", "x", at=SOON)
    assert told.value.reason == "NOT_SENT"


def test_a_refusal_for_good_is_raised_and_one_that_may_pass_is_tried_again(
    client: SyncClient, threaded: FakeServer
) -> None:
    threaded.timers.refusals.append(problem(9, "HAS_FIRED"))
    with pytest.raises(FailedPrecondition, match="not now") as told:
        client.reschedule("A", at=SOON)
    assert told.value.reason == "HAS_FIRED"
    threaded.timers.refusals.append(problem(14, "DRAINING", 1))
    assert client.schedule("q", "x", at=SOON).id
    assert threaded.timers.payloads == [b"x"]


def test_a_refusal_is_not_tried_again_before_its_time(threaded: FakeServer) -> None:
    threaded.timers.refusals.append(problem(8, "INGEST_BUDGET", 60_000))
    with SyncClient(threaded.target, timeout=2) as client, pytest.raises(Overloaded) as told:
        client.schedule("q", "x", at=SOON)
    assert told.value.reason == "INGEST_BUDGET"
    assert len(threaded.timers.received) == 1


def test_a_stream_that_is_refused_for_good_says_so_and_that_nothing_was_stored(threaded: FakeServer) -> None:
    threaded.timers.refuses_sessions = grpc.StatusCode.UNAUTHENTICATED
    with SyncClient(threaded.target, timeout=5) as client, pytest.raises(AccessDenied, match="not for you"):
        client.schedule("q", "x", at=SOON)
    assert threaded.timers.received == []


def test_an_item_of_which_the_server_knows_nothing_is_asked_for_again(client: SyncClient, threaded: FakeServer) -> None:
    unknown = pb.ItemResult(outcome=task_pb2.ITEM_OUTCOME_UNKNOWN)
    unknown.problem.message = "who knows"
    threaded.timers.item_results[0] = unknown
    with SyncClient(threaded.target, timeout=0.5) as hasty, pytest.raises(OutcomeUnknown):
        hasty.schedule("q", "x", at=SOON)
    assert len({request.schedule.request_id for request in threaded.timers.requests()}) == 1
    assert len(threaded.timers.received) > 1


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\4\0\0\0\0\0\1\xff\xff\xff\xff",
        b"\0\0\7\0\0\0\0\0\1\0\0\0\0\2\xff\xff",
    ],
    ids=["hangs up", "no HTTP/2", "no gRPC", "no message"],
)
def test_a_server_of_another_kind_is_an_error(said: bytes) -> None:

    def answer(listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(1_000)
                connection.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, args=(listening,), daemon=True).start()
        target = f"127.0.0.1:{listening.getsockname()[1]}"
        with SyncClient(target, timeout=0.5) as client, pytest.raises(TimerdError):
            client.schedule("q", "x", at=SOON)
        listening.shutdown(socket.SHUT_RDWR)


def test_a_server_that_went_while_nobody_called_was_not_asked() -> None:
    loop, fake = SHARED_LOOP.acquire(), FakeServer()
    of_others = len(asyncio.all_tasks(loop))
    asyncio.run_coroutine_threadsafe(fake.start(), loop).result()
    with SyncClient(fake.target, timeout=0.5) as client:
        client.schedule("q", "x", at=SOON)
        asyncio.run_coroutine_threadsafe(fake.stop(), loop).result()
        # The client has seen that its stream is over: of its tasks only the one that would connect anew is left.
        until(lambda: len(asyncio.all_tasks(loop)) <= of_others + 1)
        with pytest.raises(Unavailable) as told:
            client.schedule("q", "y", at=SOON)
    assert told.value.reason == "NOT_SENT"
    SHARED_LOOP.release()


def test_a_program_leaves_though_a_thread_of_it_waits(threaded: FakeServer) -> None:
    on_loop(threaded.timers.gate.clear)
    program = f"""
import threading
from timerd import SyncClient
client = SyncClient({threaded.target!r}, timeout=600)
threading.Thread(target=lambda: client.schedule("q", "x", delay=60), daemon=True).start()
input()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        until(lambda: len(threaded.timers.received) == 1)
        process.communicate(b"\n", timeout=60)
    assert process.returncode == 0
    on_loop(threaded.timers.gate.set)


def test_a_client_that_is_closed_meanwhile_does_not_say_that_nothing_was_stored(threaded: FakeServer) -> None:
    on_loop(threaded.timers.gate.clear)
    client = SyncClient(threaded.target)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.schedule, "q", "x", at=SOON)
        until(lambda: len(threaded.timers.received) == 1)
        client.close()
        with pytest.raises(OutcomeUnknown) as told:
            waiting.result(10)
    assert told.value.reason == ""
    on_loop(threaded.timers.gate.set)
    with pytest.raises(TimerdError, match="closed"):
        client.schedule("q", "x", at=SOON)


def test_a_child_that_was_forked_is_told_to_make_a_client_of_its_own(threaded: FakeServer) -> None:
    """By every call alike; the parent's client goes on."""
    program = f"""
import os, warnings
warnings.simplefilter("ignore")
from timerd import SyncClient, TimerdError
client = SyncClient({threaded.target!r})
client.schedule("q", "parent", delay=60)
child = os.fork()
if child == 0:
    for ask in (lambda: client.schedule("q", "child", delay=60), lambda: client.count(queue="q"), client.server_info):
        try:
            ask()
        except TimerdError as told:
            assert "after the fork" in str(told), told
        else:
            os._exit(1)
    client.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
client.schedule("q", "parent", delay=60)
client.close()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert threaded.timers.payloads == [b"parent", b"parent"]


def test_a_key_without_its_certificate_is_refused_before_anything_is_said() -> None:
    with pytest.raises(InvalidTask, match="both"):
        SyncClient("a:1", ca_file="ca", key_file="key")
