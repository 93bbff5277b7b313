"""The audit log: a file with a JSON object a line, which says who wanted what, and what became of it.

A call that is audited has two lines with one `id`: `asked` is on stable storage before anything is done, `ended`
follows. One without the other was cut off: what it did is unknown. The file is opened anew for each line, so that it
may be moved away at any time, as logrotate does.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timerd.model.errors import StartupError

AuditRecord = dict[str, Any]
# Who reads it need not be who runs the server, and nobody else may.
_MODE = 0o640


@dataclass(frozen=True, slots=True)
class AuditedCall:
    """`id`: the same in the store and in the file. `outcome`: OK, the code of a refusal, or "unknown". `result`: what
    was replied, or why it was refused."""

    at: str
    caller: str
    peer: str
    method: str
    request: AuditRecord
    outcome: str
    result: Any
    id: str

    def record(self) -> AuditRecord:
        return {name: getattr(self, name) for name in self.__slots__}


class AuditLog:
    """Writes lines. Raises OSError where it cannot."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, at: str) -> None:
        """A server begins to write. Raises StartupError."""
        try:
            self.write({"at": at, "stage": "began"})
        except OSError as error:
            raise StartupError(
                f"Cannot write the audit log {self.path}: {error.strerror}. Name a file in a folder where the server "
                "may write."
            ) from error

    def write(self, record: AuditRecord) -> None:
        """Returns when the line is on stable storage."""
        line = json.dumps(record, ensure_ascii=False, separators=(", ", ": ")) + "\n"
        number = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _MODE)
        try:
            data = line.encode()
            if os.write(number, data) != len(data):
                # So that the next line stands by itself.
                os.write(number, b"\n")
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(number)
        finally:
            os.close(number)


def read_audit_log(path: Path) -> Iterator[AuditedCall]:
    """In the order in which they were asked. A last line that was cut off is left out. Raises OSError."""
    asked: dict[str, AuditRecord] = {}
    ended: dict[str, AuditRecord] = {}
    for record in _records(path):
        if record.get("stage") == "asked":
            asked[record["id"]] = record
        elif record.get("stage") == "ended":
            ended[record["id"]] = record
    for call_id, first in asked.items():
        yield audited_call(first, ended.get(call_id))


def audited_call(asked: AuditRecord, ended: AuditRecord | None) -> AuditedCall:
    """`ended` None: it was cut off."""
    said = {name: asked[name] for name in ("id", "at", "caller", "peer", "method", "request")}
    last = ended or {"outcome": "unknown", "result": None}
    return AuditedCall(**said, outcome=last["outcome"], result=last["result"])


def _records(path: Path) -> Iterator[AuditRecord]:
    with path.open("rb") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and "id" in record:
                yield record


__all__ = ["AuditLog", "AuditRecord", "AuditedCall", "audited_call", "read_audit_log"]
