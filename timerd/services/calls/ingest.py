"""What the API takes in at one time, all streams together: refused is before any write, with advice when to try again
(guarantee G13)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from timerd.model.errors import Overloaded

# What a request costs besides its own bytes: the call, its objects, its answer.
REQUEST_OVERHEAD_BYTES = 1_024
RETRY_AFTER_MS = 100


class IngestBudget:
    """Bytes of the requests that are being handled."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    @contextmanager
    def hold(self, request_bytes: int) -> Iterator[None]:
        cost_bytes = request_bytes + REQUEST_OVERHEAD_BYTES
        if self.used_bytes + cost_bytes > self.limit_bytes:
            raise Overloaded(
                f"The server is taking in {self.used_bytes:,} bytes of requests and has room for {self.limit_bytes:,}: "
                "nothing of this one was stored, try again in a moment.",
                "INGEST_BUDGET",
                retry_after_ms=RETRY_AFTER_MS,
            )
        self.used_bytes += cost_bytes
        try:
            yield
        finally:
            self.used_bytes -= cost_bytes
