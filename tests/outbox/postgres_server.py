"""One PostgreSQL as a process on a loopback port, in a folder of its own, with the durability that it has by itself.

It runs as the user `postgres` where the tests run as root, for it refuses to be root.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from timerd.demo.processes import free_port

USER = "postgres"
START_TIMEOUT_S = 60
_WHERE = "/usr/lib/postgresql"


class PostgresFailed(Exception):
    """Says why there is none."""


def programs() -> Path | None:
    """The folder with initdb and postgres: of Debian, the newest; or where the path has them."""
    if found := shutil.which("postgres"):
        return Path(found).resolve().parent
    folders = sorted(Path(_WHERE).glob("*/bin/postgres"), key=lambda each: float(each.parts[-3]))
    return folders[-1].parent if folders else None


def _other_user() -> int | None:
    """None: the tests' own user will do."""
    return pwd.getpwnam(USER).pw_uid if os.geteuid() == 0 else None


class PostgresServer:
    """`start` returns when it takes connections; it keeps its port and its data over kills."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._programs = folder
        # Not a fixture's folder: those are closed to other users.
        self._home = Path(tempfile.mkdtemp(prefix="timerd-postgres-"))
        self._data = self._home / "data"
        self._process: subprocess.Popen[bytes] | None = None
        if (user := _other_user()) is not None:
            os.chown(self._home, user, -1)

    def url(self, database: str = USER) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def make(self) -> None:
        self._run("initdb", "--pgdata", str(self._data), "--username", USER, "--auth", "trust", "--no-instructions")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(
            command, user=_other_user(), cwd=self._home, capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode:
            raise PostgresFailed(f"{program} failed:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")

    def start(self) -> None:
        with (self._home / "out.log").open("ab") as out:
            self._process = subprocess.Popen(
                self._command(), user=_other_user(), cwd=self._home, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        end_s = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end_s:
                words = (self._home / "out.log").read_text(errors="replace")[-2000:]
                raise PostgresFailed(f"PostgreSQL did not start:\n{words}")
            time.sleep(0.05)

    def _command(self) -> Sequence[str]:
        settings = ["listen_addresses=127.0.0.1", f"unix_socket_directories={self._home}", "max_connections=60"]
        options = [part for each in settings for part in ("-c", each)]
        return [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port), *options]

    def _answers(self) -> bool:
        """By the program for it: a port that is open does not say that it has recovered."""
        if not self._listens():
            return False
        command = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False, timeout=30).returncode == 0

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """kill -9 of the postmaster. Its backends, our own grandchildren, see that and end; until they have, no other
        server takes the folder."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def start_again(self) -> None:
        """After a kill: as soon as the backends of before are gone."""
        end_s = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                return self.start()
            except PostgresFailed:
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            # "Immediate": it writes nothing to disk any more, which takes up to a minute and goes with its data.
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(timeout=60)
            self._process = None
        shutil.rmtree(self._home, ignore_errors=True)
