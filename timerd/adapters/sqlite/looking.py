"""What a cancel asks before and after its mark, in few statements: at each of them the thread gives up the interpreter,
and waits for it as long as the event loop is busy."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain, compress

from timerd.adapters.sqlite.groups import place_of
from timerd.adapters.sqlite.hash_runs import sought_each
from timerd.adapters.sqlite.key_index import KeyIndex
from timerd.adapters.sqlite.mark_index import MarkIndex
from timerd.adapters.sqlite.marks import marked
from timerd.adapters.sqlite.registers import read_moved
from timerd.model.partition import Partition
from timerd.model.registers import Table
from timerd.ports import KeysAt, Look, Looked

_MARK = """SELECT 1 FROM marks WHERE scope = ? AND bucket = ? AND shard = ? AND position_ms = ? AND digest = ?"""
_BLOCK = "SELECT 1 FROM mark_blocks WHERE scope = ? AND bucket = ? AND shard = ?"
_MOVE = f"SELECT 1 FROM registers WHERE kind = '{Table.MOVES.value}' AND name = ?"
_RECORD = "SELECT 1 FROM settled WHERE scope = ? AND bucket = ? AND shard = ?"
# Of each place the newest group and the newest block, and whether the table has a mark.
_NEWEST = """WITH asked (of_scope, of_bucket, of_shard) AS (VALUES {0})
    SELECT ifnull((SELECT id FROM groups WHERE {1} ORDER BY id DESC LIMIT 1), 0),
        ifnull((SELECT id FROM mark_blocks WHERE {1} ORDER BY id DESC LIMIT 1), 0),
        EXISTS (SELECT 1 FROM marks WHERE {1}) FROM asked""".replace(
    "{1}", "scope = of_scope AND bucket = of_bucket AND shard = of_shard"
)
_RECORDS = """WITH asked (of_scope, of_bucket, of_shard) AS (VALUES {})
    SELECT EXISTS (SELECT 1 FROM settled WHERE scope = of_scope AND bucket = of_bucket AND shard = of_shard)
    FROM asked"""
_MOST_PLACES = 64
# Of one task: all there is to know beside its row.
_OF_TASK = f"SELECT EXISTS ({_MARK}), EXISTS ({_BLOCK}), EXISTS ({_MOVE}), EXISTS ({_RECORD})"
_BESIDE_TASK = f"SELECT EXISTS ({_MOVE}), EXISTS ({_RECORD})"


def look(connection: sqlite3.Connection, index: KeyIndex, marks: MarkIndex, asked: Look) -> Looked:
    """With the rows. The indexes are those of the thread."""
    if len(asked.tasks) == 1 and len(asked.rows) == 1 and len(asked.rows[0][1]) == 1 and len(asked.partitions) <= 1:
        return _look_at_one(connection, index, marks, asked)
    bare: list[list[bool]] = []
    for at in range(0, len(asked.rows), _MOST_PLACES):
        bare += _bare(connection, index, marks, asked.rows[at : at + _MOST_PLACES])
    return look_beside(connection, asked)._replace(bare=bare)


def look_beside(connection: sqlite3.Connection, asked: Look) -> Looked:
    """Without the rows."""
    if len(asked.tasks) == 1 and len(asked.partitions) == 1:
        place = place_of(asked.partitions[0])
        return _looked(asked, connection.execute(_BESIDE_TASK, (asked.tasks[0], *place)).fetchone(), [])
    settled: set[Partition] = set()
    for at in range(0, len(asked.partitions), _MOST_PLACES):
        part = asked.partitions[at : at + _MOST_PLACES]
        query = _RECORDS.format(",".join(["(?,?,?)"] * len(part)))
        found = connection.execute(query, [*chain.from_iterable(map(place_of, part))]).fetchall()
        settled.update(compress(part, (is_there for (is_there,) in found)))
    return Looked([], read_moved(connection, asked.tasks), settled)


def _look_at_one(connection: sqlite3.Connection, index: KeyIndex, marks: MarkIndex, asked: Look) -> Looked:
    partition, ((position_ms, digest),) = asked.rows[0]
    is_single = index.is_single(partition, position_ms, digest)
    place = place_of(asked.partitions[0] if asked.partitions else partition)
    values = (*place_of(partition), position_ms, digest, *place_of(partition), asked.tasks[0], *place)
    in_table, has_blocks, *found = connection.execute(_OF_TASK, values).fetchone()
    is_marked = in_table or (has_blocks and bool(marks.marks_on(partition, [(position_ms, digest)])[0]))
    return _looked(asked, found, [[is_single and not is_marked]])


def _looked(asked: Look, found: Sequence[int], bare: list[list[bool]]) -> Looked:
    is_moved, is_settled = found
    settled = frozenset(asked.partitions if is_settled else ())
    return Looked(bare, frozenset(asked.tasks if is_moved else ()), settled)


def _bare(
    connection: sqlite3.Connection, index: KeyIndex, marks: MarkIndex, rows: Sequence[KeysAt]
) -> list[list[bool]]:
    """For each key of each group. One statement says of all places what has to be read at all."""
    places = list(chain.from_iterable(place_of(partition) for partition, _ in rows))
    newest = connection.execute(newest_query(len(rows)), places).fetchall()
    marks.read_on((partition, block) for (partition, _), (_, block, _) in zip(rows, newest, strict=True))
    wanted, out = sought_each([keys for _, keys in rows]), list[list[bool]]()
    for (partition, keys), these, (group, block, in_table) in zip(rows, wanted, newest, strict=True):
        bare = index.single(partition, these, group)
        bare &= ~marks.marked(partition, these, block)
        if in_table:
            some = marked(connection, partition, keys)
            bare &= [key not in some for key in keys]
        out.append(bare.tolist())
    return out


def newest_query(places: int) -> str:
    return _NEWEST.format(",".join(["(?,?,?)"] * places))
