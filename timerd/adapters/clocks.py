"""The machine's own clocks, for the engine clock to judge."""

from __future__ import annotations

import time


class SystemClock:
    """`wall_ms` may be stepped by an operator; `boot_ms` counts suspend and never is."""

    def wall_ms(self) -> float:
        return time.time_ns() / 1e6

    def boot_ms(self) -> float:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6
