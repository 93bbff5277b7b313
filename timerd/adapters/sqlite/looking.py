"""What a cancel asks before and after its mark, in few statements: at each of them the thread gives up the interpreter,
and waits for it as long as the event loop is busy."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from timerd.adapters.sqlite.groups import place_of
from timerd.adapters.sqlite.key_index import KeyIndex
from timerd.adapters.sqlite.mark_index import MarkIndex
from timerd.adapters.sqlite.marks import marked
from timerd.adapters.sqlite.registers import read_moved
from timerd.model.partition import Partition
from timerd.model.registers import Table
from timerd.ports import Look, Looked

_MARK = """SELECT 1 FROM marks WHERE scope = ? AND bucket = ? AND shard = ? AND position_ms = ? AND digest = ?"""
_BLOCK = "SELECT 1 FROM mark_blocks WHERE scope = ? AND bucket = ? AND shard = ?"
_MOVE = f"SELECT 1 FROM registers WHERE kind = '{Table.MOVES.value}' AND name = ?"
_RECORD = "SELECT 1 FROM settled WHERE scope = ? AND bucket = ? AND shard = ?"
# Of one task: all there is to know beside its row.
_OF_TASK = f"SELECT EXISTS ({_MARK}), EXISTS ({_BLOCK}), EXISTS ({_MOVE}), EXISTS ({_RECORD})"
_BESIDE_TASK = f"SELECT EXISTS ({_MOVE}), EXISTS ({_RECORD})"


def look(connection: sqlite3.Connection, index: KeyIndex, marks: MarkIndex, asked: Look) -> Looked:
    """With the rows. The indexes are those of the thread."""
    if len(asked.tasks) == 1 and len(asked.rows) == 1 and len(asked.rows[0][1]) == 1 and len(asked.partitions) <= 1:
        return _look_at_one(connection, index, marks, asked)
    bare = [_bare(connection, index, marks, partition, keys) for partition, keys in asked.rows]
    return look_beside(connection, asked)._replace(bare=bare)


def look_beside(connection: sqlite3.Connection, asked: Look) -> Looked:
    """Without the rows."""
    if len(asked.tasks) == 1 and len(asked.partitions) == 1:
        place = place_of(asked.partitions[0])
        return _looked(asked, connection.execute(_BESIDE_TASK, (asked.tasks[0], *place)).fetchone(), [])
    settled = {p for p in asked.partitions if connection.execute(_RECORD, place_of(p)).fetchone() is not None}
    return Looked([], read_moved(connection, asked.tasks), settled)


def _look_at_one(connection: sqlite3.Connection, index: KeyIndex, marks: MarkIndex, asked: Look) -> Looked:
    partition, ((position_ms, digest),) = asked.rows[0]
    is_single = index.is_single(partition, position_ms, digest)
    place = place_of(asked.partitions[0] if asked.partitions else partition)
    values = (*place_of(partition), position_ms, digest, *place_of(partition), asked.tasks[0], *place)
    in_table, has_blocks, *found = connection.execute(_OF_TASK, values).fetchone()
    is_marked = in_table or (has_blocks and marks.marked(partition, [(position_ms, digest)]).any())
    return _looked(asked, found, [[is_single and not is_marked]])


def _looked(asked: Look, found: Sequence[int], bare: list[list[bool]]) -> Looked:
    is_moved, is_settled = found
    settled = frozenset(asked.partitions if is_settled else ())
    return Looked(bare, frozenset(asked.tasks if is_moved else ()), settled)


def _bare(
    connection: sqlite3.Connection,
    index: KeyIndex,
    marks: MarkIndex,
    partition: Partition,
    keys: Sequence[tuple[int, bytes]],
) -> list[bool]:
    bare: list[bool] = (index.single(partition, keys) & ~marks.marked(partition, keys)).tolist()
    some = marked(connection, partition, keys)
    return [is_bare and key not in some for is_bare, key in zip(bare, keys, strict=True)] if some else bare
