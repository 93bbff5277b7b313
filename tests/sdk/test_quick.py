"""Single calls of a `SyncClient` in the caller's own thread: the short way, and what happens where it leads nowhere."""

from __future__ import annotations

import asyncio
import os
import signal
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
    CancelOutcome,
    FailedPrecondition,
    InvalidTask,
    OutcomeUnknown,
    Overloaded,
    SyncClient,
    TimerdError,
    Unavailable,
)
from timerd.sdk import blocking_stream
from timerd.sdk.connection import Connection
from timerd.sdk.sync_twin import SHARED_LOOP
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


def went_through_the_loop(client: SyncClient) -> bool:
    return client._client._channel is not None


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def test_one_caller_needs_no_loop(client: SyncClient, threaded: FakeServer) -> None:
    task = client.schedule("q", "x", at=SOON)
    later = client.schedule("q", b"y", delay=60)
    keyed = client.schedule("q", "z", at=SOON, key="k")
    assert (task.queue, task.fire_time, keyed.key) == ("q", SOON.replace(microsecond=task.fire_time.microsecond), "k")
    assert later.fire_time > datetime.now(UTC)
    assert client.cancel(task.id) is CancelOutcome.CANCELLED
    assert client.reschedule(later.id, at=SOON) >= SOON
    assert threaded.timers.sessions == 1
    assert threaded.timers.payloads == [b"x", b"y", b"z"]
    assert not went_through_the_loop(client)


def test_what_the_loop_alone_can_do_goes_there(client: SyncClient, threaded: FakeServer) -> None:
    """Of a cancel by key there is no message of a session."""
    threaded.timers.unary_answers["Cancel"].append(pb.CancelResponse(outcome=1))  # type: ignore[arg-type]
    assert client.cancel(key="k") is CancelOutcome.CANCELLED


def test_a_call_in_another_thread_goes_through_the_loop_meanwhile(client: SyncClient, threaded: FakeServer) -> None:
    on_loop(threaded.timers.gate.clear)
    with ThreadPoolExecutor(21) as pool:
        first = pool.submit(client.schedule, "q", "0", at=SOON)
        until(lambda: len(threaded.timers.received) == 1)
        others = [pool.submit(client.schedule, "q", str(n), at=SOON) for n in range(1, 21)]
        until(lambda: threaded.timers.sessions == 2 and len(threaded.timers.received) >= 2)
        on_loop(threaded.timers.gate.set)
        ids = {call.result().id for call in (first, *others)}
    assert len(ids) == 21
    assert sorted(threaded.timers.payloads) == sorted(str(n).encode() for n in range(21))


# -- where it leads nowhere -------------------------------------------------------------------------------------------


def test_a_stream_that_breaks_after_it_was_stored_is_repeated_as_the_same_call(
    client: SyncClient, threaded: FakeServer
) -> None:
    threaded.timers.break_after_storing = 1
    assert client.schedule("q", "x", at=SOON).id
    assert threaded.timers.payloads == [b"x"]
    first, again = threaded.timers.requests()
    assert first.schedule == again.schedule
    assert went_through_the_loop(client)


def test_the_short_way_is_found_again(client: SyncClient, threaded: FakeServer) -> None:
    threaded.timers.break_after_storing = 1
    client.schedule("q", "x", at=SOON)
    begun = threaded.timers.sessions
    until(lambda: client.schedule("q", "y", at=SOON).id != "" and threaded.timers.sessions > begun)
    assert client._quick._stream._socket is not None


def test_who_is_silent_is_asked_once_more(threaded: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking_stream, "PATIENCE_S", 0.05)
    on_loop(threaded.timers.gate.clear)
    with SyncClient(threaded.target) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.schedule, "q", "x", at=SOON)
        until(lambda: len(threaded.timers.received) == 2)
        on_loop(threaded.timers.gate.set)
        assert waiting.result().id
    assert threaded.timers.payloads == [b"x"]


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
    assert not went_through_the_loop(client)
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
def test_who_is_no_timerd_is_left_to_grpc(said: bytes) -> None:
    """Whose errors say what is wrong."""

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


# -- whose connection it is -------------------------------------------------------------------------------------------


def test_after_a_pause_it_connects_anew(
    client: SyncClient, threaded: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For nobody answered the server's pings meanwhile."""
    client.schedule("q", "x", at=SOON)
    monkeypatch.setattr(blocking_stream, "MOST_IDLE_S", 0.0)
    client.schedule("q", "y", at=SOON)
    assert threaded.timers.sessions == 2
    assert not went_through_the_loop(client)


def test_a_server_that_came_back_is_spoken_to(threaded: FakeServer) -> None:
    with SyncClient(threaded.target, timeout=20) as client:
        client.schedule("q", "x", at=SOON)
        stream = client._quick._stream
        assert stream._socket is not None
        # As when the server hangs up while nobody calls.
        stream._socket.shutdown(socket.SHUT_RD)
        client.schedule("q", "y", at=SOON)
    assert threaded.timers.payloads == [b"x", b"y"]


def test_a_server_that_went_while_nobody_called_was_not_asked() -> None:
    """Its goodbye lies unread in the socket."""
    loop, fake = SHARED_LOOP.acquire(), FakeServer()
    asyncio.run_coroutine_threadsafe(fake.start(), loop).result()
    with SyncClient(fake.target, timeout=0.5) as client:
        client.schedule("q", "x", at=SOON)
        asyncio.run_coroutine_threadsafe(fake.stop(), loop).result()
        with pytest.raises(Unavailable) as told:
            client.schedule("q", "y", at=SOON)
    assert told.value.reason == "NOT_SENT"
    SHARED_LOOP.release()


def test_a_name_that_nobody_finds_does_not_hold_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    found = threading.Event()

    def slow(*_: object, **__: object) -> list[tuple[object, ...]]:
        found.wait(20)
        raise socket.gaierror("nobody has this name")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with SyncClient("timers.example:7400", timeout=0.3) as client, pytest.raises(Unavailable):
        client.schedule("q", "x", at=SOON)
    assert not found.is_set()
    found.set()


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


def test_who_is_interrupted_does_not_read_the_answer_of_before(client: SyncClient, threaded: FakeServer) -> None:
    def interrupt() -> None:
        until(lambda: len(threaded.timers.received) == 1)
        os.kill(os.getpid(), signal.SIGINT)

    on_loop(threaded.timers.gate.clear)
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        client.cancel("A-first")
    interrupting.join()
    on_loop(threaded.timers.gate.set)
    assert client.cancel("B-second") is CancelOutcome.NOT_FOUND


def test_a_forked_child_has_a_connection_of_its_own(threaded: FakeServer) -> None:
    program = f"""
import os, warnings
warnings.simplefilter("ignore")
from timerd import SyncClient, TimerdError
client = SyncClient({threaded.target!r})
client.schedule("q", "parent", delay=60)
child = os.fork()
mine = b"child" if child == 0 else b"parent"
for n in range(50):
    assert client.schedule("q", mine, delay=60).id
if child == 0:
    try:
        client.count(queue="q")
    except TimerdError as told:
        assert "after the fork" in str(told), told
    client.close()
    with SyncClient({threaded.target!r}) as mine:
        assert len(mine.schedule_many("q", [(b"child", 60)])) == 1
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
client.schedule("q", mine, delay=60)
client.close()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    # The end of the child's is not that of the parent's.
    assert threaded.timers.sessions == 3
    assert (threaded.timers.payloads.count(b"child"), threaded.timers.payloads.count(b"parent")) == (51, 52)


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("127.0.0.1:7400", ("127.0.0.1", 7400)),
        ("timers.example:443", ("timers.example", 443)),
        ("[::1]:7400", ("::1", 7400)),
        ("dns:///timers:7400", None),
        ("unix:/run/timerd", None),
        ("ipv4:127.0.0.1:1,127.0.0.1:2", None),
        ("timers", None),
        ("::1:7400", None),
        ("timers:99999", None),
        ("timers:²", None),
        ("unix:7400", None),
        ("dns:7400", None),
    ],
)
def test_only_a_plain_target_is_dialled_directly(target: str, address: tuple[str, int] | None) -> None:
    assert Connection(target).direct_address() == address


def test_a_key_without_its_certificate_is_refused_before_anything_is_said() -> None:
    with pytest.raises(InvalidTask, match="both"):
        SyncClient("a:1", ca_file="ca", key_file="key")


def test_without_a_ca_file_grpc_decides_whom_to_trust() -> None:
    assert Connection("a:1", tls=True).direct_address() is None
    assert Connection("a:1", ca_file="ca").direct_address() == ("a", 1)


def test_a_token_that_no_header_may_have_is_not_sent() -> None:
    with pytest.raises(ValueError, match="no header"):
        Connection("a:1", ca_file="ca", token="a\nb").headers()


def test_a_proxy_or_an_option_of_the_channel_is_for_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Connection("a:1", channel_options=[("grpc.keepalive_time_ms", 1)]).direct_address() is None
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    assert Connection("a:1").direct_address() is None
    # Which is not meant for this machine itself.
    assert Connection("127.0.0.1:1").direct_address() is not None
