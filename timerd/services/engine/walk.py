"""The rows of one bucket in the order of a list: (position, digest), whatever partition each of them lies in."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.model.identity import RowKey, attempt_of
from timerd.model.partition import Partition
from timerd.model.rows import FLAG_CARRIED, RowGroup
from timerd.model.storage import Mark, MarkKind
from timerd.services.engine.verbs import Cursor
from timerd.services.holding.settled_reads import Endings
from timerd.services.transport.slices import SLICE_ITEMS


@dataclass(slots=True)
class Shelf:
    """Some rows of one partition, in order, and what is known of their ends. `read`: how many the store has looked
    at for them; `through`: the last of these, None where there are no more."""

    partition: Partition
    rows: RowGroup
    over: npt.NDArray[np.bool_]
    marks: dict[RowKey, Mark]
    endings: Endings
    # Of tasks that moved: the generation that lives.
    alive: dict[bytes, int]
    read: int
    through: Cursor | None
    # Those that have expired, of what nobody has in hand; None: none of them.
    expired: npt.NDArray[np.bool_] | None = None

    def is_untouched(self) -> bool:
        """No row has ended or expired, is marked, has moved or was carried on."""
        is_known = self.marks or self.alive or self.over.any() or self.expired is not None
        return not is_known and not (self.rows.columns["flags"] & FLAG_CARRIED).any()

    def was_acked_unsent(self, key: RowKey) -> bool:
        """Of a row that is acked: whether that was by an earlier attempt, whose late ack marked it or ended it."""
        mark = self.marks.get(key)
        is_marked = mark is not None and mark.kind is MarkKind.ACKED
        return is_marked or (attempt_of(key.version) > 1 and self.endings.says_unsent(self.partition, key))


class WalkedRow(NamedTuple):
    """One row in the order of the bucket."""

    key: RowKey
    number: int
    shelf: Shelf

    @property
    def place(self) -> Cursor:
        return Cursor(self.key.position_ms, self.key.digest)


_PLACE = attrgetter("place")


class Walk:
    """Of each partition a part is read, and what lies before the end of all parts is in order. `after`: of each
    partition that is not at its end, how far it was read."""

    def __init__(self, partitions: Sequence[Partition], after: Cursor) -> None:
        self.after = dict.fromkeys(partitions, after)
        self._is_single = len(self.after) == 1
        self._has_begun = False
        self._shelves: list[Shelf] = []
        self._ahead: list[WalkedRow] = []

    @property
    def to_read(self) -> list[Partition]:
        """Of which the next part is wanted: at first of all, then of the one that holds the others up."""
        return [min(self.after, key=self.after.__getitem__)] if self._has_begun else list(self.after)

    @property
    def through(self) -> Cursor:
        return min(self.after.values())

    def add(self, shelf: Shelf) -> None:
        if shelf.through is None:
            del self.after[shelf.partition]
        else:
            self.after[shelf.partition] = shelf.through
        if len(shelf.rows):
            self._shelves.append(shelf)
        self._has_begun = True

    def take_whole(self, is_wanted: Callable[[Shelf], bool]) -> int:
        """Takes rows without a look at each, where all that was read is in order and on wanted shelves: how many."""
        if self._ahead or (self.after and not self._is_single) or not all(map(is_wanted, self._shelves)):
            return 0
        count = sum(len(shelf.rows) for shelf in self._shelves)
        self._shelves = []
        return count

    def take(self) -> Iterable[WalkedRow]:
        """The rows that nothing can come before any more."""
        fresh, self._shelves = chain.from_iterable(map(_looked, self._shelves)), []
        if self._is_single:
            return fresh
        self._ahead += fresh
        self._ahead.sort(key=_PLACE)
        count = bisect_right(self._ahead, self.through, key=_PLACE) if self.after else len(self._ahead)
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        return taken


def _looked(shelf: Shelf) -> Iterator[WalkedRow]:
    """Made as they are asked for."""
    for begin in range(0, len(shelf.rows), SLICE_ITEMS):
        keys = shelf.rows.select(slice(begin, begin + SLICE_ITEMS)).keys()
        yield from (WalkedRow(key, number, shelf) for number, key in enumerate(keys, begin))
