"""Marks on rows and settle records: appended once, the first one stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence, Set

from timerd.adapters.sqlite.groups import checksum, place_of
from timerd.model.errors import CorruptRow
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.settle import SettleRecord
from timerd.ports import Mark, MarkKind

_MARK = "INSERT OR IGNORE INTO marks VALUES (?,?,?,?,?,?,?,?,?)"
_OF_PLACE = "FROM marks WHERE scope = ? AND bucket = ? AND shard = ?"
_FIELDS = "SELECT id, position_ms, digest, version, kind, value"
# Without the plus, SQLite takes the index that gives this order for nothing, and reads all marks of the partition.
OF_ROW = f"{_FIELDS} {_OF_PLACE} AND position_ms = ? AND digest = ? ORDER BY +id"
_SETTLE = "INSERT OR IGNORE INTO settled VALUES (NULL,?,?,?,?,?,?,?)"
_SETTLED_NAMES = """SELECT token, sequence FROM settled WHERE scope = ? AND bucket = ? AND shard = ?
    ORDER BY token, sequence"""
_SETTLED = """SELECT crc, packed FROM settled WHERE scope = ? AND bucket = ? AND shard = ? AND token = ?
    AND sequence = ?"""


def write_marks(connection: sqlite3.Connection, marks: Iterable[Mark], next_name: Callable[[], int]) -> None:
    rows = (
        (next_name(), *place_of(m.partition), m.key.position_ms, m.key.digest, m.key.version, int(m.kind), m.value)
        for m in marks
    )
    connection.executemany(_MARK, rows)


def marks_since(
    connection: sqlite3.Connection, partition: Partition, lo_ms: int, hi_ms: int, cursor: int
) -> tuple[list[Mark], int]:
    """Those of the range, and the name of the last one of the partition."""
    query = f"{_FIELDS} {_OF_PLACE} AND id > ? ORDER BY id"
    rows = connection.execute(query, (*place_of(partition), cursor)).fetchall()
    found = [_mark(partition, row) for row in rows if lo_ms <= row[1] < hi_ms]
    return found, rows[-1][0] if rows else cursor


def marks_on(
    connection: sqlite3.Connection, partition: Partition, keys: Sequence[tuple[int, bytes]]
) -> list[list[Mark]]:
    """For each (position_ms, digest)."""
    place = place_of(partition)
    if connection.execute(f"SELECT 1 {_OF_PLACE} LIMIT 1", place).fetchone() is None:
        return [[] for _ in keys]
    return [[_mark(partition, row) for row in connection.execute(OF_ROW, (*place, *key))] for key in keys]


def write_settled(connection: sqlite3.Connection, records: Iterable[SettleRecord]) -> None:
    rows = []
    for record in records:
        packed = record.pack()
        rows.append((*place_of(record.partition), record.token, record.sequence, checksum(packed), packed))
    connection.executemany(_SETTLE, rows)


def read_settled(
    connection: sqlite3.Connection,
    partition: Partition,
    known: Set[tuple[int, int]],
    on_corrupt: Callable[[CorruptRow], None],
) -> list[SettleRecord]:
    """Only names are read of records that are known."""
    out = []
    place = place_of(partition)
    for token, sequence in connection.execute(_SETTLED_NAMES, place).fetchall():
        if (token, sequence) in known:
            continue
        crc, packed = connection.execute(_SETTLED, (*place, token, sequence)).fetchone()
        if checksum(packed) == crc:
            out.append(SettleRecord.unpack(partition, token, sequence, packed))
        else:
            on_corrupt(CorruptRow(f"The settle record {token}/{sequence} of {partition} does not match its checksum."))
    return out


def _mark(partition: Partition, row: tuple[int, int, bytes, int, int, bytes]) -> Mark:
    _, position_ms, digest, version, kind, value = row
    return Mark(partition, RowKey(position_ms, digest, version), MarkKind(kind), value)
