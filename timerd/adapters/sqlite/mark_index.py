"""Which rows have a mark in a block? Of each partition that is asked for, the hash of every such row with its block.

16 bytes a mark in memory, as many of them as KeyIndex keeps rows; what others need the room of is read again when it
is asked for. Marks that have a row of their own in the table are not here: the table's index finds those.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from timerd.adapters.sqlite.hash_runs import KnownHashes, Mask, RowNumbers, Sought, sought
from timerd.adapters.sqlite.mark_blocks import MarkBlock, StoredBlock, hashed, read_block, read_blocks_of
from timerd.model.errors import CorruptRow
from timerd.model.partition import Partition
from timerd.ports import Mark

MOST_MARKS = 4_000_000
# Most of them have no blocks, and yet are known.
MOST_PARTITIONS = 4_096
MOST_OPEN_BYTES = 8 << 20
# Only hashes are kept of them; a partition may have thousands.
_MOST_AT_ONCE = 64


class _Met(NamedTuple):
    """Keys that are in a block: which of those asked for, and which of the block's."""

    name: int
    at: RowNumbers
    block: MarkBlock
    rows: RowNumbers


class MarkIndex:
    """For one thread and its connection. `is_writer`: nobody else writes blocks, so what was read once is not read
    again; who writes them tells of them. Names of corrupt blocks go to `on_corrupt`."""

    def __init__(
        self, connection: sqlite3.Connection, on_corrupt: Callable[[CorruptRow], None], *, is_writer: bool = False
    ) -> None:
        self._connection = connection
        self._on_corrupt = on_corrupt
        self._is_writer = is_writer
        self._partitions: OrderedDict[Partition, KnownHashes] = OrderedDict()
        self._marks = 0
        self._open: OrderedDict[int, MarkBlock] = OrderedDict()
        self._open_bytes = 0

    @property
    def size(self) -> int:
        """Marks that are kept in mind, of all partitions."""
        return self._marks

    def has_blocks(self, partition: Partition) -> bool:
        return bool(self._known(partition).runs)

    def read_on(self, newest: Iterable[tuple[Partition, int]]) -> None:
        """`newest`: the names of the newest blocks of partitions. What is new is read, of all of them at once."""
        behind = [(p, self._cursor(p)) for p, name in newest if name > self._cursor(p)]
        if behind:
            self._read_on(behind)

    def marked(self, partition: Partition, wanted: Sought, newest: int) -> Mask:
        """For each whether there is a mark of any kind. `newest`: as for `read_on`; what it has read may have had to
        make room since."""
        out = np.zeros(len(wanted.hashes), np.bool_)
        if newest > self._cursor(partition):
            self._read_on([(partition, self._cursor(partition))])
        known = self._partitions.get(partition)
        if known is not None:
            for met in self._met(known, wanted):
                out[met.at] = True
        return out

    def marks_on(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> list[list[tuple[int, Mark]]]:
        """For each (position_ms, digest), with the names of the blocks."""
        out: list[list[tuple[int, Mark]]] = [[] for _ in keys]
        known = self._known(partition)
        for name, at, block, rows in self._met(known, sought(keys)) if known.runs else ():
            for n, mark in zip(at.tolist(), block.only(rows).marks(partition), strict=True):
                out[n].append((name, mark))
        return out

    def has(self, partition: Partition, asked: MarkBlock) -> Mask:
        """For each of its keys whether a block says the same kind of it."""
        out = np.zeros(len(asked.keys), np.bool_)
        known = self._known(partition)
        if known.runs:
            for _, at, block, rows in self._met(known, asked.sought()):
                if block.kind == asked.kind:
                    # A row may be met in several versions.
                    out[at[block.keys["version"][rows] == asked.keys["version"][at]]] = True
        return out

    def add(self, partition: Partition, name: int, block: MarkBlock) -> None:
        """The writer has written it."""
        self._known(partition)
        self._add(partition, name, block)
        self._make_room()

    def forget(self, partition: Partition | None = None) -> None:
        """Of a partition, or all. Names may be given again after that."""
        self._open.clear()
        self._open_bytes = 0
        if partition is None:
            self._partitions.clear()
            self._marks = 0
        elif partition in self._partitions:
            self._marks -= len(self._partitions.pop(partition))

    def _cursor(self, partition: Partition) -> int:
        known = self._partitions.get(partition)
        return known.cursor if known is not None else 0

    def _known(self, partition: Partition) -> KnownHashes:
        """Used last from now on, so that it stays while others make room."""
        is_read = self._is_writer and partition in self._partitions
        known = self._partitions.setdefault(partition, KnownHashes())
        self._partitions.move_to_end(partition)
        if not is_read:
            self._read_on([(partition, known.cursor)])
        return known

    def _read_on(self, cursors: Sequence[tuple[Partition, int]]) -> None:
        reading = read_blocks_of(self._connection, cursors)
        while part := list(islice(reading, _MOST_AT_ONCE)):
            self._take_in(part)
        self._make_room()

    def _take_in(self, part: Iterable[tuple[Partition, StoredBlock]]) -> None:
        found: list[tuple[Partition, int, MarkBlock]] = []
        for partition, stored in part:
            try:
                found.append((partition, stored.id, stored.open()))
            except CorruptRow as error:
                self._on_corrupt(error)
        blocks = hashed([block for _, _, block in found])
        for (partition, name, _), block in zip(found, blocks, strict=True):
            self._add(partition, name, block)

    def _add(self, partition: Partition, name: int, block: MarkBlock) -> None:
        known = self._partitions.setdefault(partition, KnownHashes())
        self._partitions.move_to_end(partition)
        known.cursor = name
        known.add([block.sought().hashes], [name])
        self._marks += len(block.keys)

    def _make_room(self) -> None:
        """What was used last stays, however large it is."""
        while len(self._partitions) > 1 and (self._marks > MOST_MARKS or len(self._partitions) > MOST_PARTITIONS):
            self._marks -= len(self._partitions.popitem(last=False)[1])

    def _met(self, known: KnownHashes, wanted: Sought) -> Iterator[_Met]:
        for name, at, rows in known.candidates(wanted.hashes):
            block = self._opened(name)
            if block is not None:
                keys = block.keys[rows]
                # Equal hashes of other keys are told apart here.
                same = (keys["position_ms"] == wanted.positions_ms[at]) & (keys["digest"] == wanted.digests[at])
                yield _Met(name, at[same], block, rows[same])

    def _opened(self, name: int) -> MarkBlock | None:
        found = self._open.get(name)
        if found is not None:
            self._open.move_to_end(name)
            return found
        block = self._read(name)
        if block is None:
            return None
        self._open[name] = block
        self._open_bytes += _size_bytes(block)
        while self._open_bytes > MOST_OPEN_BYTES:
            self._open_bytes -= _size_bytes(self._open.popitem(last=False)[1])
        return block

    def _read(self, name: int) -> MarkBlock | None:
        stored = read_block(self._connection, name)
        try:
            return stored and stored.open()
        except CorruptRow as error:
            self._on_corrupt(error)
            return None


def _size_bytes(block: MarkBlock) -> int:
    return int(block.keys.nbytes) + 500
