"""Marks on rows and settle records: appended once, the first one stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence, Set
from itertools import chain

from timerd.adapters.sqlite.groups import checksum, place_of
from timerd.adapters.sqlite.inserts import insert_rows
from timerd.model.errors import CorruptRow
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.settle import SettleRecord
from timerd.ports import Mark, MarkKind

_MARK = "INSERT OR IGNORE INTO marks"
_MOST_ASKED = 256
_OF_PLACE = "FROM marks WHERE scope = ? AND bucket = ? AND shard = ?"
_FIELDS = "SELECT id, position_ms, digest, version, kind, value"
# Without the plus, SQLite takes the index that gives this order for nothing, and reads all marks of the partition.
OF_ROW = f"{_FIELDS} {_OF_PLACE} AND position_ms = ? AND digest = ? ORDER BY +id"
# The rows that are asked for come first, each a look into the index.
_MARKED = """WITH asked (at_ms, name) AS (VALUES {}) SELECT at_ms, name FROM asked CROSS JOIN marks
    WHERE scope = ? AND bucket = ? AND shard = ? AND position_ms = at_ms AND digest = name"""
_SETTLE = "INSERT OR IGNORE INTO settled VALUES (NULL,?,?,?,?,?,?,?)"
_SETTLED_NAMES = """SELECT token, sequence FROM settled WHERE scope = ? AND bucket = ? AND shard = ?
    ORDER BY token, sequence"""
_SETTLED = """SELECT crc, packed FROM settled WHERE scope = ? AND bucket = ? AND shard = ? AND token = ?
    AND sequence = ?"""


def write_marks(connection: sqlite3.Connection, marks: Iterable[Mark], next_name: Callable[[], int]) -> int:
    """How many are new."""
    before = connection.total_changes
    rows = ((next_name(), *place_of(partition), *key, kind.value, value) for partition, key, kind, value in marks)
    insert_rows(connection, _MARK, rows)
    return connection.total_changes - before


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
    some = marked(connection, partition, keys)
    return [
        [_mark(partition, row) for row in connection.execute(OF_ROW, (*place, *key))] if key in some else []
        for key in keys
    ]


def marked(
    connection: sqlite3.Connection, partition: Partition, keys: Sequence[tuple[int, bytes]]
) -> Set[tuple[int, bytes]]:
    """Those with a mark, in few statements: at each the thread gives up the interpreter and waits for it."""
    place = place_of(partition)
    if connection.execute(f"SELECT 1 {_OF_PLACE} LIMIT 1", place).fetchone() is None:
        return frozenset()
    out: set[tuple[int, bytes]] = set()
    for at in range(0, len(keys), _MOST_ASKED):
        part = keys[at : at + _MOST_ASKED]
        out.update(connection.execute(marked_query(len(part)), (*chain.from_iterable(part), *place)))
    return out


def marked_query(keys: int) -> str:
    return _MARKED.format(",".join(["(?,?)"] * keys))


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
