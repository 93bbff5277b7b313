"""A server whose store can be frozen."""

from __future__ import annotations

from pathlib import Path

from tests.process.children import Server


class FreezingServer(Server):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.gate = folder / "frozen"
        at = self._command.index("timerd.cli")
        self._command[at : at + 1] = ["tests.process.frozen.server", str(self.gate)]
