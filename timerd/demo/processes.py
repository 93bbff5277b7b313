"""The processes of the demo: the server, which gets killed, and the worker, which does not. Only our own children."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import random
import socket
import sys
from pathlib import Path
from typing import IO, Protocol

_START_S = 20.0
_STOP_S = 15.0
# Below those for outgoing connections, which begin at 32,768 or later.
_PORTS = range(20_000, 32_000)
_TRIED_PORTS = 100
_RESERVED_PORTS = 200
_reservations: collections.deque[socket.socket] = collections.deque()


class DemoFailed(Exception):
    """The demo could not be carried out: a sentence."""


def free_port() -> int:
    """One that nobody has, of this process and of others. Not one that the system chooses, for it has those for
    outgoing connections as well, and one of these may have it before its server does."""
    for port in random.SystemRandom().sample(_PORTS, _TRIED_PORTS):
        if _reserve(port):
            return port
    raise DemoFailed(f"No free port was found among {_TRIED_PORTS} from {_PORTS[0]} to {_PORTS[-1]}.")


def _reserve(port: int) -> bool:
    """Also while its server starts or starts again: Linux lets a socket that is bound and does not listen stand beside
    one that listens, where both set SO_REUSEADDR, and refuses all others. Elsewhere it only looks."""
    reservation = socket.socket()
    try:
        reservation.bind(("", port))
    except OSError:
        reservation.close()
        return False
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _reservations.append(reservation)
    while len(_reservations) > (_RESERVED_PORTS if sys.platform == "linux" else 0):
        _reservations.popleft().close()
    return True


class Child:
    """A process of ours that prints a line when it is ready."""

    def __init__(self, what: str, arguments: list[str], log: Path) -> None:
        self._what = what
        self._arguments = arguments
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        # Without PYTHONUNBUFFERED and the like: the children print their one line with a flush.
        with self._log.open("ab") as log:
            self._process = await self._spawn(log)
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), _START_S)
        except TimeoutError:
            raise self._failed(f"was not ready within {_START_S:.0f} s") from None
        if not line:
            raise self._failed("ended at once")

    async def _spawn(self, log: IO[bytes]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *self._arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            # Ctrl-C is for the demo, which then stops its children in order.
            start_new_session=True,
        )

    def _failed(self, how: str) -> DemoFailed:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return DemoFailed(f"The {self._what} {how}. " + (f"It said: {lines[-1]}" if lines else "It said nothing."))

    async def kill(self) -> None:
        """kill -9: no chance to tidy up."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def stop(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_S)
        except TimeoutError:
            await self.kill()


class Servers(Protocol):
    """What the demo plays on. `name`: of all of it; `victim`: of what gets killed, as a sentence begins or goes on."""

    name: str
    victim: str
    # As clients take them.
    callers_target: str
    worker_target: str
    # A call that is repeated after its task was due writes no second row (G2).
    knows_repeats: bool

    async def start(self) -> None: ...

    async def kill(self) -> None: ...

    async def start_again(self) -> None:
        """Returns when what was killed serves again."""
        ...

    async def stop(self) -> None: ...


class OneServer:
    """A server with its data in a folder."""

    name = victim = "the server"
    knows_repeats = True

    def __init__(self, folder: Path) -> None:
        self.callers_target = self.worker_target = f"127.0.0.1:{free_port()}"
        where = ["--data", str(folder / "data"), "--listen", self.callers_target]
        self._child = Child("server", ["-m", "timerd.cli", "serve", *where, "--json"], folder / "server.err")

    async def start(self) -> None:
        await self._child.start()

    async def kill(self) -> None:
        await self._child.kill()

    async def start_again(self) -> None:
        await self._child.start()

    async def stop(self) -> None:
        await self._child.stop()


def worker(folder: Path, target: str, queue: str, name: str = "worker") -> Child:
    """It writes what it receives to NAME.log."""
    arguments = ["-m", "timerd.demo.witness", target, queue, str(folder / f"{name}.log")]
    return Child(name, arguments, folder / f"{name}.err")
