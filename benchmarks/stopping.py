"""Ctrl-C and SIGTERM end a benchmark in order: its servers and children first, then itself."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

# As a shell reports a program that was interrupted.
INTERRUPTED = 130
T = TypeVar("T")


class Interrupted(Exception):
    """All that was started has been ended; the figures so far are in their file."""


def run(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, which SIGTERM would end at once, with all servers left behind."""
    try:
        return asyncio.run(_stoppable(main))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise Interrupted from None


async def _stoppable(main: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await main
