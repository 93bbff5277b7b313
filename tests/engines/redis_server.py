"""One Redis as a process on a loopback port, for machines without a container engine. Nothing of it stays on disk."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from timerd.demo.processes import free_port

START_TIMEOUT_S = 30
PROGRAM = "redis-server"


class RedisFailed(Exception):
    """Says why there is no Redis."""


def is_there() -> bool:
    return shutil.which(PROGRAM) is not None


class RedisServer:
    """`start` returns when a client was answered; it keeps its port over restarts, and forgets all at each."""

    def __init__(self, *options: str) -> None:
        self.address = "127.0.0.1"
        self.port = free_port()
        self._options = options
        self._home = Path(tempfile.mkdtemp(prefix="timerd-redis-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://{self.address}:{self.port}"

    def start(self) -> None:
        where = ["--bind", self.address, "--port", str(self.port), "--dir", str(self._home)]
        command = [PROGRAM, *where, "--save", "", "--appendonly", "no", *self._options]
        log = self._home / "out.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        end_s = time.monotonic() + START_TIMEOUT_S
        while not answers(self.address, self.port):
            if self._process.poll() is not None or time.monotonic() > end_s:
                words = log.read_text(errors="replace")[-2000:]
                self.stop()
                raise RedisFailed(f"Redis did not start:\n{words}")
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)


def answers(address: str, port: int) -> bool:
    """Whether a client gets an answer, be it that it needs a password."""
    try:
        with socket.create_connection((address, port), 1) as connection:
            connection.settimeout(5)
            connection.sendall(b"PING\r\n")
            return connection.recv(1) in (b"+", b"-")
    except OSError:
        return False
