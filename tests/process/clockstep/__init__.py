"""A wall clock that a test steps while a process runs: a small preload library and the file that it reads.

libfaketime does not do: it either breaks the sleeps of Python or moves the clock that counts suspend as well.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_name("clockstep.c")
_NANOS_PER_MS = 1_000_000


class ClockStep:
    """The offset of the wall clock for all processes that are started with `environment`."""

    def __init__(self, folder: Path) -> None:
        library, file = folder / "clockstep.so", folder / "clockstep.offset"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, _SOURCE, "-ldl"], check=True)
        file.write_bytes(bytes(mmap.PAGESIZE))
        with file.open("r+b") as opened:
            self._page = mmap.mmap(opened.fileno(), 8)
        self.environment = {"LD_PRELOAD": str(library), "CLOCKSTEP_FILE": str(file)}

    def set(self, offset_ms: int) -> None:
        """From now on those processes see the true time plus so much."""
        self._page[:] = struct.pack("=q", offset_ms * _NANOS_PER_MS)


def compiled(folder: Path) -> ClockStep:
    """Skips where there is no C compiler, which on a laptop may be; where the project is checked it must not."""
    if shutil.which("gcc") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("gcc is not here, and CI is to step the clock of a running server: install gcc.")
        pytest.skip("gcc is not here: the library that steps a process's clock cannot be made")
    return ClockStep(folder)
