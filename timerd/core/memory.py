"""One budget for all loaded rows of an instance (guarantee G13). Admission asks it before keeping rows.

A queue that nobody works keeps only a token share: its tasks wait in the store, whatever their number, until a worker
comes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from timerd.core.taken import QueueKey

SMALLEST_SHARE_BYTES = 1 << 20


@dataclass(slots=True)
class Memory:
    """`used_bytes` is what the partitions hold, kept up to date by them; `worked` are the queues that have workers."""

    budget_bytes: int
    used_bytes: int = 0
    worked: set[QueueKey] = field(default_factory=set)

    def share_bytes(self, queue: QueueKey, own_bytes: int) -> int:
        """What a queue may keep of one partition, having `own_bytes` of it: all that there is room for; when the
        budget is used up, half of what would be free without it."""
        if queue not in self.worked:
            return SMALLEST_SHARE_BYTES
        free = self.budget_bytes - self.used_bytes
        return own_bytes + free if free > 0 else max(SMALLEST_SHARE_BYTES, (free + own_bytes) // 2)
