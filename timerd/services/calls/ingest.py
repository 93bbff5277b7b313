"""What the API takes in at one time, all streams together: refused is before any write, with advice when to try again
(guarantee G13)."""

from __future__ import annotations

from collections.abc import Sequence

from timerd.model.errors import Overloaded

# What a request costs besides its own bytes: the call, its objects, its answer.
REQUEST_OVERHEAD_BYTES = 1_024
RETRY_AFTER_MS = 100


class IngestBudget:
    """Bytes of the requests that are being handled."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    def hold(self, request_bytes: int) -> IngestSlot:
        """While it is entered. Raises Overloaded then."""
        return IngestSlot(self, request_bytes + REQUEST_OVERHEAD_BYTES)

    def hold_all(self, sizes_bytes: Sequence[int]) -> IngestSlot:
        """As `hold`, of many requests at once."""
        return IngestSlot(self, sum(sizes_bytes) + len(sizes_bytes) * REQUEST_OVERHEAD_BYTES)

    def take(self, cost_bytes: int) -> None:
        if self.used_bytes + cost_bytes > self.limit_bytes:
            raise Overloaded(
                f"The server is taking in {self.used_bytes:,} bytes of requests and has room for {self.limit_bytes:,}: "
                "nothing of this one was stored, try again in a moment.",
                "INGEST_BUDGET",
                retry_after_ms=RETRY_AFTER_MS,
            )
        self.used_bytes += cost_bytes


class IngestSlot:
    """Each message enters one, and this is entered three times as fast as a generator is."""

    __slots__ = ("_budget", "_cost_bytes")

    def __init__(self, budget: IngestBudget, cost_bytes: int) -> None:
        self._budget = budget
        self._cost_bytes = cost_bytes

    def __enter__(self) -> None:
        self._budget.take(self._cost_bytes)

    def __exit__(self, *_: object) -> None:
        self._budget.used_bytes -= self._cost_bytes
