"""Wakes the event loop at an instant of engine time, to a few microseconds.

asyncio rounds its own timers up to whole milliseconds of epoll; a timerfd that is registered with the loop does not.
Python 3.11 has no binding for it, so the C library is called. Where there is no timerfd, as on macOS, the loop's timers
must do.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import math
import os
import time
from collections.abc import Callable
from typing import Protocol

# Counts suspend, as engine time does.
_CLOCK_BOOTTIME = 7
_ABSOLUTE = 1
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_NANOS_PER_MS = 1_000_000
_SHORT_MS = 20.0
_LONG_PART = 0.99
_SAME_NS = 20_000
_LOOK_EVERY_MS = 1_000.0


class AnyAlarm(Protocol):
    """Rings once, at or after the instant that was set last, and never again once it is closed: a round of delivery may
    still be under way then."""

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


def wait_of(left_ms: float) -> float:
    """How long to sleep before looking at the clock again. Engine time is slewed against the clock that counts the
    sleep (by a per mille or so), so a long sleep ends a little before its instant and a short one does the rest."""
    return left_ms if left_ms < _SHORT_MS else left_ms * _LONG_PART


def _silent() -> None:
    """Nobody listens yet."""


class TimerfdAlarm:
    """`now_ms`: engine time with its fraction. Needs a running loop; raises OSError where there is no timerfd."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._ring: Callable[[], None] = _silent
        self._at_ms = 0.0
        # On the kernel's clock; 0: it is not set.
        self._rings_ns = 0
        # Keeps the interpreter: the call takes less than to get it back from the threads that wait for it.
        self._libc = ctypes.PyDLL(None, use_errno=True)
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
        if self._file < 0:
            return
        self._at_ms = at_ms
        # The kernel's clock first: put off between the two, the thread sets it too early, which does no harm.
        since_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        rings_ns = since_ns + math.ceil(wait_of(at_ms - self._now_ms()) * _NANOS_PER_MS)
        # Most rounds find the instant that is set already, and to set a timer of the kernel takes 10 us and more.
        if abs(rings_ns - self._rings_ns) < _SAME_NS:
            return
        spec = _Spec(0, 0, *divmod(rings_ns, 1000 * _NANOS_PER_MS))
        if self._libc.timerfd_settime(self._file, _ABSOLUTE, ctypes.byref(spec), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")
        self._rings_ns = rings_ns

    def close(self) -> None:
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1

    def _rang(self) -> None:
        # It was set anew between ringing and now.
        with contextlib.suppress(BlockingIOError):
            os.read(self._file, 8)
            self._rings_ns = 0
        if self._now_ms() < self._at_ms:
            self.set(self._at_ms)
        else:
            self._ring()


class LoopAlarm:
    """The same by the loop's timers: about a millisecond later. They stand still while the system sleeps, as engine
    time does not, so that a long wait is made of short ones."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._ring: Callable[[], None] = _silent
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._at_ms = 0.0
        self._is_closed = False

    def listen(self, ring: Callable[[], None]) -> None:
        self._ring = ring

    def set(self, at_ms: float) -> None:
        if self._is_closed:
            return
        self._cancel()
        self._at_ms = at_ms
        wait_ms = min(max(0.0, wait_of(at_ms - self._now_ms())), _LOOK_EVERY_MS)
        self._timer = self._loop.call_later(wait_ms / 1000, self._rang)

    def close(self) -> None:
        self._is_closed = True
        self._cancel()

    def _cancel(self) -> None:
        if self._timer:
            self._timer.cancel()

    def _rang(self) -> None:
        if self._now_ms() < self._at_ms:
            self.set(self._at_ms)
        else:
            self._ring()


def make_alarm(now_ms: Callable[[], float]) -> AnyAlarm:
    """The most exact that this machine has."""
    try:
        return TimerfdAlarm(now_ms)
    except OSError:
        return LoopAlarm(now_ms)
