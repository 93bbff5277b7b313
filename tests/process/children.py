"""Processes of ours: each says a line when it is ready, is ended by its pid, and leaves its errors in a file."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from timerd.demo.processes import free_port

_START_S = 60.0
_STOP_S = 30.0
NOTHING: Mapping[str, str] = {}


class Child:
    """May be started again after its end."""

    def __init__(self, arguments: Sequence[str], errors: Path, environment: Mapping[str, str] = NOTHING) -> None:
        self._command = [sys.executable, *arguments]
        self._errors = errors
        self._environment = {**os.environ, "PYTHONFAULTHANDLER": "1", **environment}
        self._process: subprocess.Popen[str] | None = None

    def start(self, *options: str) -> str:
        """Returns the line that it said."""
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [*self._command, *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=self._environment,
            )
        return self.hear()

    def hear(self) -> str:
        """The next line that it says."""
        assert self._process is not None
        assert self._process.stdout is not None
        readable = select.select([self._process.stdout], [], [], _START_S)[0]
        line = self._process.stdout.readline() if readable else ""
        assert line, f"{self._command} said nothing; its errors: {self.errors()}"
        return line

    def rest(self, lines: int) -> list[str]:
        """So many lines that it said together with the one that was heard last."""
        assert self._process is not None
        assert self._process.stdout is not None
        return [self._process.stdout.readline() for _ in range(lines)]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def errors(self) -> str:
        return self._errors.read_text(errors="replace") if self._errors.exists() else ""

    def tell(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise AssertionError(f"{self._command} has ended; its errors: {self.errors()}") from None

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, patience_s: float = _STOP_S) -> int:
        """Its exit code."""
        assert self._process is not None
        code = self._process.wait(timeout=patience_s)
        self._close()
        return code

    def kill(self) -> None:
        """kill -9: no chance to tidy up."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            self._process.wait()
            self._close()

    def where(self) -> str:
        """Ends a process that hangs, and tells where each of its threads was."""
        self.signal(signal.SIGABRT)
        self.wait()
        return self.errors()

    def _close(self) -> None:
        """Without reading to the end: a command that it had started may live on with the other end. What was told to it
        and not read is lost with it."""
        assert self._process is not None
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def terminate(self) -> int:
        """SIGTERM, and its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None


class Server(Child):
    """`timerd serve` on a free port, which it keeps over restarts."""

    def __init__(
        self, folder: Path, *options: str, data: Path | None = None, environment: Mapping[str, str] = NOTHING
    ) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.data = data or folder / "data"
        arguments = ["-m", "timerd.cli", "serve", "--data", str(self.data), "--listen", self.address, *options]
        super().__init__(arguments, folder / "server.err", environment)


class Holder(Child):
    """A worker process that keeps each delivery for a while; its log is NAME.log."""

    def __init__(
        self, folder: Path, name: str, target: str, queue: str, hold_ms: tuple[int, int], *options: str
    ) -> None:
        arguments = ["-m", "tests.process.kill9.holder", target, queue, str(folder / f"{name}.log"), *options]
        super().__init__([*arguments, "--hold-ms", *map(str, hold_ms)], folder / f"{name}.err")


def run_cli(
    *arguments: str, stdin: str = "", prefix: Sequence[str] = (), patience_s: float = _START_S
) -> subprocess.CompletedProcess[str]:
    """A `timerd` command, to its end."""
    command = [*prefix, sys.executable, "-m", "timerd.cli", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=patience_s)
