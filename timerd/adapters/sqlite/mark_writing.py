"""Marks are written: few of a kind in a partition as rows, many as a block. Only the first of its kind on its row is
kept, wherever it is; so the table is asked before a block is written, and the blocks before a row is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import compress, groupby

from timerd.adapters.sqlite.groups import place_of
from timerd.adapters.sqlite.inserts import insert_rows
from timerd.adapters.sqlite.mark_blocks import INSERT, MOST_KEYS, MarkBlock, block_row, pack_keys
from timerd.adapters.sqlite.mark_index import MarkIndex
from timerd.adapters.sqlite.marks import marked_so
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.ports import Mark, MarkKind

# From here on a block is cheaper than rows are; marks that are looked up one by one are cheaper as rows.
LEAST_IN_BLOCK = 16
_MARK = "INSERT OR IGNORE INTO marks"
Same = tuple[Partition, MarkKind, bytes, Sequence[RowKey]]


def write_marks(
    connection: sqlite3.Connection, marks: Sequence[Mark], next_name: Callable[[], int], index: MarkIndex
) -> int:
    """How many are new. `index` is that of the writer."""
    writing = _Writing(connection, next_name, index)
    for same in _alike(marks):
        writing.take(*same)
    writing.flush()
    return writing.fresh


class _Writing:
    """One call."""

    def __init__(self, connection: sqlite3.Connection, next_name: Callable[[], int], index: MarkIndex) -> None:
        self.fresh = 0
        self._connection = connection
        self._next_name = next_name
        self._index = index
        self._few: list[Mark] = []
        self._blocks: list[tuple[object, ...]] = []
        self._taken: set[Partition] = set()

    def take(self, partition: Partition, kind: MarkKind, value: bytes, keys: Sequence[RowKey]) -> None:
        """What stands before it in the call counts before it."""
        if partition in self._taken:
            self.flush()
        self._taken.add(partition)
        if len(keys) < LEAST_IN_BLOCK:
            self._few += [Mark(partition, key, kind, value) for key in keys]
            return
        each_once = list(dict.fromkeys(keys))
        for at in range(0, len(each_once), MOST_KEYS):
            self._take_block(partition, kind, value, each_once[at : at + MOST_KEYS])

    def flush(self) -> None:
        insert_rows(self._connection, INSERT, self._blocks)
        before = self._connection.total_changes
        few = [mark for mark in self._few if not self._in_block(mark)]
        rows = ((self._next_name(), *place_of(p), *key, kind.value, value) for p, key, kind, value in few)
        insert_rows(self._connection, _MARK, rows)
        self.fresh += self._connection.total_changes - before
        self._few.clear()
        self._blocks.clear()
        self._taken.clear()

    def _take_block(self, partition: Partition, kind: MarkKind, value: bytes, keys: Sequence[RowKey]) -> None:
        in_table = marked_so(self._connection, partition, kind, keys)
        keys = [key for key in keys if key not in in_table] if in_table else keys
        packed = pack_keys(keys)
        is_known = self._index.has(partition, kind, packed)
        if is_known.any():
            keys, packed = list(compress(keys, ~is_known)), packed[~is_known]
        if len(keys) < LEAST_IN_BLOCK:
            self._few += [Mark(partition, key, kind, value) for key in keys]
            return
        name, block = self._next_name(), MarkBlock(kind, value, packed)
        self._blocks.append(block_row(name, partition, block))
        self._index.add(partition, name, block)
        self.fresh += len(keys)

    def _in_block(self, mark: Mark) -> bool:
        if not self._index.has_blocks(mark.partition):
            return False
        return bool(self._index.has(mark.partition, mark.kind, pack_keys([mark.key]))[0])


def _alike(marks: Sequence[Mark]) -> Iterator[Same]:
    """Those that say the same of one partition, as far as they stand together."""
    for (partition, kind, value), group in groupby(marks, lambda mark: (mark.partition, mark.kind, mark.value)):
        yield partition, kind, value, [mark.key for mark in group]
