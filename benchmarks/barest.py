"""The most that single calls could be: a server in Python that has each call on disk before it answers, and no more.

    python -m benchmarks.barest [--repeat 3] [--seconds 4]

Eight processes with one call of 290 bytes under way, over a plain socket without any protocol; an event loop, and a
thread that commits to SQLite what waits (WAL, `synchronous=FULL`). Beside it the same without the store, and Redis with
an append-only file that is synced at every write, where it is installed. What timerd does is `benchmarks single`: what
lies between are checks, ids, the protocol and the rows, and only that could be saved.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import socket
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import redis
from rich.console import Console
from rich.table import Table

from benchmarks import given as files
from benchmarks.child import obey
from benchmarks.machine import facts
from benchmarks.processes import Child
from benchmarks.redis_process import PROGRAM, start_redis

HERE = "benchmarks.barest"
CALLERS = 8
CALL_BYTES = 290
OK = b"ok"
Waiting = SimpleQueue[tuple[asyncio.Transport, bytes]]


# -- the server -------------------------------------------------------------------------------------------------------


class Caller(asyncio.Protocol):
    """`take` has what each call says."""

    def __init__(self, take: Callable[[asyncio.Transport, bytes], None]) -> None:
        self._take = take

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._take(self._transport, data)


async def serve(folder: str | None) -> dict[str, Any]:
    """Without a folder nothing is stored."""
    loop = asyncio.get_running_loop()
    take = _storing(loop, Path(folder)) if folder else lambda caller, _: caller.write(OK)
    server = await loop.create_server(lambda: Caller(take), "127.0.0.1", 0)
    return {"port": server.sockets[0].getsockname()[1]}


def _storing(loop: asyncio.AbstractEventLoop, folder: Path) -> Callable[[asyncio.Transport, bytes], None]:
    waiting: Waiting = SimpleQueue()
    threading.Thread(target=_commit, args=(loop, waiting, folder / "calls.db"), daemon=True).start()
    return lambda caller, data: waiting.put((caller, data))


def _commit(loop: asyncio.AbstractEventLoop, waiting: Waiting, path: Path) -> None:
    store = sqlite3.connect(path, isolation_level=None)
    store.execute("PRAGMA journal_mode = WAL")
    store.execute("PRAGMA synchronous = FULL")
    store.execute("CREATE TABLE calls (id INTEGER PRIMARY KEY, body BLOB)")
    while True:
        batch = [waiting.get()]
        try:
            while True:
                batch.append(waiting.get_nowait())
        except Empty:
            store.execute("BEGIN IMMEDIATE")
            store.executemany("INSERT INTO calls (body) VALUES (?)", [(body,) for _, body in batch])
            store.execute("COMMIT")
            loop.call_soon_threadsafe(_answer, [caller for caller, _ in batch])


def _answer(callers: list[asyncio.Transport]) -> None:
    for caller in callers:
        caller.write(OK)


# -- a caller ---------------------------------------------------------------------------------------------------------


async def call(port: int, seconds: float, peer: str) -> dict[str, Any]:
    once = {"redis": _redis_call, "": _plain_call}[peer](port)
    count, cpu_s, until_s = 0, time.process_time(), time.monotonic() + seconds
    while time.monotonic() < until_s:
        once(count)
        count += 1
    return {"calls": count, "cpu_s": time.process_time() - cpu_s}


def _plain_call(port: int) -> Callable[[int], object]:
    link, said = socket.create_connection(("127.0.0.1", port)), os.urandom(CALL_BYTES)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def once(_: int) -> bytes:
        link.sendall(said)
        return link.recv(64)

    return once


def _redis_call(port: int) -> Callable[[int], object]:
    client, name = redis.Redis(port=port), os.urandom(200)
    return lambda number: client.zadd("calls", {name + number.to_bytes(8, "big"): number})


# -- both -------------------------------------------------------------------------------------------------------------


async def measured(kind: str, seconds: float, folder: Path) -> float:
    """Calls a second."""
    async with AsyncExitStack() as stack:
        port = await _started(stack, kind, folder)
        callers = [await Child.start("caller", "-m", HERE, "--obey") for _ in range(CALLERS)]
        for caller in callers:
            stack.push_async_callback(caller.stop)
        peer = "redis" if kind == "Redis" else ""
        asked = (caller.ask("call", port=port, seconds=seconds, peer=peer) for caller in callers)
        calls: int = sum(answer["calls"] for answer in await asyncio.gather(*asked))
        return calls / seconds


async def _started(stack: AsyncExitStack, kind: str, folder: Path) -> int:
    """Its port."""
    if kind == "Redis":
        return await start_redis(stack, folder)
    server = await Child.start("server", "-m", HERE, "--obey")
    stack.push_async_callback(server.stop)
    where = None if kind == "nothing" else str(folder)
    port: int = (await server.ask("serve", folder=where))["port"]
    return port


async def compare(repeat: int, seconds: float) -> dict[str, list[float]]:
    """In turns."""
    kinds = ["nothing", "SQLite", *(["Redis"] if shutil.which(PROGRAM) else [])]
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(repeat):
        for kind in kinds:
            with tempfile.TemporaryDirectory(dir=os.getcwd(), prefix="barest-") as folder:
                rates[kind].append(await measured(kind, seconds, Path(folder)))
    return rates


def shown(rates: dict[str, list[float]]) -> Table:
    table = Table("stored in", "calls/s", "range", title=f"{CALLERS} processes with one call under way")
    for kind, found in rates.items():
        table.add_row(kind, f"{statistics.median(found):,.0f}", f"{min(found):,.0f} - {max(found):,.0f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        prog=f"python -m {HERE}", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=files.positive(int), default=3)
    parser.add_argument("--seconds", type=files.positive(float), default=4.0)
    parser.add_argument("--obey", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.obey:
        asyncio.run(obey({"serve": serve, "call": call}))
        sys.exit()
    console = Console()
    console.print(shown(asyncio.run(compare(given.repeat, given.seconds))))
    for name, value in facts(Path()).items():
        console.print(f"{name}: {value}", highlight=False)


if __name__ == "__main__":
    main()
