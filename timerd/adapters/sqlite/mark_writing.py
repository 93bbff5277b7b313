"""Marks are written: few of a kind in a partition as rows, many as a block. Only the first of its kind on its row is
kept, wherever it is; so the table is asked before a block is written, and the blocks before a row is."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from timerd.adapters.sqlite.groups import place_of
from timerd.adapters.sqlite.inserts import insert_rows
from timerd.adapters.sqlite.mark_blocks import INSERT, MOST_KEYS, MarkBlock, block_row, hashed, pack_keys
from timerd.adapters.sqlite.mark_index import MarkIndex
from timerd.adapters.sqlite.marks import marked_so, with_marks
from timerd.model.columns import Columns
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.row_keys import RowKeys
from timerd.ports import Mark, MarkKind, SameMarks

# From here on a block is cheaper than rows are; marks that are looked up one by one are cheaper as rows.
LEAST_IN_BLOCK = 16
_MARK = "INSERT OR IGNORE INTO marks"
Few = list[Mark]
Same = tuple[Partition, MarkKind, bytes, Sequence[RowKey]]


def write_marks(
    connection: sqlite3.Connection, marks: Sequence[Mark], next_name: Callable[[], int], index: MarkIndex
) -> int:
    """How many are new. `index` is that of the writer."""
    if len(marks) < LEAST_IN_BLOCK:
        return _write_few(connection, marks, next_name, index)
    alike = list(_alike(marks))
    many = {partition for partition, *_, keys in alike if len(keys) >= LEAST_IN_BLOCK}
    writing = _Writing(connection, next_name, index, with_marks(connection, many))
    for partition, block in zip((each[0] for each in alike), _hashed(alike), strict=True):
        writing.take(partition, block)
    writing.flush()
    return writing.fresh


class _Writing:
    """One call. `in_table`: the partitions with marks that are rows, as far as blocks are to be written there."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        next_name: Callable[[], int],
        index: MarkIndex,
        in_table: set[Partition],
    ) -> None:
        self.fresh = 0
        self._connection = connection
        self._next_name = next_name
        self._index = index
        self._in_table = in_table
        self._few: list[Mark] = []
        self._blocks: list[tuple[object, ...]] = []
        self._taken: set[Partition] = set()

    def take(self, partition: Partition, said: MarkBlock | Few) -> None:
        """What stands before it in the call counts before it."""
        if partition in self._taken:
            self.flush()
        self._taken.add(partition)
        if not isinstance(said, MarkBlock):
            self._take_few(said)
            return
        for at in range(0, len(said.keys), MOST_KEYS):
            self._take_many(partition, said.only(slice(at, at + MOST_KEYS)))

    def flush(self) -> None:
        insert_rows(self._connection, INSERT, self._blocks)
        self.fresh += _write_few(self._connection, self._few, self._next_name, self._index)
        self._few.clear()
        self._blocks.clear()
        self._taken.clear()

    def _take_few(self, marks: Sequence[Mark]) -> None:
        self._few += marks
        self._in_table.update(mark.partition for mark in marks)

    def _take_many(self, partition: Partition, block: MarkBlock) -> None:
        is_known = self._index.has(partition, block)
        if partition in self._in_table and (met := marked_so(self._connection, partition, block)):
            is_known |= [key in met for key in block.row_keys()]
        fresh = block.only(~is_known) if is_known.any() else block
        if len(fresh.keys) < LEAST_IN_BLOCK:
            self._take_few(fresh.marks(partition))
            return
        name = self._next_name()
        self._blocks.append(block_row(name, partition, fresh))
        self._index.add(partition, name, fresh)
        self.fresh += len(fresh.keys)


def _write_few(
    connection: sqlite3.Connection, marks: Iterable[Mark], next_name: Callable[[], int], index: MarkIndex
) -> int:
    before = connection.total_changes
    few = [mark for mark in marks if not (index.has_blocks(mark.partition) and _in_block(index, mark))]
    rows = ((next_name(), *place_of(partition), *key, kind.value, value) for partition, key, kind, value in few)
    insert_rows(connection, _MARK, rows)
    return connection.total_changes - before


def _in_block(index: MarkIndex, mark: Mark) -> bool:
    return bool(index.has(mark.partition, MarkBlock(mark.kind, mark.value, pack_keys([mark.key])))[0])


def _hashed(alike: Sequence[Same]) -> Iterator[MarkBlock | Few]:
    """For each a block, or the marks where they are few."""
    many = [same for same in alike if len(same[3]) >= LEAST_IN_BLOCK]
    blocks = iter(hashed([MarkBlock(kind, value, _packed_once(keys)) for _, kind, value, keys in many]))
    for partition, kind, value, keys in alike:
        is_many = len(keys) >= LEAST_IN_BLOCK
        yield next(blocks) if is_many else [Mark(partition, key, kind, value) for key in keys]


def _packed_once(keys: Sequence[RowKey]) -> Columns:
    return pack_keys(keys if isinstance(keys, RowKeys) else list(dict.fromkeys(keys)))


def _alike(marks: Sequence[Mark]) -> Iterator[Same]:
    """Those that say the same of one partition, as far as they stand together."""
    if isinstance(marks, SameMarks):
        yield from ((partition, marks.kind, marks.value, keys) for partition, keys in marks.groups)
        return
    for (partition, kind, value), group in groupby(marks, lambda mark: (mark.partition, mark.kind, mark.value)):
        yield partition, kind, value, [mark.key for mark in group]
