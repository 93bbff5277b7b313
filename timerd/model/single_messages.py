"""Messages of one row each, as columns: those of single calls that came together. A store that knows the form takes all
of them in one pass; to any other they are a sequence of Appends."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np

from timerd.model.columns import pieces
from timerd.model.first_reply import first_reply_of_one
from timerd.model.identity import PREFIX_BYTES
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.storage import Append


class SingleMessages(Sequence[Append]):
    """`rows` (n,): row n is the one of message n, and is due at its position. No two have the same prefix. `places`
    (n,): where each goes."""

    def __init__(self, rows: RowGroup, places: Sequence[Partition]) -> None:
        self.rows = rows
        self.places = places

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[Append]:
        return map(self._one, range(len(self)))

    @overload
    def __getitem__(self, at: int) -> Append: ...
    @overload
    def __getitem__(self, at: slice) -> list[Append]: ...
    def __getitem__(self, at: int | slice) -> Append | list[Append]:
        if isinstance(at, slice):
            return [self._one(n) for n in range(*at.indices(len(self)))]
        return self._one(range(len(self))[at])

    @cached_property
    def prefixes(self) -> list[bytes]:
        """By which each is known when it comes again."""
        return pieces(self.rows.prefixes.take(self.rows.columns["prefix"]).tobytes(), PREFIX_BYTES)

    @cached_property
    def replies(self) -> list[bytes]:
        """What to answer to a repeat of each."""
        return [first_reply_of_one(at_ms) for at_ms in self.rows.columns["position_ms"].tolist()]

    @cached_property
    def late(self) -> set[bytes]:
        """The prefixes of those that come after their instants."""
        return {self.prefixes[row] for row in np.flatnonzero(self.rows.columns["flags"]).tolist()}

    def parts(self, left_out: Container[int] = ()) -> list[tuple[Partition, RowGroup]]:
        """The rows of each partition, but for those of some messages."""
        found = rows_of_each(self.places, left_out)
        return [(place, self.rows.select(np.array(which, np.intp))) for place, which in found.items()]

    def _one(self, n: int) -> Append:
        return Append(((self.places[n], self.rows.one(n)),), self.prefixes[n], self.replies[n])


def rows_of_each(places: Sequence[Partition], left_out: Container[int] = ()) -> dict[Partition, list[int]]:
    """Partition -> which rows go there, in their order."""
    found: dict[Partition, list[int]] = {}
    for n, place in enumerate(places):
        if n not in left_out:
            found.setdefault(place, []).append(n)
    return found
