"""What waits for a delivery in hand, at a stop: one read of the store for each partition and thousand rows."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from timerd.core.lookup import MAX_HOPS
from timerd.core.prolonging import is_outlasted, prolong
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.rows import concat
from timerd.ports import Store
from timerd.services.engine.held_back import HeldBack, Place
from timerd.services.holding.held import Held

AT_ONCE = 1_000


async def prolong_all(held: Held, held_back: HeldBack, store: Store, now_ms: int) -> None:
    """Rows that were carried to the end of a lease wait until the end that it has by now."""
    waiting: dict[Partition, list[RowKey]] = defaultdict(list)
    for place in held_back.places():
        partition, key = _carried_since(held, place)
        if partition in held.machines and is_outlasted(key, _lease_ms(held, held_back, key), now_ms):
            waiting[partition].append(key)
    parts = [(where, keys[at : at + AT_ONCE]) for where, keys in waiting.items() for at in range(0, len(keys), AT_ONCE)]
    await asyncio.gather(*(_prolong(held, held_back, store, where, keys, now_ms) for where, keys in parts))


async def _prolong(
    held: Held, held_back: HeldBack, store: Store, partition: Partition, keys: Sequence[RowKey], now_ms: int
) -> None:
    """By the leases of when the rows were read: they are extended meanwhile."""
    found = await store.find(partition, list({(key.position_ms, key.digest): None for key in keys}))
    machine, groups = held.machines.get(partition), [each.rows for each in found if len(each.rows)]
    if machine is not None and groups:
        lease_of = partial(_lease_ms, held, held_back)
        held_back.carried(machine, prolong(machine, concat(groups), set(keys), lease_of, now_ms))


def _carried_since(held: Held, place: Place) -> Place:
    """Another instance may have held the partition meanwhile, and carried the row on: its records were read."""
    partition, key = place
    for _ in range(MAX_HOPS):
        machine = held.machines.get(partition)
        carry = machine.log.carries.get(key) if machine is not None else None
        if carry is None or not carry.lease_until_ms:
            break
        partition, key = carry.target, RowKey(carry.position_ms, key.digest, carry.version)
    return partition, key


def _lease_ms(held: Held, held_back: HeldBack, key: RowKey) -> int:
    return max(held.lease_of(key) or 0, held_back.lease_ms(key))
