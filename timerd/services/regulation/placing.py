"""Deliveries that workers brought from before a restart: their queues are looked up, so that limits count them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice

from timerd.core.dispatch import RETURN_MS, BroughtBack
from timerd.core.taken import QueueKey
from timerd.model.errors import CorruptRow, NotUnderstood
from timerd.model.identity import RowKey
from timerd.model.partition import Partition

# So many look-ups are under way at a time.
TOGETHER = 100


class Placing:
    """`queue_of`: of the task of a delivery, None where its row is gone."""

    def __init__(
        self,
        brought: BroughtBack,
        queue_of: Callable[[Partition, RowKey], Awaitable[QueueKey | None]],
        now_ms: Callable[[], int],
    ) -> None:
        self._brought = brought
        self._queue_of = queue_of
        self._now_ms = now_ms

    def begin(self) -> None:
        """Workers come back from now on."""
        self._brought.begin(self._now_ms() + RETURN_MS)

    def is_done(self) -> bool:
        return not self._brought.unplaced()

    async def step(self) -> None:
        """Looks up all that came. Raises StoreUnavailable, and what is left is looked up the next time."""
        waiting = iter(self._brought.unplaced())
        while some := list(islice(waiting, TOGETHER)):
            queues = await asyncio.gather(*(self._queue(place.partition, place.key) for _, place in some))
            for (delivery_id, _), queue in zip(some, queues, strict=True):
                self._brought.place(delivery_id, queue)

    async def _queue(self, partition: Partition, key: RowKey) -> QueueKey | None:
        """Of one that cannot be read nothing is sent either."""
        try:
            return await self._queue_of(partition, key)
        except (CorruptRow, NotUnderstood):
            return None
