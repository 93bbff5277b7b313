"""Deliveries that workers brought from before a restart: their queues and keys are looked up, for limits count them."""

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
    """`owner_of`: the queue and the limit key of a delivery's task, None where its row is gone."""

    def __init__(
        self,
        brought: BroughtBack,
        owner_of: Callable[[Partition, RowKey], Awaitable[tuple[QueueKey, str] | None]],
        now_ms: Callable[[], int],
    ) -> None:
        self._brought = brought
        self._owner_of = owner_of
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
            owners = await asyncio.gather(*(self._owner(place.partition, place.key) for _, place in some))
            for (delivery_id, _), owner in zip(some, owners, strict=True):
                self._brought.place(delivery_id, *(owner or (None, "")))

    async def _owner(self, partition: Partition, key: RowKey) -> tuple[QueueKey, str] | None:
        """Of one that cannot be read nothing is sent either."""
        try:
            return await self._owner_of(partition, key)
        except (CorruptRow, NotUnderstood):
            return None
