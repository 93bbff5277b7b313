"""A process that was started by another one, and ends with it: however that one ends, the pipe between them does."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

_READ_BYTES = 4_096


@contextmanager
def end_of_input(stop: Callable[[], Awaitable[None]]) -> Iterator[None]:
    """While it is entered `stop` is called once, when stdin ends. What comes there before is read and forgotten."""
    loop, file = asyncio.get_running_loop(), sys.stdin.fileno()
    stopping: list[asyncio.Future[None]] = []

    def look() -> None:
        if not os.read(file, _READ_BYTES):
            loop.remove_reader(file)
            stopping.append(asyncio.ensure_future(stop()))

    loop.add_reader(file, look)
    try:
        yield
    finally:
        loop.remove_reader(file)
