"""A wall clock that a test steps while a process runs: a small preload library and the file that it reads.

libfaketime does not do: it either breaks the sleeps of Python or moves the clock that counts suspend as well.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from tests.process.preload import compiled

_SOURCE = Path(__file__).with_name("clockstep.c")
_NANOS_PER_MS = 1_000_000


class ClockStep:
    """The offset of the wall clock for all processes that are started with `environment`."""

    def __init__(self, folder: Path) -> None:
        library, file = compiled(_SOURCE, folder), folder / "clockstep.offset"
        file.write_bytes(bytes(mmap.PAGESIZE))
        with file.open("r+b") as opened:
            self._page = mmap.mmap(opened.fileno(), 8)
        self.environment = {"LD_PRELOAD": str(library), "CLOCKSTEP_FILE": str(file)}

    def set(self, offset_ms: int) -> None:
        """From now on those processes see the true time plus so much."""
        self._page[:] = struct.pack("=q", offset_ms * _NANOS_PER_MS)
