"""Runs a shell command for a delivery: payload on stdin, facts in the environment, the exit code decides.

A command runs in a session of its own, so that Ctrl-C stops the worker gracefully instead of every command at once. The
exit of the command decides, as with cron and xargs: what it leaves in the background goes on, and nobody waits for it.
Only a command that is cut short is killed with everything that it started.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from timerd.commands.times import iso_of

if TYPE_CHECKING:
    from timerd.worker import Delivery

_STDERR = 2
_TAIL_BYTES = 4096
_CHUNK_BYTES = 65536
# What lies in a pipe when the command ends; a process that it left behind may go on writing for ever.
_LAST_BYTES = 1 << 20


def environment(delivery: Delivery) -> dict[str, str]:
    return os.environ | {
        "TIMERD_TASK_ID": delivery.task_id,
        "TIMERD_DELIVERY_ID": delivery.delivery_id,
        "TIMERD_ATTEMPT": str(delivery.attempt),
        "TIMERD_FIRE_TIME": iso_of(delivery.fire_time),
        "TIMERD_QUEUE": delivery.queue,
    }


async def execute(command: str, delivery: Delivery, *, keep_stdout_clean: bool) -> tuple[int, str]:
    """(exit code, tail of stderr). Its stdout goes to ours, or to stderr where ours is for JSON alone."""
    payload, stderr = Payload(delivery.payload), Stderr()
    try:
        process = await asyncio.create_subprocess_shell(
            command,
            stdin=payload.reading,
            stdout=_STDERR if keep_stdout_clean else None,
            stderr=stderr.writing,
            env=environment(delivery),
            start_new_session=True,
        )
    finally:
        os.close(payload.reading)
        os.close(stderr.writing)
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        _kill(process)
        await process.wait()
        raise
    finally:
        payload.stop()
    return code, stderr.at_exit()


class Payload:
    """A pipe for the stdin of a command, which need not read all of it, and may leave it to others."""

    def __init__(self, payload: bytes) -> None:
        self.reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._rest = memoryview(payload)
        self._loop = asyncio.get_running_loop()
        self._loop.add_writer(self._writing, self._write)

    def stop(self) -> None:
        if self._writing >= 0:
            self._loop.remove_writer(self._writing)
            os.close(self._writing)
            self._writing = -1

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._writing, self._rest) :]
        except BrokenPipeError:
            self.stop()
        if not self._rest:
            self.stop()


class Stderr:
    """A pipe for the stderr of a command: copied to ours until nobody holds it any more; its end is kept."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._tail = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reading, self._copy)

    def at_exit(self) -> str:
        """The end of what was written so far."""
        copied = 0
        while copied < _LAST_BYTES and (size_bytes := self._copy()):
            copied += size_bytes
        return self._tail.decode(errors="replace").strip()

    def _copy(self) -> int:
        """How many bytes there were."""
        if self._reading < 0:
            return 0
        try:
            chunk = os.read(self._reading, _CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if not chunk:
            self._loop.remove_reader(self._reading)
            os.close(self._reading)
            self._reading = -1
        sys.stderr.write(chunk.decode(errors="replace"))
        sys.stderr.flush()
        self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
        return len(chunk)


def _kill(process: asyncio.subprocess.Process) -> None:
    """With everything that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
