"""Memory that is short."""

from __future__ import annotations

from timerd.core.partition.memory import Memory
from timerd.core.taken import QueueKey


class Tight(Memory):
    def share_bytes(self, queue: QueueKey, own_bytes: int) -> int:
        return self.budget_bytes
