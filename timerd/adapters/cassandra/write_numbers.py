"""The number that tells writings of the same row apart: of several the first counts, by the clocks of their writers."""

from __future__ import annotations

import secrets
from collections.abc import Callable

_WRITER_BITS = 10


class WriteNumbers:
    """`now_us` grows with every use, also when a clock is stepped back. The last bits name the writer, so that no two
    writers ever fill the same row."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._writer = secrets.randbelow(1 << _WRITER_BITS)

    def next(self) -> int:
        return self._now_us() << _WRITER_BITS | self._writer
