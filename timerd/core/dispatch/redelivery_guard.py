"""Rows that do not fire because a worker has their delivery: it came back after a restart with what it had in hand, or
it said what became of it and the row is still being looked for.

Such a row is carried to the end of the lease, again and again. Where it waits is remembered, for its ack comes some day
and the way there is longer each time. Until the record of a carry is durable the task may as well be where it was: what
ends it in its new place alone would leave it open in the old one, if the holder is replaced before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple, Protocol

import numpy as np

from timerd.core.partition import PartitionMachine
from timerd.core.taken import Taken
from timerd.model.identity import RowKey, delivery_id_of
from timerd.model.partition import Partition
from timerd.model.rows import FLAG_CARRIED

GuardedPlace = tuple[Partition, RowKey]


class HasKey(Protocol):
    """A delivery that is settled."""

    @property
    def key(self) -> RowKey: ...


class _Carried(NamedTuple):
    """Where it waits; where it was carried from, and which rows of there the holder has not written down yet: not its
    whole log, which would stay here after it was replaced."""

    place: GuardedPlace
    source: GuardedPlace
    leaving: Set[RowKey]

    @property
    def is_leaving(self) -> bool:
        return self.source[1] in self.leaving


# What is over is looked for among as many.
_MANY = 1_024


class RedeliveryGuard:
    """By delivery id. What has ended is forgotten where it ended; the rest when it fires, or its time is over."""

    def __init__(self) -> None:
        self._until_ms: dict[bytes, int] = {}
        self._last_ms = 0
        self._many = _MANY
        self._carried: dict[bytes, _Carried] = {}

    def hold(self, until_ms: Mapping[bytes, int]) -> None:
        self._until_ms.update(until_ms)
        self._last_ms = max([self._last_ms, *until_ms.values()])

    def is_active(self, now_ms: int) -> bool:
        """Whether any row at all may be with a worker that came back."""
        if self._until_ms and now_ms >= self._last_ms:
            self._until_ms.clear()
        if len(self._until_ms) > self._many:
            # Others may come all the time, so that there is no last one.
            self._until_ms = {each: until_ms for each, until_ms in self._until_ms.items() if until_ms > now_ms}
            self._many = max(_MANY, 2 * len(self._until_ms))
        return bool(self._until_ms)

    def waits(self, key: RowKey) -> bool:
        """Whether the row stands for a delivery that was carried on while it was in hand."""
        return bool(self._carried) and delivery_id_of(key.digest, key.version) in self._carried

    def waits_beyond(self, place: GuardedPlace) -> bool:
        """Whether another row than this one stands for its delivery: it was carried on from here, durable or not."""
        _, key = place
        carried = self._carried.get(delivery_id_of(key.digest, key.version))
        return carried is not None and carried.place != place

    def any_waits(self, delivery_ids: Iterable[bytes]) -> bool:
        """The same of many."""
        return not self._carried.keys().isdisjoint(delivery_ids)

    def places(self) -> list[GuardedPlace]:
        """Of all that wait for what is in hand."""
        return [carried.place for carried in self._carried.values()]

    def waiting_in(self, partition: Partition) -> set[bytes]:
        """Delivery ids of those that wait there."""
        return {delivery_id for delivery_id, ((where, _), *_) in self._carried.items() if where == partition}

    def waiting(self, items: Iterable[HasKey]) -> list[bytes]:
        """Those that were carried on while they were in hand; seldom any."""
        if not self._carried:
            return []
        return [delivery_id_of(item.key.digest, item.key.version) for item in items if self.waits(item.key)]

    def forget(self, delivery_id: bytes) -> None:
        self._until_ms.pop(delivery_id, None)
        self._carried.pop(delivery_id, None)

    def suspects(self, batch: Taken, now_ms: int) -> Sequence[int]:
        """After a crash any row may be with a worker that came back; otherwise only one that was carried."""
        if self.is_active(now_ms):
            return range(len(batch))
        carried: list[int] = np.flatnonzero(batch.rows.columns["flags"] & FLAG_CARRIED).tolist()
        return carried

    def lease_ms(self, key: RowKey) -> int:
        """As far as it is known here."""
        return self._until_ms.get(delivery_id_of(key.digest, key.version), 0)

    def until_ms(self, key: RowKey) -> int:
        """Asked once, when the row is about to fire."""
        if not self._until_ms and not self._carried:
            return 0
        delivery_id = delivery_id_of(key.digest, key.version)
        self._carried.pop(delivery_id, None)
        return self._until_ms.pop(delivery_id, 0)

    def carried(self, machine: PartitionMachine, keys: Iterable[RowKey]) -> None:
        """They are in hand and wait on where the machine has carried them."""
        for key in keys:
            carry = machine.carry_of(key)
            if carry is not None:
                place = carry.target, RowKey(carry.position_ms, key.digest, carry.version)
                delivery_id = delivery_id_of(key.digest, key.version)
                self._carried[delivery_id] = _Carried(place, (machine.partition, key), machine.leaving)

    def waits_in(self, delivery_id: bytes, sent: Partition) -> Partition:
        """As far as it is known, durable or not."""
        carried = self._carried.get(delivery_id)
        return sent if carried is None else carried.place[0]

    def place_of(self, delivery_id: bytes, sent: GuardedPlace) -> GuardedPlace:
        """As far as it is known, and durable; else where it was sent from."""
        carried = self._carried.get(delivery_id)
        return sent if carried is None or carried.is_leaving else carried.place

    def leaves(self, delivery_id: bytes) -> GuardedPlace | None:
        """The row of it that is carried on, as long as that is not durable."""
        carried = self._carried.get(delivery_id)
        return carried.source if carried is not None and carried.is_leaving else None
