"""What a namespace may schedule in a second, and what it may have at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Quota:
    """Of a namespace; 0: any. What the rates give in `burst_s` seconds may come at once."""

    calls_per_s: int = 0
    tasks_per_s: int = 0
    bytes_per_s: int = 0
    burst_s: int = 1
    pending_tasks: int = 0
    stored_bytes: int = 0

    @property
    def bounds_use(self) -> bool:
        return bool(self.pending_tasks or self.stored_bytes)


class InUse(NamedTuple):
    """What a namespace has: tasks that have not ended, and bytes of payloads that the store keeps."""

    pending_tasks: int
    stored_bytes: int
