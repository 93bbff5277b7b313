"""Wakes the event loop at an instant of engine time, to a few microseconds.

asyncio rounds its own timers up to whole milliseconds of epoll; a timerfd that is registered with the loop does not.
Python 3.11 has no binding for it, so the C library is called. Where there is no timerfd, the loop's timers must do.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import math
import os
from collections.abc import Callable
from typing import Protocol

# Counts suspend, as engine time does.
_CLOCK_BOOTTIME = 7
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_NANOS_PER_MS = 1_000_000


class Alarm(Protocol):
    """Rings once, at or after the instant that was set last."""

    def listen(self, ring: Callable[[], None]) -> None: ...

    def set(self, at_ms: float) -> None: ...

    def close(self) -> None: ...


class _Spec(ctypes.Structure):
    """struct itimerspec."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


def _silent() -> None:
    """Nobody listens yet."""


class TimerfdAlarm:
    """`now_ms`: engine time with its fraction. Needs a running loop; raises OSError where there is no timerfd."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._ring: Callable[[], None] = _silent
        self._at_ms = math.inf
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "timerfd_create"):
            raise OSError("The C library has no timerfd.")
        self._file: int = self._libc.timerfd_create(_CLOCK_BOOTTIME, _FLAGS)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._file, self._rang)

    def listen(self, ring: Callable[[], None]) -> None:
        self._ring = ring

    def set(self, at_ms: float) -> None:
        if at_ms == self._at_ms:
            return
        self._at_ms = at_ms
        # Zero would switch it off.
        wait_ns = max(1, math.ceil((at_ms - self._now_ms()) * _NANOS_PER_MS))
        spec = _Spec(0, 0, *divmod(wait_ns, 1000 * _NANOS_PER_MS))
        if self._libc.timerfd_settime(self._file, 0, ctypes.byref(spec), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")

    def close(self) -> None:
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1

    def _rang(self) -> None:
        self._at_ms = math.inf
        # It was set anew between ringing and now.
        with contextlib.suppress(BlockingIOError):
            os.read(self._file, 8)
        self._ring()


class LoopAlarm:
    """The same by the loop's timers: about a millisecond later."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._ring: Callable[[], None] = _silent
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def listen(self, ring: Callable[[], None]) -> None:
        self._ring = ring

    def set(self, at_ms: float) -> None:
        self.close()
        # A hundredth of a millisecond, because the loop may be that early by its own clock.
        wait_ms = max(0.0, at_ms - self._now_ms()) + 0.01
        self._timer = self._loop.call_later(wait_ms / 1000, self._rang)

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _rang(self) -> None:
        self._ring()


def make_alarm(now_ms: Callable[[], float]) -> Alarm:
    """The most exact that this machine has."""
    try:
        return TimerfdAlarm(now_ms)
    except OSError:
        return LoopAlarm(now_ms)
