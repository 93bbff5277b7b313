"""The command `timerd serve` as a process."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Ran
from timerd.demo.processes import free_port

TIMERD = [sys.executable, "-m", "timerd.cli"]
PATIENCE_S = 120


def timerd(*arguments: str, stdin: str = "") -> Ran:
    done = subprocess.run(
        [*TIMERD, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    return Ran(done.returncode, done.stdout, done.stderr)


class Server:
    """`timerd serve` on a free port. Its log goes into a file: a pipe that nobody reads would stop the server when it
    is full."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.data = folder / "data"
        command = [*TIMERD, "serve", "--data", str(self.data), "--listen", self.address, *options]
        self._log = folder / "log"
        with self._log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], PATIENCE_S)[0], "the server says nothing"
        self.ready = self.process.stdout.readline()

    def stop(self) -> tuple[int, str, str]:
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, self._log.read_text()
