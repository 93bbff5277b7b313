"""Many marks of one partition that were written by one call are one row: what they say once, then the keys, packed.

A mark in the table `marks` costs a row and two indexes, one of which touches a page of its own for almost every mark.
Here a thousand marks append a few pages. A block holds only marks that are the first of their kind on their row, as the
table does; whether they are is looked up in memory (mark_index.py).
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np

from timerd.adapters.sqlite.groups import checksum, place_of
from timerd.adapters.sqlite.hash_runs import Mask, RowNumbers, RunHashes, Sought, sought_in
from timerd.model.columns import Columns
from timerd.model.errors import CorruptMarks
from timerd.model.identity import RowKey, row_keys
from timerd.model.partition import Partition
from timerd.model.row_keys import RowKeys
from timerd.ports import Mark, MarkKind

INSERT = "INSERT INTO mark_blocks"
KEY = np.dtype([("position_ms", "<i8"), ("digest", "V16"), ("version", "<u4")])
# One statement writes few of them, and who reads one for a single mark reads all of it.
MOST_KEYS = 4_096
_KEY = struct.Struct("<q16sI")
_HEAD = struct.Struct("<BI")
_SINCE = "SELECT id, crc, packed FROM mark_blocks WHERE scope = ? AND bucket = ? AND shard = ? AND id > ? ORDER BY id"
# The partitions that are asked for come first, each a look into the index.
_SINCE_EACH = """WITH asked (number, of_scope, of_bucket, of_shard, after) AS (VALUES {})
    SELECT number, id, crc, packed FROM asked CROSS JOIN mark_blocks
    WHERE scope = of_scope AND bucket = of_bucket AND shard = of_shard AND id > after ORDER BY number, id"""
_MOST_ASKED = 128
_ONE = "SELECT id, crc, packed FROM mark_blocks WHERE id = ?"


class MarkBlock(NamedTuple):
    """`keys` (n,) of KEY, each once. `hashes`: of these, where they were asked for."""

    kind: MarkKind
    value: bytes
    keys: Columns
    hashes: RunHashes | None = None

    def sought(self) -> Sought:
        positions_ms, digests = self.keys["position_ms"].copy(), self.keys["digest"].copy()
        return sought_in(positions_ms, digests) if self.hashes is None else Sought(positions_ms, digests, self.hashes)

    def only(self, rows: RowNumbers | Mask | slice) -> MarkBlock:
        """By their places, or by a flag for each."""
        hashes = None if self.hashes is None else self.hashes[rows]
        return self._replace(keys=self.keys[rows], hashes=hashes)

    def between(self, lo_ms: int, hi_ms: int) -> MarkBlock:
        positions_ms = self.keys["position_ms"]
        inside = (positions_ms >= lo_ms) & (positions_ms < hi_ms)
        return self if inside.all() else self.only(inside)

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
    if isinstance(keys, RowKeys):
        packed = np.zeros(len(keys), KEY)
        packed["position_ms"], packed["digest"] = keys.positions_ms, keys.digests
        return packed
    pack = _KEY.pack
    return np.frombuffer(b"".join([pack(*key) for key in keys]), KEY)


def hashed(blocks: Sequence[MarkBlock]) -> list[MarkBlock]:
    """With the hashes of their keys, made for all of them at once."""
    if not blocks:
        return []
    every = MarkBlock(MarkKind.CANCELLED, b"", np.frombuffer(b"".join([each.keys.tobytes() for each in blocks]), KEY))
    hashes, ends = every.sought().hashes, list(accumulate(len(each.keys) for each in blocks))
    return [each._replace(hashes=hashes[end - len(each.keys) : end]) for each, end in zip(blocks, ends, strict=True)]


def block_row(name: int, partition: Partition, block: MarkBlock) -> tuple[object, ...]:
    """A row for INSERT."""
    packed = block.pack()
    return (name, *place_of(partition), checksum(packed), packed)


def read_blocks(connection: sqlite3.Connection, partition: Partition, cursor: int) -> Iterator[StoredBlock]:
    """In the order of their names, those after `cursor`."""
    return map(StoredBlock._make, connection.execute(_SINCE, (*place_of(partition), cursor)))


def read_blocks_of(
    connection: sqlite3.Connection, asked: Sequence[tuple[Partition, int]]
) -> Iterator[tuple[Partition, StoredBlock]]:
    """As `read_blocks` for each partition and cursor, in few statements."""
    for at in range(0, len(asked), _MOST_ASKED):
        part = asked[at : at + _MOST_ASKED]
        values = [(number, *place_of(partition), cursor) for number, (partition, cursor) in enumerate(part)]
        query = _SINCE_EACH.format(",".join(["(?,?,?,?,?)"] * len(part)))
        for number, *stored in connection.execute(query, [*chain.from_iterable(values)]):
            yield part[number][0], StoredBlock._make(stored)


def read_block(connection: sqlite3.Connection, name: int) -> StoredBlock | None:
    found = connection.execute(_ONE, (name,)).fetchone()
    return found and StoredBlock._make(found)
