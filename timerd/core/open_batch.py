"""Rows that are open: sent, and not over. They stay in the arrays that they came in, none is an object of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from timerd.model.identity import RowKey
from timerd.model.rows import RowGroup


class Closed(NamedTuple):
    """A row that was open."""

    rows: RowGroup
    row: int
    key: RowKey


@dataclass(slots=True)
class OpenBatch:
    """Rows that were sent together; the batch holds `verified` back while one of them is open. Their places and
    versions stand by themselves, for every ack asks for them and a record is read field by field."""

    rows: RowGroup
    positions: list[int]
    versions: list[int]
    left: int
    oldest_ms: int
    latest_ms: int
    sent_ms: int

    def is_at(self, row: int, position_ms: int, version: int) -> bool:
        return self.positions[row] == position_ms and self.versions[row] == version

    def open_of(self, open_rows: Mapping[bytes, tuple[OpenBatch, int]]) -> Iterator[RowKey]:
        """Its rows that are open still: the task may be open by a later row of the same attempt."""
        for n, key in enumerate(self.rows.keys()):
            batch, row = open_rows.get(key.digest, (None, -1))
            if batch is self and row == n:
                yield key
