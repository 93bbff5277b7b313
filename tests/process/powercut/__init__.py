"""A power cut under a running server: a small preload library keeps of each file what was synced, and the rest is lost.

kill -9 alone loses nothing that was written: the kernel still has it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.process.preload import compiled

_SOURCE = Path(__file__).with_name("powercut.c")


class PowerCut:
    """Of all that processes write below `data` which are started with `environment`."""

    def __init__(self, folder: Path, data: Path) -> None:
        self._data, self._shadow = data, folder / "synced"
        self._shadow.mkdir()
        self.environment = {
            "LD_PRELOAD": str(compiled(_SOURCE, folder)),
            "POWERCUT_DATA": str(data),
            "POWERCUT_SHADOW": str(self._shadow),
        }

    def lose_what_is_not_synced(self) -> None:
        """Once the server is dead."""
        for path in self._data.iterdir():
            path.unlink()
        for path in self._shadow.iterdir():
            shutil.copyfile(path, self._data / path.name)
