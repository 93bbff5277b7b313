"""Marks on rows and settle records: appended once, the first one stays.

A mark is a row of its own, or in a block with others (mark_blocks.py). Both have names of one sequence, so that a scan
goes on behind a cursor, and the marks of a row come in the order in which they were written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from itertools import chain, compress, islice
from operator import itemgetter

from timerd.adapters.sqlite.groups import checksum, place_of
from timerd.adapters.sqlite.inserts import insert_rows
from timerd.adapters.sqlite.mark_blocks import MarkBlock, read_blocks
from timerd.adapters.sqlite.mark_index import MarkIndex
from timerd.model.errors import CorruptRow
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.settle import SettleRecord
from timerd.ports import Mark, MarkKind

_MOST_ASKED = 256
_OF_PLACE = "FROM marks WHERE scope = ? AND bucket = ? AND shard = ?"
_FIELDS = "SELECT id, position_ms, digest, version, kind, value"
# Without the plus, SQLite takes the index that gives this order for nothing, and reads all marks of the partition.
OF_ROW = f"{_FIELDS} {_OF_PLACE} AND position_ms = ? AND digest = ? ORDER BY +id"
SOME = f"SELECT position_ms, digest {_OF_PLACE} LIMIT ?"
# The rows that are asked for come first, each a look into the index.
_MARKED = """WITH asked (at_ms, name) AS (VALUES {}) SELECT at_ms, name FROM asked CROSS JOIN marks
    WHERE scope = ? AND bucket = ? AND shard = ? AND position_ms = at_ms AND digest = name"""
_SETTLED_NAMES = """SELECT token, sequence FROM settled WHERE scope = ? AND bucket = ? AND shard = ?
    ORDER BY token, sequence"""
_SETTLED = """SELECT crc, packed FROM settled WHERE scope = ? AND bucket = ? AND shard = ? AND token = ?
    AND sequence = ?"""
_WITH_MARKS = """WITH asked (of_scope, of_bucket, of_shard) AS (VALUES {}) SELECT EXISTS (
    SELECT 1 FROM marks WHERE scope = of_scope AND bucket = of_bucket AND shard = of_shard) FROM asked"""
NONE: Set[tuple[int, bytes]] = frozenset()


def marks_since(
    connection: sqlite3.Connection,
    partition: Partition,
    lo_ms: int,
    hi_ms: int,
    cursor: int,
    on_corrupt: Callable[[CorruptRow], None],
) -> tuple[list[Mark], int]:
    """Those of the range, and the name of the last one of the partition."""
    query = f"{_FIELDS} {_OF_PLACE} AND id > ? ORDER BY id"
    rows = connection.execute(query, (*place_of(partition), cursor)).fetchall()
    named = [(row[0], [_mark(partition, row)]) for row in rows if lo_ms <= row[1] < hi_ms]
    last = rows[-1][0] if rows else cursor
    for stored in read_blocks(connection, partition, cursor):
        last = max(last, stored.id)
        try:
            named.append((stored.id, stored.open().between(lo_ms, hi_ms).marks(partition)))
        except CorruptRow as error:
            on_corrupt(error)
    named.sort(key=itemgetter(0))
    return [mark for _, marks in named for mark in marks], last


def marks_on(
    connection: sqlite3.Connection, partition: Partition, keys: Sequence[tuple[int, bytes]], index: MarkIndex
) -> list[list[Mark]]:
    """For each (position_ms, digest)."""
    place = place_of(partition)
    in_table, in_blocks = marked(connection, partition, keys), index.marks_on(partition, keys)
    out: list[list[Mark]] = []
    for key, named in zip(keys, in_blocks, strict=True):
        rows = connection.execute(OF_ROW, (*place, *key)).fetchall() if key in in_table else []
        every = sorted([*((row[0], _mark(partition, row)) for row in rows), *named], key=itemgetter(0))
        out.append([mark for _, mark in every])
    return out


def marked(
    connection: sqlite3.Connection, partition: Partition, keys: Sequence[tuple[int, bytes]]
) -> Set[tuple[int, bytes]]:
    """Those with a mark of its own row, in few statements: at each the thread gives up the interpreter and waits for
    it. Where the partition has few such marks they are read instead of looked for."""
    place = place_of(partition)
    some = connection.execute(SOME, (*place, len(keys) + 1)).fetchall()
    if len(some) <= len(keys):
        return frozenset(some).intersection(keys) if some else NONE
    out: set[tuple[int, bytes]] = set()
    for at in range(0, len(keys), _MOST_ASKED):
        part = keys[at : at + _MOST_ASKED]
        out.update(connection.execute(marked_query(len(part)), (*chain.from_iterable(part), *place)))
    return out


def marked_so(connection: sqlite3.Connection, partition: Partition, block: MarkBlock) -> Set[RowKey]:
    """Of its keys those with such a mark of its own row."""
    keys = list(block.row_keys())
    met = marked(connection, partition, [(key.position_ms, key.digest) for key in keys])
    place = place_of(partition)
    rows = (row for at in met for row in connection.execute(OF_ROW, (*place, *at)).fetchall())
    return {mark.key for mark in (_mark(partition, row) for row in rows) if mark.kind is block.kind}


def with_marks(connection: sqlite3.Connection, partitions: Collection[Partition]) -> set[Partition]:
    """Those in which a mark has its own row."""
    out: set[Partition] = set()
    waiting = iter(partitions)
    while part := list(islice(waiting, _MOST_ASKED)):
        query = _WITH_MARKS.format(",".join(["(?,?,?)"] * len(part)))
        found = connection.execute(query, [*chain.from_iterable(map(place_of, part))]).fetchall()
        out.update(compress(part, (is_there for (is_there,) in found)))
    return out


def marked_query(keys: int) -> str:
    return _MARKED.format(",".join(["(?,?)"] * keys))


def write_settled(connection: sqlite3.Connection, records: Iterable[SettleRecord]) -> None:
    rows = []
    for record in records:
        packed = record.pack()
        rows.append((None, *place_of(record.partition), record.token, record.sequence, checksum(packed), packed))
    insert_rows(connection, "INSERT OR IGNORE INTO settled", rows)


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
