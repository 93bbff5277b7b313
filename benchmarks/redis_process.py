"""A Redis of this machine as a process on loopback: each entry on disk before its answer, no snapshots."""

from __future__ import annotations

import asyncio
import shutil
import socket
import time
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.figures import BenchmarkFailed

STARTS_WITHIN_S = 30.0
PROGRAM = "redis-server"


async def start_redis(stack: AsyncExitStack, folder: Path) -> int:
    """Its port. It ends with the stack."""
    if shutil.which(PROGRAM) is None:
        raise BenchmarkFailed("There is no Redis here: apt-get install redis-server.")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    settings = ("--port", str(port), "--dir", str(folder), "--appendonly", "yes", "--appendfsync", "always")
    server = await asyncio.create_subprocess_exec(PROGRAM, *settings, "--save", "", stdout=asyncio.subprocess.DEVNULL)
    stack.push_async_callback(server.wait)
    stack.callback(server.terminate)
    until_s = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < until_s:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            await asyncio.sleep(0.05)
        else:
            return port
    raise BenchmarkFailed(f"Redis does not listen within {STARTS_WITHIN_S:g} s.")
