"""The twin without await, used from many threads."""

from __future__ import annotations

import asyncio
import gc
import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tests.sdk.fake_server import FakeServer
from timerd import CancelOutcome, Client, SyncClient, TimerdError
from timerd.client import Cycles, Limits, Queues, Schedules, SyncCycles, SyncLimits, SyncQueues, SyncSchedules
from timerd.sdk.scheduling.sync_twin import SHARED_LOOP
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

SOON = datetime.now(UTC) + timedelta(minutes=5)


@pytest.fixture
def threaded() -> Iterator[FakeServer]:
    """The fake server on a loop of its own thread."""
    loop = SHARED_LOOP.acquire()
    fake = FakeServer()
    asyncio.run_coroutine_threadsafe(fake.start(), loop).result()
    yield fake
    asyncio.run_coroutine_threadsafe(fake.stop(), loop).result()
    SHARED_LOOP.release()


def test_the_names_and_signatures_are_those_of_the_client() -> None:
    # `close` is written twice, and what is behind the others is compared below.
    apart = ("close", "schedules", "cycles", "queues", "limits")
    names = [name for name in dir(Client) if not name.startswith("_") and name not in apart]
    assert "schedule" in names
    assert "list" in names
    for name in names:
        assert inspect.signature(getattr(SyncClient, name)) == inspect.signature(getattr(Client, name))
    for plain, own, known in (
        (Schedules, SyncSchedules, "create"),
        (Cycles, SyncCycles, "create"),
        (Queues, SyncQueues, "pause"),
        (Limits, SyncLimits, "put"),
    ):
        names = [name for name in dir(plain) if not name.startswith("_")]
        assert known in names
        for name in names:
            assert inspect.signature(getattr(own, name)) == inspect.signature(getattr(plain, name))


def test_calls_without_await(threaded: FakeServer) -> None:
    with SyncClient(threaded.target, namespace="n") as client:
        task = client.schedule("q", "x", at=SOON)
        many = client.schedule_many("q", [(b"y", 5)] * 10)
        assert client.cancel(task.id) is CancelOutcome.CANCELLED
        assert client.cancel_many([task.id, "B"]) == [CancelOutcome.CANCELLED, CancelOutcome.NOT_FOUND]
        assert client.reschedule(task.id, at=SOON) >= SOON
    assert len({task.id for task in many}) == 10
    assert {request.schedule.namespace for request in threaded.timers.requests()[:2]} == {"n"}


def test_many_threads_share_one_client_and_its_messages(threaded: FakeServer) -> None:
    with SyncClient(threaded.target) as client, ThreadPoolExecutor(16) as pool:
        ids = list(pool.map(lambda n: client.schedule("q", str(n), at=SOON).id, range(400)))
    assert len(set(ids)) == 400
    assert sorted(threaded.timers.payloads) == sorted(str(n).encode() for n in range(400))
    assert threaded.timers.sessions == 1
    assert len(threaded.timers.received) < 400


def test_all_clients_share_one_thread(threaded: FakeServer) -> None:
    with SyncClient(threaded.target) as one, SyncClient(threaded.target) as other:
        one.schedule("q", "x", at=SOON)
        other.schedule("q", "x", at=SOON)
        assert sum(thread.name == "timerd client" for thread in threading.enumerate()) == 1


def test_errors_and_pages_come_through(threaded: FakeServer) -> None:
    pages = [
        pb.ListResponse(tasks=[task_pb2.Task(task_id="A1")], next_page_token="p"),
        pb.ListResponse(tasks=[task_pb2.Task(task_id="A2")]),
    ]
    threaded.timers.unary_answers["List"].extend(pages)
    with SyncClient(threaded.target) as client:
        assert [task.id for task in client.list(start=SOON, end=SOON + timedelta(hours=1))] == ["A1", "A2"]
        with pytest.raises(TimerdError, match="no time zone"):
            client.schedule("q", "x", at=datetime(2030, 1, 1))


def test_a_closed_client_says_so(threaded: FakeServer) -> None:
    client = SyncClient(threaded.target)
    client.close()
    client.close()
    with pytest.raises(TimerdError, match="closed"):
        client.schedule("q", "x", at=SOON)


def test_a_call_from_its_own_callback_is_refused_instead_of_hanging(threaded: FakeServer) -> None:
    said: list[TimerdError] = []
    with SyncClient(threaded.target) as client:

        def progress(_: int) -> None:
            try:
                client.cancel("A")
            except TimerdError as refused:
                said.append(refused)

        client.schedule_many("q", [(b"x", 1)], progress=progress)
    assert [refused.reason for refused in said] == ["WOULD_DEADLOCK"]


# Whatever is said would be seen, but for how long a step of the loop took: that is the machine's.
PREPARED = (
    "import logging; logging.basicConfig(); "
    "logging.getLogger('asyncio').addFilter(lambda said: not said.getMessage().startswith('Executing ')); "
    "from timerd import SyncClient"
)


@pytest.mark.parametrize(
    "program",
    [
        "print(SyncClient({0!r}).schedule('q', 'x', delay=1).queue)",
        "kept = SyncClient({0!r}); print(kept.schedule('q', 'x', delay=1).queue)",
        "kept = SyncClient({0!r}); found = kept.dead_letters('q'); next(found); print('q')",
        "never_used = SyncClient({0!r}); print('q')",
    ],
    ids=["dropped", "kept", "half-way", "unused"],
)
def test_a_program_that_closes_nothing_still_ends_in_order(threaded: FakeServer, program: str) -> None:
    dead_letters = [pb.DeadLetter(task=task_pb2.Task(task_id="A1"))] * 2
    threaded.timers.unary_answers["ListDeadLetters"].append(pb.ListDeadLettersResponse(dead_letters=dead_letters))
    script = f"{PREPARED}; {program.format(threaded.target)}"
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-c", script], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "q\n", "")


def test_a_client_that_nobody_has_any_more_hangs_up(threaded: FakeServer) -> None:
    """Without `with` or `close`: its stream ends when it is collected."""
    client = SyncClient(threaded.target)
    client.schedule("q", "x", at=SOON)
    inner = client._client
    del client
    gc.collect()
    with SyncClient(threaded.target) as other:
        other.schedule("q", "x", at=SOON)
    with pytest.raises(TimerdError, match="closed"):
        asyncio.run(inner.cancel("A"))
