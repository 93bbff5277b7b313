"""Rows that a holder leaves in the store: the ends of queues for which there is no memory, and what a later release
wrote. They hold `verified` back.
"""

from __future__ import annotations

from timerd.core.partition.foreign_rows import ForeignRows
from timerd.core.partition.reload import Reload
from timerd.core.taken import QueueKey


class LeftInStore:
    """Those of one held partition."""

    def __init__(self) -> None:
        # Queues whose rows at or after (position, tie) were cut off.
        self.cut: dict[QueueKey, tuple[int, int]] = {}
        # The queue whose end is being read again.
        self.reload: Reload | None = None
        self.foreign = ForeignRows()

    def oldest_ms(self) -> int | None:
        """Position from which on rows may be left."""
        found = [position_ms for position_ms, _ in self.cut.values()]
        found += [self.reload.place[0]] if self.reload is not None else []
        found += [self.foreign.oldest_ms] if self.foreign.oldest_ms is not None else []
        return min(found, default=None)
