"""Runs a shell command for a delivery: payload on stdin, facts in the environment, the exit code decides.

A command runs in a session of its own, so that Ctrl-C stops the worker gracefully instead of every command at once.
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
    process = await asyncio.create_subprocess_shell(
        command,
        stdin=asyncio.subprocess.PIPE,
        stdout=_STDERR if keep_stdout_clean else None,
        stderr=asyncio.subprocess.PIPE,
        env=environment(delivery),
        start_new_session=True,
    )
    try:
        _, tail = await asyncio.gather(_feed(process, delivery.payload), _copy_stderr(process))
        return await process.wait(), tail
    except asyncio.CancelledError:
        _kill(process)
        # Killed, so this ends at once; without it the pipes would stay open.
        await process.communicate()
        raise


async def _feed(process: asyncio.subprocess.Process, payload: bytes) -> None:
    assert process.stdin is not None
    # A command need not read its payload.
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(payload)
        await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()


async def _copy_stderr(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    tail = b""
    while chunk := await process.stderr.read(_CHUNK_BYTES):
        sys.stderr.write(chunk.decode(errors="replace"))
        sys.stderr.flush()
        tail = (tail + chunk)[-_TAIL_BYTES:]
    return tail.decode(errors="replace").strip()


def _kill(process: asyncio.subprocess.Process) -> None:
    """With everything that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
