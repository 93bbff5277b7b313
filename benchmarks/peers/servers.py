"""Starts a peer's server on loopback with a data folder of its own, durable, and says what it takes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import BenchmarkFailed
from benchmarks.peers.installed import Installed
from benchmarks.processes import START_S, STOP_S, pss_bytes
from timerd.demo.processes import free_port

LOOK_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class Running:
    """A server under test. `pid` is None where the peer is a library."""

    target: str
    data: Path
    pid: int | None = None

    def pss_bytes(self) -> int:
        return pss_bytes(self.pid) if self.pid else 0

    def disk_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.data.rglob("*") if path.is_file())


@asynccontextmanager
async def redis(tools: Installed, folder: Path, fsync: str) -> AsyncIterator[Running]:
    """Append-only file, no snapshots; the file is not rewritten while it is measured."""
    (folder / "data").mkdir()
    settings = {"appendonly": "yes", "appendfsync": fsync, "save": "", "auto-aof-rewrite-percentage": "0"}
    options = [word for name, value in settings.items() for word in (f"--{name}", value)]
    async with _server(tools, "redis-server", folder, options, "--port", "--dir") as running:
        yield running


@asynccontextmanager
async def beanstalkd(tools: Installed, folder: Path, sync_ms: int) -> AsyncIterator[Running]:
    (folder / "data").mkdir()
    options = ["-l", "127.0.0.1", "-f", str(sync_ms)]
    async with _server(tools, "beanstalkd", folder, options, "-p", "-b") as running:
        yield running


@asynccontextmanager
async def library(tools: Installed, folder: Path) -> AsyncIterator[Running]:
    (folder / "data").mkdir()
    yield Running(str(folder / "data" / "jobs.db"), folder / "data")


@asynccontextmanager
async def postgres(tools: Installed, folder: Path) -> AsyncIterator[Running]:
    """It refuses to run as root, so there it gets a user of its own, and a folder that this user can reach."""
    root = os.geteuid() == 0
    user = _other_user() if root else None
    place = Path(tempfile.mkdtemp(prefix="timerd-benchmarks-", dir="/var/tmp" if root else folder))
    try:
        if user:
            shutil.chown(place, user)
        await _make_cluster(tools, place, user, folder / "server.log")
        settings = {"shared_buffers": "1GB", "max_wal_size": "4GB", "unix_socket_directories": "", "jit": "off"}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        async with _server(tools, "postgres", folder, options, "-p", "-D", data=place / "data", user=user) as running:
            yield running
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _other_user() -> str:
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


async def _make_cluster(tools: Installed, place: Path, user: str | None, log: Path) -> None:
    initdb = tools.beside("postgres", "initdb")
    options = ["--no-sync", "-A", "trust", "-U", "timers", "--locale=C", "-E", "UTF8"]
    with log.open("ab") as said:
        process = await asyncio.create_subprocess_exec(
            initdb, *options, "-D", str(place / "data"), stdout=said, stderr=said, cwd=place, **_as(user)
        )
    if await process.wait():
        raise BenchmarkFailed(f"initdb failed:{_end_of(log)}")


def _as(user: str | None) -> dict[str, Any]:
    return {"user": user} if user else {}


@asynccontextmanager
async def _server(
    tools: Installed,
    program: str,
    folder: Path,
    options: list[str],
    port_flag: str,
    data_flag: str,
    *,
    data: Path | None = None,
    user: str | None = None,
) -> AsyncIterator[Running]:
    """A process that listens in a moment; ended with what it listens to SIGINT or SIGTERM."""
    path, port, place, log = tools.program(program), free_port(), data or folder / "data", folder / "server.log"
    assert path is not None
    where = [port_flag, str(port), data_flag, str(place)]
    with log.open("ab") as said:
        process = await asyncio.create_subprocess_exec(
            path,
            *where,
            *options,
            stdout=said,
            stderr=said,
            cwd=place,
            start_new_session=True,
            env={**os.environ, **tools.libraries(program)},
            **_as(user),
        )
    try:
        await _listening(process, port, program, log)
        yield Running(f"127.0.0.1:{port}", place, process.pid)
    finally:
        await _ended(process)


async def _listening(process: asyncio.subprocess.Process, port: int, program: str, log: Path) -> None:
    for _ in range(round(START_S / LOOK_EVERY_S)):
        if process.returncode is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        await asyncio.sleep(LOOK_EVERY_S)
    raise BenchmarkFailed(f"{program} does not listen.{_end_of(log)}")


async def _ended(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def _end_of(log: Path) -> str:
    return f" Its log ends with: {log.read_text(errors='replace').strip()[-500:]}"
