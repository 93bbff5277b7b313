"""A server with its HTTP port, and what that says."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

from tests.cli.served import Server
from timerd.demo.processes import free_port


class Watched:
    """A server and its HTTP port."""

    def __init__(self, folder: Path) -> None:
        self.http = f"127.0.0.1:{free_port()}"
        self.server = Server(folder, "--http", self.http)

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.http}{path}", timeout=20) as answer:
            return str(answer.read().decode())

    def is_ready(self) -> bool:
        try:
            return bool(json.loads(self.get("/readyz"))["ready"])
        except urllib.error.HTTPError:
            return False

    def samples(self) -> dict[str, float]:
        """`name{labels}` -> value."""
        lines = [line.rpartition(" ") for line in self.get("/metrics").splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}
