"""One MariaDB, or MySQL, as a process on a loopback port, in a folder of its own, with the durability that it has by
itself.

It runs as the user `mysql` where the tests run as root, for it refuses to be root.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from timerd.demo.processes import free_port

USER = "mysql"
START_TIMEOUT_S = 60
_SERVERS = ("mariadbd", "mysqld")


class MysqlFailed(Exception):
    """Says why there is none."""


def program() -> Path | None:
    """The server. Only root has /usr/sbin in its path."""
    path = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin"
    found = next((each for name in _SERVERS if (each := shutil.which(name, path=path))), None)
    return Path(found) if found else None


def _other_user() -> int | None:
    """None: the tests' own user will do."""
    return pwd.getpwnam(USER).pw_uid if os.geteuid() == 0 else None


class MysqlServer:
    """`start` returns when it takes connections; it keeps its port and its data over kills."""

    def __init__(self, server: Path) -> None:
        self.port = free_port()
        self._server = server
        # Not a fixture's folder: those are closed to other users.
        self._home = Path(tempfile.mkdtemp(prefix="timerd-mysql-"))
        self._data = self._home / "data"
        self._process: subprocess.Popen[bytes] | None = None
        # A server that starts removes all temporary tables that it finds, also those of another one that runs.
        temporary = self._home / "tmp"
        temporary.mkdir()
        self._environment = os.environ | {"TMPDIR": str(temporary)}
        if (user := _other_user()) is not None:
            for folder in (self._home, temporary):
                os.chown(folder, user, -1)

    @property
    def home(self) -> Path:
        """Its folder, with all that it writes."""
        return self._home

    def url(self, database: str = "shop") -> str:
        return f"mysql://app@127.0.0.1:{self.port}/{database}"

    def make(self) -> None:
        """With a user `app` who needs no password and may do everything."""
        install = shutil.which("mariadb-install-db")
        made = [f"--datadir={self._data}", "--no-defaults"]
        if install:
            self._run([install, *reversed(made), "--auth-root-authentication-method=normal", "--skip-test-db"])
        else:
            self._run([str(self._server), *reversed(made), "--initialize-insecure"])
        (self._home / "init.sql").write_text(
            "CREATE USER IF NOT EXISTS app@'127.0.0.1';\nGRANT ALL ON *.* TO app@'127.0.0.1' WITH GRANT OPTION;\n"
        )

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(
            command,
            user=_other_user(),
            cwd=self._home,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode:
            raise MysqlFailed(f"{command[0]} failed:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")

    def start(self) -> None:
        command = [
            str(self._server),
            "--no-defaults",
            f"--datadir={self._data}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self._home / 'sock'}",
            f"--init-file={self._home / 'init.sql'}",
            "--skip-name-resolve",
        ]
        with (self._home / "out.log").open("ab") as out:
            self._process = subprocess.Popen(
                command,
                user=_other_user(),
                cwd=self._home,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        end_s = time.monotonic() + START_TIMEOUT_S
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > end_s:
                words = (self._home / "out.log").read_text(errors="replace")[-2000:]
                raise MysqlFailed(f"MySQL did not start:\n{words}")
            time.sleep(0.05)

    def _listens(self) -> bool:
        """It opens its port when it has recovered and run the file of its first statements."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def start_again(self) -> None:
        """After a kill."""
        self.start()

    def stop(self) -> None:
        """By a kill, for one that has just started does not hear a signal to end, and its data goes with it."""
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)
