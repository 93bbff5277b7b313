"""How SIGINT and SIGTERM end a worker: the first one lets it finish, a second one ends its process. SIGHUP lets it
finish as well, however often it comes: a terminal that goes may send it twice. Under nohup it is not heard.

Handlers of Python's and not of the loop's: those are called while a handler of the worker blocks the loop, too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Protocol

# Windows has no SIGHUP.
HANG_UP = getattr(signal, "SIGHUP", None)
NUMBERS = (signal.SIGINT, signal.SIGTERM)
# What coroutines that are cancelled may take, and programs to leave.
_AT_ONCE_S = 1.0
# Nobody presses Ctrl-C a second time so soon.
ECHO_S = 0.1
log = logging.getLogger("timerd.worker")


class Stoppable(Protocol):
    """A worker, as far as signals go."""

    async def run(self) -> None: ...
    async def stop(self) -> None: ...


async def run_until_signalled(worker: Stoppable) -> int:
    """The exit code: 0, or 128 + the number of the second signal. What runs then has a second to end."""
    running = asyncio.create_task(worker.run())
    signals = _Signals(worker, running)
    # Only the main thread may listen to signals; elsewhere the program stops the worker by `stop`.
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, signals.take) for number in _heard()} if is_main else {}
    try:
        await running
    except asyncio.CancelledError:
        if not signals.exit_code:
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return signals.exit_code


def _heard() -> Iterator[signal.Signals]:
    yield from NUMBERS
    if HANG_UP is not None and signal.getsignal(HANG_UP) is not signal.SIG_IGN:
        yield HANG_UP


class _Signals:
    """Counts them."""

    def __init__(self, worker: Stoppable, running: asyncio.Task[None]) -> None:
        self.exit_code = 0
        self._worker = worker
        self._running = running
        self._loop = asyncio.get_running_loop()
        self._is_stopping = False
        # Number of the first one, and when it came.
        self._first = (0, 0.0)
        self._stop: asyncio.Task[None] | None = None

    def take(self, number: int, _: FrameType | None) -> None:
        """In the main thread, between any two steps of it."""
        if not self._is_stopping:
            self._is_stopping, self._first = True, (number, time.monotonic())
            self._loop.call_soon_threadsafe(self._begin_to_stop)
        elif not self.exit_code and number != HANG_UP and not self._is_echo(number):
            self.exit_code = 128 + number
            threading.Thread(target=self._end_process, name="timerd end", daemon=True).start()
            self._loop.call_soon_threadsafe(self._running.cancel)

    def _is_echo(self, number: int) -> bool:
        """Whether it is the first one once more: `timeout` sends its signal to the process, and to its group."""
        return number == self._first[0] and time.monotonic() - self._first[1] < ECHO_S

    def _begin_to_stop(self) -> None:
        self._stop = asyncio.create_task(self._worker.stop())

    def _end_process(self) -> None:
        """Threads cannot be ended from outside, nor a handler that keeps the loop to itself."""
        name = signal.Signals(self.exit_code - 128).name
        log.warning("A second signal (%s): ending at once. What is in hand is delivered again.", name)
        time.sleep(_AT_ONCE_S)
        os._exit(self.exit_code)
