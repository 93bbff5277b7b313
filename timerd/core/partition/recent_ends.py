"""How tasks ended a short while ago, by their digests: what is looked at where a row of the same task is met at another
position.

Bounded, so that a hot second costs a few megabytes and not hundreds: what it serves (core/partition/repeats.py) need
not be perfect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from timerd.core.partition.settled_index import Entries, keys_of
from timerd.model.identity import RowKey, generation_of
from timerd.model.settle import Carry, Outcome, SettleRecord

FOR_GOOD = frozenset((Outcome.ACKED, Outcome.DEAD, Outcome.EXPIRED, Outcome.CANCELLED, Outcome.PURGED))
Remembered = tuple[RowKey, Outcome | Carry]


class RecentEnds:
    """At least the last `most` endings, twice as many at the most."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._new: dict[bytes, Remembered] = {}
        self._old: dict[bytes, Remembered] = {}

    def add(self, ended: Iterable[tuple[RowKey, Outcome]]) -> None:
        if self._most:
            self._new.update((key.digest, (key, outcome)) for key, outcome in ended if outcome in FOR_GOOD)
            self._turn()

    def add_together(self, entries: Entries) -> None:
        if self._most:
            self.add(zip(keys_of(entries), map(Outcome, entries["outcome"].tolist()), strict=True))

    def went_on(self, carries: Iterable[Carry]) -> None:
        if self._most:
            self._new.update((carry.source.digest, (carry.source, carry)) for carry in carries)
            self._turn()

    def load(self, records: Sequence[SettleRecord]) -> None:
        """Of earlier holders, the oldest first: as many of the last ones as are kept."""
        sizes = accumulate(len(record.entries) for record in reversed(records))
        last = sum(size <= self._most for size in sizes)
        for record in records[len(records) - last :]:
            self.add(record.outcomes())
            self.went_on(record.carries)

    def otherwise(self, key: RowKey) -> Outcome | Carry | None:
        """How another row of this one's task and generation ended, which said this attempt or a later one."""
        found = self._new.get(key.digest) or self._old.get(key.digest)
        if found is None or found[0] == key or generation_of(found[0].version) != generation_of(key.version):
            return None
        return found[1] if found[0].version >= key.version else None

    def knows_any(self, digests: Sequence[bytes]) -> bool:
        return not (self._new.keys().isdisjoint(digests) and self._old.keys().isdisjoint(digests))

    def _turn(self) -> None:
        if len(self._new) >= self._most:
            self._old, self._new = self._new, {}
