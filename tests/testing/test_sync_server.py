"""The test server without asyncio: plain tests schedule, turn the clock and look, from any thread."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import unittest
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import timerd.testing
from timerd.client import Client, InvalidTask, SyncClient, TaskState
from timerd.model.errors import StartupError
from timerd.testing import Server, SyncServer
from timerd.testing.async_server import CONFIG

HOUR = timedelta(hours=1)


@pytest.fixture
def server() -> Iterator[SyncServer]:
    with timerd.testing.server() as running:
        yield running


def loops() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "timerd client"]


def test_what_was_scheduled_can_be_looked_at(server: SyncServer) -> None:
    server.client.schedule("mails", b"late", delay=2 * HOUR, labels={"to": "Bob"})
    server.client.schedule("mails", b"early", delay=HOUR, key="ada")
    server.client.schedule("calls", b"other", delay=HOUR)
    early, late = server.scheduled("mails")
    assert (early.payload, early.fire_time, early.key) == (b"early", server.now + HOUR, "ada")
    assert (late.payload, late.fire_time, late.labels) == (b"late", server.now + 2 * HOUR, {"to": "Bob"})
    server.client.cancel(key="ada")
    assert [task.payload for task in server.scheduled("mails")] == [b"late"]
    assert server.scheduled("nothing") == []


def test_the_clock_stands_still_until_it_is_turned(server: SyncServer) -> None:
    assert server.now == datetime(2030, 1, 1, tzinfo=UTC)
    server.advance(hours=3)
    server.advance(timedelta(minutes=1), seconds=1)
    assert server.now == datetime(2030, 1, 1, 3, 1, 1, tzinfo=UTC)
    server.advance_to(datetime(2030, 2, 1, tzinfo=UTC))
    assert server.now == datetime(2030, 2, 1, tzinfo=UTC)


def test_a_due_task_is_received_at_its_instant_and_not_before(server: SyncServer) -> None:
    server.client.schedule("mails", b"hello", delay=HOUR)
    server.advance(minutes=59)
    assert server.client.receive("mails", wait=0) == []
    server.advance(minutes=1)
    [task] = server.client.receive("mails", wait=10)
    assert (task.payload, task.fire_time) == (b"hello", server.now)
    assert [each.state for each in server.scheduled("mails")] == [TaskState.IN_FLIGHT]
    server.client.finish(task)
    assert server.scheduled("mails") == []


def test_deliveries_are_watched_as_they_happen_until_nobody_looks(server: SyncServer) -> None:
    parts = server.client.watch("mails")
    assert next(parts).events == ()
    task = server.client.schedule("mails", b"hello", delay=HOUR)
    server.advance(hours=1)
    server.client.finish(server.client.receive("mails", wait=10))
    events = list(next(parts).events)
    while len(events) < 2:
        events += next(parts).events
    assert [(event.kind.name, event.task_id) for event in events] == [("SENT", task.id), ("ACKED", task.id)]


def test_an_app_reaches_it_with_a_client_of_its_own(server: SyncServer) -> None:
    with SyncClient(server.connect_options) as own:
        task = own.schedule("mails", b"hello", delay=HOUR)
    assert task.fire_time == server.now + HOUR
    assert server.connect_options.target == server.address


def test_namespaces_are_apart(server: SyncServer) -> None:
    with SyncClient(server.connect_options, namespace="shop") as shop:
        shop.schedule("mails", b"of the shop", delay=HOUR)
    assert server.scheduled("mails") == []
    assert [task.payload for task in server.scheduled("mails", namespace="shop")] == [b"of the shop"]


def test_data_outlive_a_restart(server: SyncServer) -> None:
    address = server.address
    server.client.schedule("mails", b"hello", delay=HOUR)
    server.restart()
    assert server.address == address
    assert [task.payload for task in server.scheduled("mails")] == [b"hello"]


def test_data_in_a_folder_outlive_the_server(tmp_path: Path) -> None:
    with timerd.testing.server(data=tmp_path) as first:
        first.client.schedule("mails", b"hello", delay=HOUR)
    with timerd.testing.server(data=tmp_path, start=datetime(2030, 1, 1, 0, 30, tzinfo=UTC)) as second:
        assert [task.payload for task in second.scheduled("mails")] == [b"hello"]


def test_many_threads_use_one_server(server: SyncServer) -> None:
    """Each schedules, looks and turns the clock: nothing is lost, and every turn counts."""
    before = server.now

    def play(number: int) -> int:
        for round_ in range(5):
            server.client.schedule(f"q{number}", b"%d" % round_, at=before + timedelta(days=1))
            server.advance(minutes=1)
        return len(server.scheduled(f"q{number}"))

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(play, range(8))) == [5] * 8
    assert server.now == before + timedelta(minutes=40)


def test_two_servers_have_their_own_time(server: SyncServer) -> None:
    with timerd.testing.server(start=datetime(2031, 1, 1, tzinfo=UTC)) as other:
        other.advance(hours=1)
        other.client.schedule("mails", b"of the other", delay=1)
        assert other.now == datetime(2031, 1, 1, 1, tzinfo=UTC)
        assert server.scheduled("mails") == []
    assert server.now == datetime(2030, 1, 1, tzinfo=UTC)
    server.advance(hours=1)


def test_a_coroutine_runs_in_its_loop(server: SyncServer) -> None:
    async def plan() -> str:
        return threading.current_thread().name

    assert server.run(plan()) == "timerd client"


def test_the_clock_is_only_turned_forward(server: SyncServer) -> None:
    with pytest.raises(ValueError, match="only turned forward, not by -3600 s"):
        server.advance(hours=-1)
    with pytest.raises(ValueError, match=r"It is 2030-01-01T00:00:00.* already: the clock is only turned forward"):
        server.advance_to(server.now - HOUR)
    with pytest.raises(TypeError, match=r"cannot be turned by \(3\): give a timedelta or its parts, as `hours=3`"):
        server.advance(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"\(hour=3\): give a timedelta"):
        server.advance(hour=3)
    assert server.now == datetime(2030, 1, 1, tzinfo=UTC)


def test_a_queue_has_a_name(server: SyncServer) -> None:
    with pytest.raises(InvalidTask, match="`queue` is empty"):
        server.scheduled("")


def test_after_its_end_each_call_says_so() -> None:
    with timerd.testing.server() as server:
        client = server.client

    async def plan() -> None: ...

    for call in (
        lambda: server.advance(hours=1),
        lambda: server.advance_to(server.now),
        server.settle,
        server.restart,
        lambda: server.scheduled("mails"),
        lambda: server.run(plan()),
        lambda: server.client,
    ):
        with pytest.raises(RuntimeError, match="This server is closed"):
            call()
    with pytest.raises(Exception, match="client is closed"):
        client.schedule("mails", b"", delay=1)
    with pytest.raises(RuntimeError, match=r"make another one by `timerd.testing.server\(\)`"):
        server.__enter__()
    server.close()
    gc.collect()


def test_before_its_start_each_call_says_so() -> None:
    server = timerd.testing.server()
    with pytest.raises(RuntimeError, match="has not started: use it as `with"):
        server.advance(hours=1)
    with pytest.raises(RuntimeError, match="has not started"):
        server.scheduled("mails")
    server.close()


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'strat'"):
        timerd.testing.server(strat=1)  # type: ignore[call-arg]


def test_the_thread_ends_with_its_last_server() -> None:
    with timerd.testing.server(), timerd.testing.server():
        assert loops() == ["timerd client"]
    assert loops() == []


def test_a_start_that_fails_leaves_no_thread(server: SyncServer) -> None:
    taken = replace(CONFIG, listen=server.address)
    with pytest.raises(StartupError, match="Cannot listen on"), timerd.testing.server(config=taken):
        pass
    server.close()
    assert loops() == []


class TestOfUnittest(unittest.TestCase):
    """The server in a class of unittest, whose tests pytest runs as well."""

    def setUp(self) -> None:
        self.server = self.enterContext(timerd.testing.server())

    def test_a_task_waits(self) -> None:
        self.server.client.schedule("mails", b"hello", delay=HOUR)
        self.assertEqual([task.payload for task in self.server.scheduled("mails")], [b"hello"])  # noqa: PT009


async def test_the_server_for_asyncio_tells_what_is_scheduled_as_well() -> None:
    async with Server() as server, Client(server.connect_options) as own:
        await own.schedule("mails", b"hello", delay=HOUR, key="ada")
        [task] = await server.scheduled("mails")
        assert (task.payload, task.fire_time, task.key) == (b"hello", server.now + HOUR, "ada")
        assert await server.scheduled("mails", namespace="shop") == []
        with pytest.raises(ValueError, match="only turned forward, not by -1 s"):
            await server.advance(seconds=-1)
        await server.stop()
        with pytest.raises(RuntimeError, match="The server is stopped"):
            await server.scheduled("mails")


FORGOTTEN = """
import timerd.testing
server = timerd.testing.server().__enter__()
server.client.schedule("mails", b"hello", delay=3600)
print(len(server.scheduled("mails")))
"""


def test_a_server_that_nobody_closed_lets_the_program_end() -> None:
    done = subprocess.run([sys.executable, "-c", FORGOTTEN], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_the_names_are_loaded_when_they_are_used() -> None:
    program = (
        "import sys, timerd.testing; print('grpc' in sys.modules, 'numpy' in sys.modules); "
        "timerd.testing.Server; print('grpc' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout.splitlines(), done.stderr) == (["False False", "True"], "")
    with pytest.raises(AttributeError, match=r"'timerd.testing' has no attribute 'Servers'"):
        timerd.testing.Servers  # noqa: B018
