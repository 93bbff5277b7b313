"""Logs of dataclasses as JSON lines, each flushed before its writer goes on: a log is true up to the instant at which
its writer dies."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any


class Writer:
    """Appends to a file of its own."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8")

    def write(self, record: Any) -> None:  # noqa: ANN401 - any dataclass
        self._file.write(json.dumps({"kind": type(record).__name__, **asdict(record)}) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class Tail:
    """Reads what was appended since it last looked, but for a line that is still being written. Each line is the fields
    of a record, with its `kind`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [json.loads(line) for line in whole.decode().splitlines()]
