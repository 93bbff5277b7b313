"""The other processes of a run: the server, where none is named, and the worker. Both end with the run."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

_READY_WITHIN_S = 60.0
_STOP_WITHIN_S = 20.0
_CHECKOUT = Path(__file__).resolve().parents[2]


class RunError(Exception):
    """Says in a sentence why a run could not go on."""


class Victim(Protocol):
    """One of several instances, which is killed on the way."""

    victim: str

    async def kill(self) -> None: ...

    async def start_again(self) -> None:
        """Returns when it serves again."""
        ...


class Place(NamedTuple):
    """Where the caller finds timerd, and where the worker does."""

    address: str
    gate_address: str
    victim: Victim | None = None


@asynccontextmanager
async def server(named: str | None, log: Path) -> AsyncIterator[Place]:
    """The one that was named, or one of our own: a free port, its data in a folder that goes."""
    if named is not None:
        yield Place(named, named)
        return
    with tempfile.TemporaryDirectory(prefix="timerd-departures-") as data, log.open("wb") as errors:
        command = (
            "-m",
            "timerd.cli",
            "serve",
            "--json",
            "--listen",
            "127.0.0.1:0",
            "--data",
            str(Path(data, "timerd")),
        )
        child = await _start(command, stdout=subprocess.PIPE, stderr=errors)
        try:
            address = await _address_of(child, log)
            yield Place(address, address)
        finally:
            await _stop(child)


async def _address_of(child: asyncio.subprocess.Process, log: Path) -> str:
    if child.stdout is None:
        raise RunError("The server was started without a pipe to read its address from.")
    try:
        line = await asyncio.wait_for(child.stdout.readline(), _READY_WITHIN_S)
    except TimeoutError:
        raise RunError(f"The server was not ready after {_READY_WITHIN_S:g} s.") from None
    if not line:
        raise _not_started(log)
    return str(json.loads(line)["ready"])


def _not_started(log: Path) -> RunError:
    said = log.read_text(encoding="utf-8", errors="replace").strip()
    return RunError(f"The server did not start. It said: {said or 'nothing'}")


@asynccontextmanager
async def worker(address: str, queue: str, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker that writes each delivery into `log` (an absolute path: it runs in the checkout's folder)."""
    command = ("-m", "examples.departures", "work", "--server", address, "--queue", queue, "--log", str(log))
    child = await _start(command)
    try:
        yield child
    finally:
        await _stop(child)


async def _start(
    arguments: tuple[str, ...], stdout: int | None = None, stderr: object = None
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=_CHECKOUT,
        stdout=stdout,
        stderr=stderr,  # type: ignore[arg-type]
        # Ctrl-C goes to the run alone, which ends its children in order.
        start_new_session=True,
    )


async def _stop(child: asyncio.subprocess.Process) -> None:
    if child.returncode is not None:
        return
    child.terminate()
    try:
        await asyncio.wait_for(child.wait(), _STOP_WITHIN_S)
    except TimeoutError:
        child.kill()
        await child.wait()
