"""Queues that have something due and a free slot, in the order of the scores of their first tasks.

What has no free slot takes no part, so that it is not looked at, however much waits. Where one queue's tasks come
before all others several are chosen together, and the result is that of choosing one by one.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from timerd.core.assignment.pools import PooledType, Pools
from timerd.core.taken import LAST, QueueKey

# The holder of what this instance has.
HERE = 0


class Choice(NamedTuple):
    """Up to so many `tasks` of the queue may go, which the holder has and whose order keys are `upto` at most: then
    another one is next."""

    queue: QueueKey
    tasks: int
    upto: int
    holder: int = HERE


class Contest:
    """One round of it. An order key is that of core/urgency.py, as of now."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        # Of equal ones who got its last slot longest ago is first; the number says who entered first.
        self._heap: list[tuple[int, int, int, int, PooledType]] = []
        self._entered = 0

    def enter(self, queue: QueueKey, order_key: int, holder: int = HERE) -> None:
        """The first task that the holder has due of the queue."""
        found = self._pools.type_of(queue)
        if found is not None:
            self._entered += 1
            heapq.heappush(self._heap, (order_key - found.ahead_ms, found.turn, self._entered, holder, found))

    def next(self) -> Choice | None:
        """Who is next takes part no more until it enters again."""
        heap = self._heap
        while heap:
            key, _, _, holder, found = heapq.heappop(heap)
            if found.free:
                # Of equal keys the other one is next, for this one has got a slot by then.
                upto = max(key, heap[0][0] - 1) + found.ahead_ms if heap else LAST
                return Choice(found.queue, found.free, upto, holder)
        return None
