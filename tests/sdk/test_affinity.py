"""A client in another process, event loop or world than its own: it works, or says at once why it cannot."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec

import pytest

from tests.sdk.fake_server import FakeServer
from timerd import Client, TimerdError

FORKED = "gRPC was used before this process was forked"
FORKING = """
import asyncio, gc, os, sys
from timerd import Client, SyncClient, TimerdError, Worker
target = sys.argv[1]

def use(client):
    client.schedule("q", "x", delay=60)
    return client

async def use_async(client):
    await client.schedule("q", "x", delay=60)

async def work():
    worker = Worker(target)
    worker.on("q")(print)
    await worker.run()

def in_child(call):
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        return
    try:
        call()
        print("works", flush=True)
    except TimerdError as error:
        print(error.code, error.reason, error, flush=True)
    finally:
        os._exit(0)

{program}
"""
FORKS = {
    "sync client": ("client = SyncClient(target)\nin_child(lambda: use(client))\nuse(client)", "works"),
    "sync client that was used": (
        "client = use(SyncClient(target))\nin_child(lambda: use(client))\nuse(client)",
        FORKED,
    ),
    "sync client that was closed": (
        "client = SyncClient(target)\nuse(client)\nclient.close()\nin_child(lambda: use(SyncClient(target)))",
        FORKED,
    ),
    "end of a sync client": ("client = use(SyncClient(target))\nin_child(client.close)\nuse(client)", "works"),
    "client": ("client = Client(target)\nin_child(lambda: asyncio.run(use_async(client)))", "works"),
    "client of an earlier loop": (
        "client = Client(target)\nasyncio.run(use_async(client))\nin_child(lambda: asyncio.run(use_async(client)))",
        FORKED,
    ),
    "client in its loop": (
        "async def main():\n    client = Client(target)\n    await use_async(client)\n"
        "    in_child(lambda: use_async(client).send(None))\n    await use_async(client)\n    await client.close()\n"
        "asyncio.run(main())",
        FORKED,
    ),
    "a client that nobody has any more": (
        "gc.disable()\nclients = [Client(target)]\nclients.append(clients)\nasyncio.run(use_async(clients[0]))\n"
        "del clients\nin_child(gc.collect)\ngc.collect()",
        "works",
    ),
    "child of a child": (
        "client = use(SyncClient(target))\nin_child(lambda: in_child(gc.collect))\nuse(client)",
        "works",
    ),
    "worker": ("use(SyncClient(target))\nin_child(lambda: asyncio.run(work()))", FORKED),
}


async def said_by(program: str, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        # From Python 3.12 on it warns of the fork itself.
        *("-W", "error", "-W", "ignore:This process:DeprecationWarning", "-c", program, *arguments),
        env=os.environ | {"GRPC_VERBOSITY": "NONE"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            # With its children, which have its pipes.
            os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()
    told = [line for line in err.decode().splitlines() if "absl::" not in line and "fork_posix.cc" not in line]
    assert (process.returncode, told) == (0, [])
    return out.decode()


@pytest.mark.parametrize("which", FORKS)
async def test_in_a_forked_child_a_client_works_or_says_why_not(server: FakeServer, which: str) -> None:
    """The parent's works all the same."""
    program, expected = FORKS[which]
    said = await said_by(FORKING.format(program=program), server.target)
    assert said.startswith("works\n" if expected == "works" else f"FAILED_PRECONDITION FORKED {expected}")


def elsewhere(call: Callable[[], Awaitable[object]]) -> Awaitable[object]:
    """In a loop of another thread, which is closed then."""

    async def run() -> object:
        return await call()

    return asyncio.to_thread(lambda: asyncio.run(run()))


async def test_a_client_goes_on_in_another_loop_when_its_own_is_closed(server: FakeServer) -> None:
    client = Client(server.target)
    for number in range(3):
        await elsewhere(lambda number=number: client.schedule("q", str(number), delay=60))  # type: ignore[misc]
    assert server.timers.payloads == [b"0", b"1", b"2"]
    await client.close()
    with pytest.raises(TimerdError, match="This client is closed"):
        await client.schedule("q", "x", delay=60)


async def test_a_client_is_refused_in_two_loops_at_a_time(client: Client, server: FakeServer) -> None:
    await client.schedule("q", "here", delay=60)
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: client.schedule("q", "there", delay=60),
        lambda: client.get("A1"),
        lambda: anext(client.list()),
        client.close,
    ]
    for call in calls:
        with pytest.raises(TimerdError, match="lives in another event loop, which is not closed") as told:
            await elsewhere(call)
        assert (told.value.code, told.value.reason) == ("FAILED_PRECONDITION", "OTHER_LOOP")
    assert server.timers.payloads == [b"here"]


async def test_a_client_that_was_to_be_closed_elsewhere_is_open(client: Client, server: FakeServer) -> None:
    await client.schedule("q", "a", delay=60)
    with pytest.raises(TimerdError):
        await elsewhere(client.close)
    await client.schedule("q", "b", delay=60)
    assert server.timers.payloads == [b"a", b"b"]


PATCHED = """
import sys
from gevent import monkey
monkey.patch_all({how})
from timerd import Client, SyncClient, TimerdError, Worker
for kind in (Client, SyncClient, Worker):
    try:
        kind(sys.argv[1])
    except TimerdError as error:
        print(error.code, error.reason, error)
"""


@pytest.fixture
def gevent_installed() -> None:
    if find_spec("gevent") is not None:
        return
    reason = "the package gevent is not installed: `make venv` installs it"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.mark.usefixtures("gevent_installed")
@pytest.mark.parametrize("how", ["", "thread=False", "socket=False, select=False"])
async def test_under_a_monkey_patch_clients_and_workers_are_refused(server: FakeServer, how: str) -> None:
    said = await said_by(PATCHED.format(how=how), server.target)
    sentence = "gevent has replaced the sockets or threads of this process, which asyncio and gRPC cannot work with: "
    lines = said.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"FAILED_PRECONDITION MONKEY_PATCHED {sentence}") for line in lines)
    assert server.timers.sessions == 0


PATCHED_LATE = """
import asyncio, sys
from timerd import Client, TimerdError
client = Client(sys.argv[1])
from gevent import monkey
monkey.patch_all(thread=False, select=False)
try:
    asyncio.run(client.schedule("q", "x", delay=60))
except TimerdError as error:
    print(error.reason)
"""


@pytest.mark.usefixtures("gevent_installed")
async def test_who_patches_after_a_client_was_made_is_told_by_its_first_call(server: FakeServer) -> None:
    assert await said_by(PATCHED_LATE, server.target) == "MONKEY_PATCHED\n"
