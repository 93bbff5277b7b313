"""What waits for a delivery in hand, at a stop: one read of the store for each partition and thousand rows. Only what
does not wait where this instance left it is looked for one by one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence

from timerd.core.lookup import Located
from timerd.core.prolonging import is_outlasted, prolong
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.rows import concat
from timerd.ports import Store
from timerd.services.engine.held_back import HeldBack, Place
from timerd.services.holding.held import Held

AT_ONCE = 1_000
# Each takes some reads of the store.
LOOKED_FOR_AT_ONCE = 32
# Where a row waits that was carried on from there; None: it does not wait.
Look = Callable[[Partition, RowKey], Awaitable[Located | None]]


class Prolonging:
    """Of one instance: rows that were carried to the end of a lease wait until the end that it has by now."""

    def __init__(self, held: Held, held_back: HeldBack, look: Look, store: Store) -> None:
        self._held = held
        self._held_back = held_back
        self._look = look
        self._store = store

    async def prolong_all(self, now_ms: int) -> None:
        left = await self._prolong_at(self._held_back.places(), now_ms)
        # Another instance may have held the partition meanwhile, and carried them on.
        for at in range(0, len(left), LOOKED_FOR_AT_ONCE):
            found = await asyncio.gather(*(self._look(*place) for place in left[at : at + LOOKED_FOR_AT_ONCE]))
            await self._prolong_at([(here.place.partition, here.place.key) for here in found if here], now_ms)

    async def _prolong_at(self, places: Iterable[Place], now_ms: int) -> list[Place]:
        """Returns those that did not wait there."""
        waiting: dict[Partition, list[RowKey]] = defaultdict(list)
        for partition, key in places:
            if is_outlasted(key, self._lease_ms(key), now_ms):
                waiting[partition].append(key)
        parts = [(p, keys[at : at + AT_ONCE]) for p, keys in waiting.items() for at in range(0, len(keys), AT_ONCE)]
        carried = await asyncio.gather(*(self._prolong(*part, now_ms) for part in parts))
        return [(p, key) for (p, keys), done in zip(parts, carried, strict=True) for key in keys if key not in done]

    async def _prolong(self, partition: Partition, keys: Sequence[RowKey], now_ms: int) -> set[RowKey]:
        """By the leases of when the rows were read: they are extended meanwhile."""
        if partition not in self._held.machines:
            return set()
        found = await self._store.find(partition, list({(key.position_ms, key.digest): None for key in keys}))
        machine, groups = self._held.machines.get(partition), [each.rows for each in found if len(each.rows)]
        if machine is None or not groups:
            return set()
        carried = prolong(machine, concat(groups), set(keys), self._lease_ms, now_ms)
        self._held_back.carried(machine, carried)
        return set(carried)

    def _lease_ms(self, key: RowKey) -> int:
        return max(self._held.lease_of(key) or 0, self._held_back.lease_ms(key))
