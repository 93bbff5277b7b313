"""The keys of the sealed batches that are left, of all relays: a row with one of them waits in the outbox (rule X3).

Which rows are in a batch never changes, so its request is read once. Sealing is done by one relay at a time, so none of
them is missing then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from timerd.outbox.messages import keys_in
from timerd.outbox.rows import SealedBatch
from timerd.outbox.sealing import QualifiedName


class SealedKeys:
    """Of one connection to the database: another one may lead to a copy that has other batches by the same numbers."""

    def __init__(self) -> None:
        self._keys: dict[int, frozenset[QualifiedName]] = {}

    def unknown(self, left: Collection[int]) -> list[int]:
        """Of the batches that are left, those to be read. All others are forgotten."""
        there = frozenset(left)
        self._keys = {no: keys for no, keys in self._keys.items() if no in there}
        return [no for no in left if no not in self._keys]

    def learn(self, batches: Iterable[SealedBatch]) -> None:
        self._keys |= {batch.no: keys_in(batch) for batch in batches}

    def busy(self) -> frozenset[QualifiedName]:
        return frozenset().union(*self._keys.values())

    def forget(self) -> None:
        self._keys.clear()
