"""What the SDK has to report goes to stderr as sentences: traces are for programs that ask for them."""

from __future__ import annotations

import logging
import sys


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        raised = record.exc_info[1] if record.exc_info else None
        why = f" {type(raised).__name__}: {raised}" if raised else ""
        return f"timerd: {record.getMessage()}{why}"


def log_plainly() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Plain())
    log = logging.getLogger("timerd")
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
