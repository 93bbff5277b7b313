"""One budget for all loaded rows of an instance (guarantee G13). Admission asks it before keeping rows.

A queue that nobody works keeps only a token share: its tasks wait in the store, whatever their number, until a worker
comes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from timerd.core.fairness import LimitKeys
from timerd.core.ordering import OrderKeys
from timerd.core.partition.reload import Reload
from timerd.core.taken import QueueKey
from timerd.model.partition import bucket_of

SMALLEST_SHARE_BYTES = 1 << 20


@dataclass(slots=True)
class Memory:
    """`used_bytes` is what the partitions hold, kept up to date by them; `worked` are the queues that have workers."""

    budget_bytes: int
    used_bytes: int = 0
    worked: set[QueueKey] = field(default_factory=set)
    # Those that are under way, of all partitions.
    reloads: list[Reload] = field(default_factory=list)
    # Queues of which something may be due earlier than when delivery last asked; it takes them out.
    touched: set[QueueKey] = field(default_factory=set)
    # Whose turn it is among the tasks of one ordering key, over all partitions.
    order_keys: OrderKeys = field(default_factory=OrderKeys)
    # Whose turn it is among the limit keys of one queue, over all partitions.
    limit_keys: LimitKeys = field(init=False)

    def __post_init__(self) -> None:
        self.limit_keys = LimitKeys(self.touched)

    def share_bytes(self, queue: QueueKey, own_bytes: int) -> int:
        """What a queue may keep of one partition, having `own_bytes` of it: all that there is room for; when the
        budget is used up, half of what would be free without it."""
        if queue not in self.worked:
            return SMALLEST_SHARE_BYTES
        free = self.budget_bytes - self.used_bytes
        return own_bytes + free if free > 0 else max(SMALLEST_SHARE_BYTES, (free + own_bytes) // 2)

    def wants_more(self, queue: QueueKey, own_bytes: int, position_ms: int) -> bool:
        """Of a queue that was cut there: whether most of what it had is gone, and it may be brought in again."""
        return own_bytes <= self.share_bytes(queue, own_bytes) // 4 and self.may_reload(queue, position_ms)

    def may_reload(self, queue: QueueKey, position_ms: int) -> bool:
        """Not while the queue is brought in again from an earlier bucket, which is sent first: what came would wait in
        memory until then, however much it is."""
        bucket_ms = bucket_of(position_ms)
        return all(r.queue != queue or bucket_of(r.first_ms) >= bucket_ms for r in self.reloads)
