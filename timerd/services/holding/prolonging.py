"""What waits for a delivery in hand, before its partition is given away: one read of the store for each partition and
thousand rows. Only what does not wait where this instance left it is looked for one by one, at a stop."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from timerd.core.dispatch import Deliveries, GuardedPlace
from timerd.core.partition import is_outlasted
from timerd.core.protocol import Located
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.rows import concat
from timerd.ports import Store
from timerd.services.holding.held import Held

AT_ONCE = 1_000
# Each takes some reads of the store.
LOOKED_FOR_AT_ONCE = 32
# Where a row waits that was carried on from there; None: it does not wait.
LookUp = Callable[[Partition, RowKey], Awaitable[Located | None]]


class Prolonging:
    """Of one instance: rows that were carried to the end of a lease wait until the end that it has by now."""

    def __init__(self, held: Held, deliveries: Deliveries, look: LookUp, store: Store) -> None:
        self._held = held
        self._deliveries = deliveries
        self._look = look
        self._store = store

    async def prolong_in(self, partitions: Collection[Partition], now_ms: int) -> None:
        """What waits there, whichever instance carried it."""
        await self._prolong_at(self._places_in(partitions), now_ms)

    async def prolong_all(self, now_ms: int) -> None:
        await self.prolong_in(list(self._held.machines), now_ms)
        left = await self._prolong_at(self._deliveries.guard.places(), now_ms)
        # Another instance may have held the partition meanwhile, and carried them on.
        for at in range(0, len(left), LOOKED_FOR_AT_ONCE):
            found = await asyncio.gather(*(self._look(*place) for place in left[at : at + LOOKED_FOR_AT_ONCE]))
            await self._prolong_at([(here.place.partition, here.place.key) for here in found if here], now_ms)

    def _places_in(self, partitions: Collection[Partition]) -> list[GuardedPlace]:
        machines = [self._held.machines[each] for each in partitions if each in self._held.machines]
        in_memory = [(each.partition, key) for each in machines for key in each.leased_rows()]
        carried = [place for place in self._deliveries.guard.places() if place[0] in partitions]
        return list(dict.fromkeys([*in_memory, *carried]))

    async def _prolong_at(self, places: Iterable[GuardedPlace], now_ms: int) -> list[GuardedPlace]:
        """Returns those that did not wait there."""
        waiting: dict[Partition, list[RowKey]] = defaultdict(list)
        for partition, key in places:
            if is_outlasted(key, self._deliveries.lease_end_ms(key), now_ms):
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
        asked, lease_end_ms = set(keys), self._deliveries.lease_end_ms
        carried = machine.prolong(concat(groups), lambda key: lease_end_ms(key) if key in asked else 0, now_ms)
        self._deliveries.carried(machine, carried)
        return set(carried)
