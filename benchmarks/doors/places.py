"""Where the callers call: one server with its file, or the first of three instances on a Cassandra node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.processes import Server

if TYPE_CHECKING:
    from benchmarks.cluster.stage import Stage

NAMES = ("one", "two", "three")
# By the folder and the door.
Place = Callable[[Path, str], AbstractAsyncContextManager[Server]]


@asynccontextmanager
async def alone(folder: Path, door: str) -> AsyncIterator[Server]:
    async with AsyncExitStack() as stack:
        yield await _started(stack, folder, door)


def in_cluster(stage: Stage) -> Place:
    """Each time in a keyspace of its own."""

    @asynccontextmanager
    async def place(folder: Path, door: str) -> AsyncIterator[Server]:
        async with stage.keyspace() as settings, AsyncExitStack() as stack:
            where = ("--cassandra", f"{stage.found.address}:{stage.found.port}", "--keyspace", settings.keyspace)
            store = ("--store", "cassandra", *where, "--datacenter", stage.found.datacenter)
            servers = [await _started(stack, folder / name, door, *store, "--name", name) for name in NAMES]
            yield servers[0]

    return place


async def _started(stack: AsyncExitStack, folder: Path, door: str, *options: str) -> Server:
    await asyncio.to_thread(folder.mkdir, parents=True)
    server = await Server.start(folder, "--set", f"front_door={door}", *options)
    stack.push_async_callback(server.stop)
    return server
