"""The keys of sealed batches that other relays have: a batch waits for a lower one with a key of its own, wherever that
is, and for no other (rule X3).

Which rows are in a batch never changes, so its request is read once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence

from timerd.outbox.messages import keys_in
from timerd.outbox.rows import SealedBatch

ReadBatches = Callable[[Sequence[int]], Awaitable[list[SealedBatch]]]


class BatchesElsewhere:
    """By namespace and number. `read`: as OutboxStore.read."""

    def __init__(self, read: ReadBatches) -> None:
        self._read = read
        self._keys: defaultdict[str, dict[int, frozenset[str]]] = defaultdict(dict)

    async def hold_up(self, batch: SealedBatch, keys: Collection[str], lower: Sequence[int]) -> bool:
        """Whether one of these `lower` batches has one of the `keys` of this one. One that has gone meanwhile counts:
        it may have been halved, and its halves have other numbers."""
        known = self._keys[batch.namespace]
        if unknown := [no for no in lower if no not in known]:
            known |= {each.no: keys_in(each) for each in await self._read(unknown)}
        said = any(no not in known or not known[no].isdisjoint(keys) for no in lower)
        # What is below the lowest that is left is over.
        left_from = min(lower, default=batch.no)
        self._keys[batch.namespace] = {no: of for no, of in known.items() if no >= left_from}
        return said
