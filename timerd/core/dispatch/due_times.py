"""When each queue may next have something, as far as is known: what is due is found without a look at all queues.

A time may be too early, never too late. A queue whose workers want nothing rests: its time is kept, and comes to no
list.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from itertools import count, islice

from timerd.core.taken import QueueKey

# Entries that no longer hold, beside as many that do, before they are thrown out.
SLACK = 64
RESTING = -1


class DueTimes:
    def __init__(self) -> None:
        # Of the entries of a queue the one with this number holds.
        self._known: dict[QueueKey, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, QueueKey]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._known)

    def set(self, queue: QueueKey, due_ms: float) -> None:
        """Infinite: it has nothing."""
        known = self._known.get(queue)
        if known is not None and known[0] == due_ms and known[1] != RESTING:
            return
        self._known[queue] = due_ms, (number := next(self._numbers))
        if due_ms < math.inf:
            heapq.heappush(self._heap, (due_ms, number, queue))
        self._tidy()

    def forget(self, queue: QueueKey) -> None:
        if self._known.pop(queue, None) is not None:
            self._tidy()

    def rest(self, queue: QueueKey) -> None:
        """Until `resume`, if it is known."""
        known = self._known.get(queue)
        if known is not None:
            self._known[queue] = known[0], RESTING
            self._tidy()

    def resume(self, queue: QueueKey) -> bool:
        """Whether it is known."""
        known = self._known.get(queue)
        if known is not None:
            self.set(queue, known[0])
        return known is not None

    def due(self, until_ms: float) -> list[QueueKey]:
        """In no order; they stay known as due until they are set anew."""
        return list(self._until(until_ms))

    def count(self, until_ms: float, most: int) -> int:
        """How many are due by then; more than `most` are said as `most`."""
        return sum(1 for _ in islice(self._until(until_ms), most))

    def next_ms(self) -> float:
        return self._heap[0][0] if self._heap else math.inf

    def _until(self, until_ms: float) -> Iterator[QueueKey]:
        """Of a heap only so much is looked at as is asked for: what follows an entry is not earlier."""
        heap, places = self._heap, [0]
        while places:
            at = places.pop()
            if at < len(heap) and heap[at][0] <= until_ms:
                places += (2 * at + 1, 2 * at + 2)
                if self._holds(heap[at]):
                    yield heap[at][2]

    def _holds(self, entry: tuple[float, int, QueueKey]) -> bool:
        known = self._known.get(entry[2])
        return known is not None and known[1] == entry[1]

    def _tidy(self) -> None:
        """The first entry holds, and most of the others do."""
        if len(self._heap) > 2 * len(self._known) + SLACK:
            self._heap = [entry for entry in self._heap if self._holds(entry)]
            heapq.heapify(self._heap)
        while self._heap and not self._holds(self._heap[0]):
            heapq.heappop(self._heap)
