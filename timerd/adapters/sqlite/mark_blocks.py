"""Many marks of one partition that were written by one call are one row: what they say once, then the keys, packed.

A mark in the table `marks` costs a row and two indexes, one of which touches a page of its own for almost every mark.
Here a thousand marks append a few pages. A block holds only marks that are the first of their kind on their row, as the
table does; whether they are is looked up in memory (mark_index.py).
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from timerd.adapters.sqlite.groups import checksum, place_of
from timerd.adapters.sqlite.hash_runs import DIGEST, Hashes, Places, Sought, mix
from timerd.model.columns import Columns
from timerd.model.errors import CorruptMarks
from timerd.model.identity import RowKey, row_keys
from timerd.model.partition import Partition
from timerd.ports import Mark, MarkKind

INSERT = "INSERT INTO mark_blocks"
KEY = np.dtype([("position_ms", "<i8"), ("digest", "V16"), ("version", "<u4")])
# One statement writes few of them, and who reads one for a single mark reads all of it.
MOST_KEYS = 4_096
_KEY = struct.Struct("<q16sI")
_HEAD = struct.Struct("<BI")
_SINCE = "SELECT id, crc, packed FROM mark_blocks WHERE scope = ? AND bucket = ? AND shard = ? AND id > ? ORDER BY id"
_ONE = "SELECT id, crc, packed FROM mark_blocks WHERE id = ?"


class MarkBlock(NamedTuple):
    """`keys` (n,) of KEY, each once."""

    kind: MarkKind
    value: bytes
    keys: Columns

    def hashes(self) -> Hashes:
        return sought_in(self.keys).hashes

    def only(self, rows: Places) -> MarkBlock:
        return self._replace(keys=self.keys.take(rows))

    def between(self, lo_ms: int, hi_ms: int) -> MarkBlock:
        positions_ms = self.keys["position_ms"]
        inside = (positions_ms >= lo_ms) & (positions_ms < hi_ms)
        return self if inside.all() else self._replace(keys=self.keys[inside])

    def marks(self, partition: Partition) -> list[Mark]:
        return [Mark(partition, key, self.kind, self.value) for key in self.row_keys()]

    def row_keys(self) -> Iterator[RowKey]:
        keys = self.keys
        return row_keys(keys["position_ms"].tolist(), keys["digest"].tolist(), keys["version"].tolist())

    def pack(self) -> bytes:
        return b"".join((_HEAD.pack(self.kind, len(self.value)), self.value, self.keys.tobytes()))


class StoredBlock(NamedTuple):
    """A row of the table."""

    id: int
    crc: int
    packed: bytes

    def open(self) -> MarkBlock:
        """Raises CorruptMarks where the checksum does not fit."""
        if not isinstance(self.packed, bytes) or checksum(self.packed) != self.crc:
            raise CorruptMarks(f"Block {self.id} of marks does not match its checksum.")
        kind, size = _HEAD.unpack_from(self.packed)
        begin = _HEAD.size + size
        keys = np.frombuffer(self.packed, KEY, offset=begin)
        return MarkBlock(MarkKind(kind), self.packed[_HEAD.size : begin], keys)


def pack_keys(keys: Sequence[RowKey]) -> Columns:
    """(n,) of KEY."""
    pack = _KEY.pack
    return np.frombuffer(b"".join([pack(*key) for key in keys]), KEY)


def sought_in(keys: Columns) -> Sought:
    """Of KEY."""
    positions_ms, digests = keys["position_ms"].copy(), keys["digest"].copy()
    return Sought(positions_ms, digests, mix(positions_ms, digests.view(DIGEST)))


def block_row(name: int, partition: Partition, block: MarkBlock) -> tuple[object, ...]:
    """A row for INSERT."""
    packed = block.pack()
    return (name, *place_of(partition), checksum(packed), packed)


def read_blocks(connection: sqlite3.Connection, partition: Partition, cursor: int) -> Iterator[StoredBlock]:
    """In the order of their names, those after `cursor`."""
    return map(StoredBlock._make, connection.execute(_SINCE, (*place_of(partition), cursor)))


def read_block(connection: sqlite3.Connection, name: int) -> StoredBlock | None:
    found = connection.execute(_ONE, (name,)).fetchone()
    return found and StoredBlock._make(found)
