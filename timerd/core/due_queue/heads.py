"""When the first row of all queues comes, without a look at each: thousands of queues have tasks in one partition, and
it is asked ten times a second.

An entry may be too early, never too late: it is set right when it is the first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from timerd.core.taken import QueueKey

# Entries that no longer count, beside as many that do, before they are thrown out.
SLACK = 64


class Heads:
    def __init__(self) -> None:
        # Of a queue that is listed twice the entry with this time counts.
        self._listed_ms: dict[QueueKey, int] = {}
        self._heap: list[tuple[int, QueueKey]] = []

    def at(self, queue: QueueKey, head_ms: int) -> None:
        """The queue has a row there now."""
        listed_ms = self._listed_ms.get(queue)
        if listed_ms is None or head_ms < listed_ms:
            self._listed_ms[queue] = head_ms
            heapq.heappush(self._heap, (head_ms, queue))
            self._tidy()

    def first_ms(self, next_ms: Callable[[QueueKey], int | None]) -> int | None:
        """`next_ms`: of one queue, as it is."""
        while self._heap:
            listed_ms, queue = self._heap[0]
            is_current = self._listed_ms.get(queue) == listed_ms
            head_ms = next_ms(queue) if is_current else None
            if head_ms == listed_ms:
                return head_ms
            heapq.heappop(self._heap)
            if is_current:
                del self._listed_ms[queue]
            if head_ms is not None:
                self.at(queue, head_ms)
        return None

    def _tidy(self) -> None:
        """Where tasks due soon come before one that is far, that one is listed anew each time that they are over."""
        if len(self._heap) > 2 * len(self._listed_ms) + SLACK:
            self._heap = [(head_ms, queue) for queue, head_ms in self._listed_ms.items()]
            heapq.heapify(self._heap)
