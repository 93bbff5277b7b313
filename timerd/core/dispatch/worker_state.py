"""What the delivery machine knows of one worker."""

from __future__ import annotations

from dataclasses import dataclass

from timerd.core.taken import QueueKey


@dataclass(slots=True)
class WorkerState:
    """One stream. `gone_at_ms`: when the deliveries of a broken one fail; None while it lives. `name`: its own.
    `called`: as its worker calls itself."""

    namespace: str
    lease_ms: int
    queues: set[QueueKey]
    name: bytes
    called: str = ""
    gone_at_ms: int | None = None
