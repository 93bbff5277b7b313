"""Where a newcomer sits: a folder beside the checkout, a shell, and programs that run on. Ports are free ones."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.clients.languages import ENVIRONMENT
from tests.docs.blocks import ROOT
from tests.first_hour.pages import is_installing
from tests.process.children import NOTHING
from tests.process.waiting import until
from timerd.demo.processes import free_port

TYPE_S = 300
# gRPC, HTTP, Redis, a web application.
PORTS = (7400, 7401, 6379, 8000)


class Program:
    """One that runs on. What it shows goes to a file."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self._process = process
        self._output = output

    def shown(self) -> str:
        return self._output.read_text(errors="replace")

    def shows(self, text: str, times: int = 1) -> None:
        """Waits until it has."""
        until(
            lambda: self.shown().count(text) >= times or self._process.poll() is not None,
            f"{text!r} in what {self._process.args!r} shows",
        )
        assert self.shown().count(text) >= times, self.shown()

    def end(self) -> None:
        """SIGTERM, for the program and what it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(30)


class Desk:
    """`is_fresh`: nothing is installed yet, so lines that install are typed, too. Without it they are not: what they
    install is there, or their step is left out. `seconds`: how long each step took. `left_out`: why one was not
    taken."""

    def __init__(self, folder: Path, checkout: Path = ROOT, *, is_fresh: bool = False) -> None:
        self.folder = folder
        self.checkout = checkout
        self.is_fresh = is_fresh
        self.seconds: dict[str, float] = {}
        self.left_out: dict[str, str] = {}
        self.ports = {port: free_port() for port in PORTS}
        self.bin = checkout / ".venv/bin" if is_fresh else Path(sys.executable).parent
        self._sessions: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder.parent / "timerd").exists():
            (folder.parent / "timerd").symlink_to(checkout)

    @property
    def python_path(self) -> str:
        return "" if self.is_fresh else str(ROOT)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start_s = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - start_s

    def lacks(self, step: str, *programs: str) -> bool:
        """Notes it, where one of these is missing."""
        missing = [each for each in programs if not shutil.which(each, path=self._environment()["PATH"])]
        if missing:
            self.left_out[step] = f"{' and '.join(missing)} cannot be found here"
        return bool(missing)

    def with_ports(self, text: str) -> str:
        """Only the ports differ from what stands in the docs."""
        return re.sub(r":(\d{4})\b", lambda port: f":{self.ports.get(int(port[1]), port[1])}", text)

    def change_port(self, typed: int) -> None:
        """For a second server."""
        self.ports[typed] = free_port()

    def save(self, programs: Mapping[str, str]) -> None:
        for name, text in programs.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.with_ports(text), encoding="utf-8")

    def install(self, block: str) -> None:
        """The lines of it that install, in the checkout, if nobody has done so yet. An environment is active from where
        it is made."""
        for line in filter(is_installing, block.splitlines()):
            done = self.checkout / f".venv/typed-{zlib.crc32(line.encode())}"
            if self.is_fresh and not done.exists():
                self.type(line, where=self.checkout)
                done.touch()

    def type(self, command: str, where: Path | None = None, given: Mapping[str, str] = NOTHING) -> str:
        """To its end, in a shell. `given`: of the environment. What it said; an error of it fails."""
        output = self.folder / "typed.out"
        process = self._started(command, output, where, given)
        code = process.wait(TYPE_S)
        said = output.read_text(errors="replace")
        assert code == 0, (command, said)
        return said

    def start(self, command: str, given: Mapping[str, str] = NOTHING) -> Program:
        output = self.folder / f"program-{len(self._sessions)}.out"
        return Program(self._started(command, output, None, given), output)

    def close(self) -> None:
        for process in reversed(self._sessions):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _started(
        self, command: str, output: Path, where: Path | None, given: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with output.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", self.with_ports(command)],
                cwd=where or self.folder, env={**self._environment(), **given}, stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self._sessions.append(process)
        return process

    def _environment(self) -> dict[str, str]:
        grpc = f"127.0.0.1:{self.ports[7400]}"
        return {
            **ENVIRONMENT,
            "PATH": f"{self.bin}{os.pathsep}{ENVIRONMENT['PATH']}",
            "PYTHONPATH": self.python_path,
            "PYTHONUNBUFFERED": "1",
            "TIMERD_LISTEN": grpc,
            "TIMERD_HTTP_LISTEN": f"127.0.0.1:{self.ports[7401]}",
            "TIMERD_SERVER": grpc,
        }
