"""The sealed batches that a relay has in hand, and which of them wait for each other (rule X3).

Of two batches with a key in common the one with the lower number is sent first. Others go beside each other. What
another relay has is in the database (`elsewhere.py`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from timerd.outbox.messages import keys_in
from timerd.outbox.rows import SealedBatch


class _BatchInHand(NamedTuple):
    namespace: str
    keys: frozenset[str]
    tasks: int
    sending: asyncio.Task[None]


class BatchesInHand:
    """By number. `sending` of a batch is done when it is over, or another batch has taken its place."""

    def __init__(self) -> None:
        self._carried: dict[int, _BatchInHand] = {}

    def add(self, batch: SealedBatch, sending: asyncio.Task[None]) -> None:
        keys = keys_in(batch) if batch.is_ordered else frozenset()
        self._carried[batch.no] = _BatchInHand(batch.namespace, keys, batch.tasks, sending)

    def remove(self, no: int) -> None:
        del self._carried[no]

    def numbers(self) -> list[int]:
        return [*self._carried]

    def sendings(self) -> list[asyncio.Task[None]]:
        return [each.sending for each in self._carried.values()]

    def count(self, without: Collection[str] = ()) -> int:
        """How many there are beside those of the namespaces `without`."""
        return sum(each.namespace not in without for each in self._carried.values())

    def tasks(self) -> Counter[str]:
        """By namespace."""
        found: Counter[str] = Counter()
        for each in self._carried.values():
            found[each.namespace] += each.tasks
        return found

    def keys(self, no: int) -> frozenset[str]:
        return self._carried[no].keys

    def before(self, no: int) -> list[asyncio.Task[None]]:
        """What this batch waits for."""
        mine = self._carried[no]
        return [
            each.sending
            for lower, each in self._carried.items()
            if lower < no and each.namespace == mine.namespace and not each.keys.isdisjoint(mine.keys)
        ]
