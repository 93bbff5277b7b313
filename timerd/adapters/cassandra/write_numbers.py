"""The number that tells writings of the same row apart: of several the first counts, by the clocks of their writers."""

from __future__ import annotations

import secrets
import time

_WRITER_BITS = 10


class WriteNumbers:
    """Grows with every use, also when the wall clock is stepped back. The last bits name the writer, so that no two
    writers ever fill the same row."""

    def __init__(self) -> None:
        self._last_us = 0
        self._writer = secrets.randbelow(1 << _WRITER_BITS)

    def now_us(self) -> int:
        self._last_us = max(self._last_us + 1, time.time_ns() // 1_000)
        return self._last_us

    def next(self) -> int:
        return self.now_us() << _WRITER_BITS | self._writer
