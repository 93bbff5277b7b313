"""How an instance becomes the keeper of a key shard, and gives it up, at the store (core/ordering/kept_shards.py).

Who a shard is placed with takes its register when nobody who lives has it. Who it is placed with no more gives it up
when none of its partitions is held here: by then what has ended is durable, and what workers have is noted in its rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from timerd.core.ordering import KeptShards, OrderKeys
from timerd.model.key_shards import NOBODY, ShardKeeper, keeper_key
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.storage import Cas, CasStatus
from timerd.ports import Store
from timerd.services.holding.hand_over import HandOver
from timerd.services.holding.held import Machines
from timerd.services.holding.membership import Membership


class KeyKeeping:
    """Of one instance."""

    def __init__(
        self,
        keys: OrderKeys,
        store: Store,
        membership: Membership,
        hand_over: HandOver,
        machines: Machines,
    ) -> None:
        self._keys = keys
        self._kept: KeptShards = keys.kept_shards
        self._store = store
        self._membership = membership
        self._hand_over = hand_over
        self._machines = machines
        # Their registers may name this instance, which does not keep them: a change was not heard of.
        self._unheard: set[int] = set()

    async def step(self, wanted: Iterable[Partition]) -> None:
        """`wanted`: what is to be held here."""
        here = {each.shard for each in (*wanted, *self._machines) if each.is_of_keys}
        for shard in sorted(here.difference(self._kept)):
            if self._is_placed_here(shard):
                await self._take(shard)
        for shard in (*self._kept, *sorted(self._unheard)):
            if shard not in here and not self._is_placed_here(shard):
                await self._leave(shard)

    async def leave(self) -> None:
        """A graceful stop, after the partitions: those of which one is held still are found to be free by others."""
        held = {each.shard for each in self._machines}
        for shard in (*self._kept, *sorted(self._unheard)):
            if shard not in held:
                await self._leave(shard)

    def _is_placed_here(self, shard: int) -> bool:
        is_here = self._hand_over.place_of(Partition(TIME_SCOPE, 0, shard)) == self._membership.name
        return is_here and not self._hand_over.is_leaving

    async def _take(self, shard: int) -> None:
        me = self._membership
        stored, known = await self._read(shard)
        await me.confirm(known)
        incarnation = me.incarnation
        if not me.may_take(known):
            return
        mine = known.taken_by(me.name, incarnation)
        if await self._change(shard, stored, mine) and me.incarnation == incarnation:
            self._keys.begin_after(mine.last_ms)
            self._kept.taken(shard, mine)

    async def _leave(self, shard: int) -> None:
        """What is started by an instance is behind all that it has started before, whichever register says so."""
        self._kept.left(shard)
        self._unheard.add(shard)
        stored, known = await self._read(shard)
        if not self._is_own(known):
            # The lease was lost since, or the change was carried out.
            self._unheard.discard(shard)
        elif await self._change(shard, stored, known.left(self._kept.owed_ms(shard), self._keys.started_ms)):
            self._kept.told(shard)

    def _is_own(self, keeper: ShardKeeper) -> bool:
        return (keeper.holder, keeper.incarnation) == (self._membership.name, self._membership.incarnation)

    async def _read(self, shard: int) -> tuple[bytes | None, ShardKeeper]:
        stored = (await self._store.read([keeper_key(shard)]))[0]
        return stored, NOBODY if stored is None else ShardKeeper.from_bytes(stored)

    async def _change(self, shard: int, expected: bytes | None, wanted: ShardKeeper) -> bool:
        """What is not known to be done counts as not done: who stands there by the same name may take it again, and
        leaves it where it is not to have it."""
        self._unheard.add(shard)
        key, value = keeper_key(shard), wanted.to_bytes()
        result = (await self._store.cas([Cas(key, expected, value)]))[0]
        is_done = result.status is CasStatus.APPLIED
        if result.status is CasStatus.UNKNOWN:
            is_done = (await self._store.read([key]))[0] == value
            if not is_done:
                return False
        self._unheard.discard(shard)
        return is_done
