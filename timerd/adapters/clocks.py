"""The machine's own clocks, for the engine clock to judge."""

from __future__ import annotations

import sys
import time

from timerd.model.errors import StartupError


class SystemClock:
    """`wall_ms` may be stepped by an operator; `boot_ms` counts suspend and never is. Raises StartupError where this
    system has no such clock."""

    def __init__(self) -> None:
        self._clock = suspend_clock()

    def wall_ms(self) -> float:
        return time.time_ns() / 1e6

    def boot_ms(self) -> float:
        return time.clock_gettime_ns(self._clock) / 1e6


def suspend_clock() -> int:
    """The clock that goes on while the system sleeps: on Linux CLOCK_BOOTTIME. On macOS CLOCK_MONOTONIC_RAW does, which
    is mach_continuous_time(), and CLOCK_UPTIME_RAW does not; on Linux a clock of the same name stands still."""
    if sys.platform == "darwin":
        return time.CLOCK_MONOTONIC_RAW
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is None:
        raise StartupError(
            f"The server needs a clock that counts suspend, and {sys.platform} has none that it knows: run it on Linux "
            "or macOS. Clients and workers run here."
        )
    return clock
