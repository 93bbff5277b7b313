"""Which rows have a mark in a block? Of each partition that is asked for, the hash of every such row with its block.

16 bytes a mark in memory, as many of them as KeyIndex keeps rows; what others need the room of is read again when it
is asked for. Marks that have a row of their own in the table are not here: the table's index finds those.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.adapters.sqlite.hash_runs import Hashes, Known, Places, Sought, hits, sought
from timerd.adapters.sqlite.mark_blocks import MarkBlock, read_block, read_blocks, sought_in
from timerd.model.columns import Columns
from timerd.model.errors import CorruptRow
from timerd.model.partition import Partition
from timerd.ports import Mark, MarkKind

MOST_MARKS = 4_000_000
# Most of them have no blocks, and yet are known.
MOST_PARTITIONS = 4_096
MOST_OPEN_BYTES = 8 << 20

Flags = npt.NDArray[np.bool_]


class _Opened(NamedTuple):
    """A block with the order of its keys by hash."""

    block: MarkBlock
    hashes: Hashes
    order: Places

    @property
    def size_bytes(self) -> int:
        return self.block.keys.nbytes + 16 * len(self.order) + 500


class _Met(NamedTuple):
    """Keys that are in a block: which of those asked for, and which of the block's."""

    name: int
    at: Places
    block: MarkBlock
    rows: Places


class MarkIndex:
    """For one thread and its connection. `is_writer`: nobody else writes blocks, so what was read once is not read
    again; who writes them tells of them. Names of corrupt blocks go to `on_corrupt`."""

    def __init__(
        self, connection: sqlite3.Connection, on_corrupt: Callable[[CorruptRow], None], *, is_writer: bool = False
    ) -> None:
        self._connection = connection
        self._on_corrupt = on_corrupt
        self._is_writer = is_writer
        self._partitions: OrderedDict[Partition, Known] = OrderedDict()
        self._marks = 0
        self._open: OrderedDict[int, _Opened] = OrderedDict()
        self._open_bytes = 0

    @property
    def size(self) -> int:
        """Marks that are kept in mind, of all partitions."""
        return self._marks

    def has_blocks(self, partition: Partition) -> bool:
        return bool(self._known(partition).runs)

    def marked(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> Flags:
        """For each (position_ms, digest) whether there is a mark of any kind."""
        out = np.zeros(len(keys), np.bool_)
        known = self._known(partition)
        if known.runs:
            for met in self._met(known, sought(keys)):
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

    def has(self, partition: Partition, kind: MarkKind, keys: Columns) -> Flags:
        """For each of KEY whether a block marks it so."""
        out = np.zeros(len(keys), np.bool_)
        known = self._known(partition)
        if known.runs:
            for _, at, block, rows in self._met(known, sought_in(keys)):
                if block.kind == kind:
                    out[at] |= block.keys["version"][rows] == keys["version"][at]
        return out

    def add(self, partition: Partition, name: int, block: MarkBlock) -> None:
        """The writer has written it."""
        known = self._known(partition)
        known.cursor = name
        known.add([block.hashes()], [name])
        self._marks += len(block.keys)
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

    def _known(self, partition: Partition) -> Known:
        known = self._partitions.get(partition)
        if known is None:
            known = self._partitions[partition] = Known()
        elif self._is_writer:
            self._partitions.move_to_end(partition)
            return known
        self._partitions.move_to_end(partition)
        self._read_on(partition, known)
        return known

    def _read_on(self, partition: Partition, known: Known) -> None:
        hashes: list[Hashes] = []
        names: list[int] = []
        for stored in read_blocks(self._connection, partition, known.cursor):
            known.cursor = stored.id
            try:
                hashes.append(stored.open().hashes())
                names.append(stored.id)
            except CorruptRow as error:
                self._on_corrupt(error)
        if names:
            known.add(hashes, names)
            self._marks += sum(map(len, hashes))
        self._make_room()

    def _make_room(self) -> None:
        """What was used last stays, however large it is."""
        while len(self._partitions) > 1 and (self._marks > MOST_MARKS or len(self._partitions) > MOST_PARTITIONS):
            self._marks -= len(self._partitions.popitem(last=False)[1])

    def _met(self, known: Known, wanted: Sought) -> Iterator[_Met]:
        for name, asked in known.candidates(wanted.hashes).items():
            opened = self._opened(name)
            if opened is not None:
                at, rows = _matches(opened, wanted, asked)
                yield _Met(name, at, opened.block, rows)

    def _opened(self, name: int) -> _Opened | None:
        found = self._open.get(name)
        if found is not None:
            self._open.move_to_end(name)
            return found
        block = self._read(name)
        if block is None:
            return None
        hashes = block.hashes()
        order = np.argsort(hashes, kind="stable")
        opened = self._open[name] = _Opened(block, hashes[order], order)
        self._open_bytes += opened.size_bytes
        while self._open_bytes > MOST_OPEN_BYTES:
            self._open_bytes -= self._open.popitem(last=False)[1].size_bytes
        return opened

    def _read(self, name: int) -> MarkBlock | None:
        stored = read_block(self._connection, name)
        try:
            return stored and stored.open()
        except CorruptRow as error:
            self._on_corrupt(error)
            return None


def _matches(opened: _Opened, wanted: Sought, asked: Places) -> tuple[Places, Places]:
    """Pairs of one of `asked` and its mark in the block; equal hashes of other keys are told apart here."""
    at, entries = hits(opened.hashes, wanted.hashes[asked])
    at, rows = asked[at], opened.order[entries]
    keys = opened.block.keys
    same = keys["position_ms"][rows] == wanted.positions_ms[at]
    same &= keys["digest"][rows] == wanted.digests[at]
    return at[same], rows[same]
