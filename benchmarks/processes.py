"""The processes of a benchmark: the server under test, and the children that load it and work for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.figures import BenchmarkFailed

START_S = 90.0
STOP_S = 60.0
# No answer takes so long; a hung child must not hang the benchmark.
ANSWER_S = 900.0
# A command of ours or an answer: the longest are the waits of single calls.
LINE_BYTES = 64 << 20


class Child:
    """A process of ours that answers each line with a line."""

    def __init__(self, what: str, process: asyncio.subprocess.Process) -> None:
        self._what = what
        self._process = process
        self.pid = process.pid

    @classmethod
    async def start(
        cls,
        what: str,
        *arguments: str,
        log: Path | None = None,
        program: str = sys.executable,
        env: Mapping[str, str] | None = None,
    ) -> Child:
        """`env`: beside what this process has."""
        with log.open("ab") if log else contextlib.nullcontext() as stderr:
            process = await asyncio.create_subprocess_exec(
                program,
                *arguments,
                env={**os.environ, **(env or {})},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                limit=LINE_BYTES,
                # Ctrl-C is for the benchmark, which then stops its children in order.
                start_new_session=True,
            )
        return cls(what, process)

    async def line(self, patience_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), patience_s)
        except TimeoutError:
            raise BenchmarkFailed(f"The {self._what} gave no answer within {patience_s:.0f} s.") from None
        if not line:
            raise BenchmarkFailed(f"The {self._what} ended in the middle of a measure.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BenchmarkFailed(f"The {self._what} failed: {answer['error']}")
        return answer

    async def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        return await self.line(ANSWER_S)

    async def kill(self) -> None:
        """As if the power of one process were cut: nothing of it runs any more. It may be dead already: asyncio's own
        `kill` would take its exit code away from whoever waits for it."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        await self._process.wait()

    async def stop(self) -> int:
        """The exit code."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            return await asyncio.wait_for(self._process.wait(), STOP_S)
        except TimeoutError:
            self._process.kill()
            return await self._process.wait()


class Server:
    """`timerd serve` with a data folder of its own."""

    def __init__(self, child: Child, address: str, folder: Path) -> None:
        self._child = child
        self._ended = False
        self.pid = child.pid
        self.address = address
        self.folder = folder

    @classmethod
    async def start(cls, folder: Path, *options: str, listen: str = "127.0.0.1:0") -> Server:
        arguments = ("--data", str(folder / "data"), "--listen", listen, "--json", *options)
        child = await Child.start("server", "-m", "timerd.cli", "serve", *arguments, log=folder / "server.log")
        try:
            ready = await child.line(START_S)
        except BenchmarkFailed as failed:
            await child.stop()
            raise BenchmarkFailed(f"{failed}{_last_words(folder)}") from None
        except asyncio.CancelledError:
            await child.stop()
            raise
        return cls(child, ready["ready"], folder)

    async def stop(self) -> None:
        """A server that does not end cleanly spoils what was measured. One that has ended is left alone."""
        if self._ended:
            return
        self._ended = True
        code = await self._child.stop()
        if code:
            raise BenchmarkFailed(f"The server ended with exit code {code}.{_last_words(self.folder)}")

    async def kill(self) -> None:
        self._ended = True
        await self._child.kill()

    def cpu_s(self) -> float:
        """Processor time so far, of all its processes."""
        return sum(_cpu_s(pid) for pid in family(self._child.pid))

    def pss_bytes(self) -> int:
        """Memory with shared pages divided among those who share them, of all its processes."""
        return pss_bytes(self._child.pid)

    def rss_peak_bytes(self) -> int:
        """The most that its processes ever had resident, each by itself."""
        return sum(_status_bytes(pid, "VmHWM:") for pid in family(self._child.pid))

    def disk_bytes(self) -> int:
        """After `stop`, which leaves no write-ahead log behind."""
        files = [path for path in (self.folder / "data").rglob("*") if path.is_file()]
        if any(path.name.endswith("-wal") and path.stat().st_size for path in files):
            raise BenchmarkFailed("The server left a write-ahead log behind, so the size of its data is not known.")
        return sum(path.stat().st_size for path in files)


def _last_words(folder: Path) -> str:
    said = (folder / "server.log").read_text(errors="replace").strip()
    return f" Its log ends with: {said[-500:]}" if said else ""


def family(pid: int) -> Iterator[int]:
    """The process and all that it started."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from family(int(child))


def _cpu_s(pid: int) -> float:
    """By the process's own clock, which counts nanoseconds where /proc has hundredths of a second."""
    # As the kernel numbers these clocks (clock_getcpuclockid).
    return time.clock_gettime(~pid << 3 | 2)


def pss_bytes(pid: int) -> int:
    """Of the process and all that it started."""
    return sum(_pss_bytes(one) for one in family(pid))


def _pss_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _status_bytes(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
