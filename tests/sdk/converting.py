"""A handler that runs in a process of its own, and does what a test wants."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

from timerd import Delivery, Reject


def convert(delivery: Delivery) -> object:
    """Does what its payload says; the pid that has it goes to the file that the key names."""
    what, _, file = delivery.payload.decode().partition(" ")
    if file:
        Path(file).write_text(f"{os.getpid()} {delivery.attempt} {delivery.key}")
    if what == "hangs":
        hang()
    if what == "hangs-in-c":
        sum(range(10**13))
    if what == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        hang()
    if what == "fails":
        raise ValueError("page 7 is torn")
    if what == "reports":
        delivery.progress(0.4, b"page 17")
        raise ValueError(f"told {delivery.previous_progress}")
    if what == "answers":
        return {"pages": 7}
    if what == "hopeless":
        raise Reject("no such page")
    if what == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "leaves":
        os._exit(3)
    return None


def hang() -> None:
    threading.Event().wait()


def is_alive(pid: int) -> bool:
    """What ends is a zombie until somebody has asked for it."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


async def until_gone(pid: int) -> None:
    async with asyncio.timeout(20):
        while is_alive(pid):  # noqa: ASYNC110 - processes tell nobody
            await asyncio.sleep(0.01)
