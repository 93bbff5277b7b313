"""Tasks more than a day ahead lie in day-wide groups, one for each commit, and are split once as their day comes near.

A batch spread over a month would otherwise make a group of one for each of a thousand buckets. A split takes a slice of
a day's groups and writes their rows into the buckets in one transaction: a crash finds each row once, here or there.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

import numpy as np

from timerd.adapters.sqlite.days import day_of
from timerd.adapters.sqlite.groups import join_sorted, open_group, pack
from timerd.adapters.sqlite.inserts import insert_rows
from timerd.model.errors import CorruptRow
from timerd.model.few_rows import few_rows
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.spread import Spread

# A slice takes a few ten milliseconds of the writer, so that other commits do not wait long.
SLICE_GROUPS = 256
SLICE_BYTES = 4 << 20
_INSERT = "INSERT INTO far_groups (day, scope, shard, keys_crc, payloads_crc, keys, payloads)"
_OF_DAY = """SELECT id, scope, shard, keys_crc, keys, payloads_crc, payloads FROM far_groups
    WHERE day = ? AND corrupt = 0 ORDER BY scope, shard LIMIT ?"""
# From one day to the next by the index: whether a group is corrupt stands in the table, and to read each of them would
# take a second at a start with ten million tasks.
_ALL_DAYS = """WITH RECURSIVE days(day) AS (
    SELECT min(day) FROM far_groups
    UNION ALL SELECT (SELECT min(day) FROM far_groups WHERE day > days.day) FROM days WHERE day IS NOT NULL)
    SELECT day FROM days"""
DAYS = f"""{_ALL_DAYS}
    WHERE EXISTS (SELECT 1 FROM far_groups WHERE far_groups.day = days.day AND corrupt = 0)"""
_log = logging.getLogger(__name__)


class FarPlace(NamedTuple):
    day: int
    scope: int
    shard: int


def far_place_of(partition: Partition) -> FarPlace:
    return FarPlace(day_of(partition.bucket_ms), partition.scope, partition.shard)


def write_far(connection: sqlite3.Connection, pending: Iterable[tuple[FarPlace, Sequence[RowGroup]]]) -> None:
    rows = ((*place, *pack(few_rows(groups) or join_sorted(groups))) for place, groups in pending)
    insert_rows(connection, _INSERT, rows)


def far_days(connection: sqlite3.Connection) -> set[int]:
    """Days that still have far groups; one that is corrupt stays where it is."""
    return {day for (day,) in connection.execute(DAYS)}


def take_slice(connection: sqlite3.Connection, day: int) -> tuple[list[tuple[Partition, RowGroup]], bool]:
    """Removes some far groups of the day and returns their rows by partition, and whether there were any."""
    taken: dict[tuple[int, int], list[RowGroup]] = {}
    names: list[tuple[int]] = []
    left_bytes = SLICE_BYTES
    rows = connection.execute(_OF_DAY, (day, SLICE_GROUPS)).fetchmany
    while left_bytes > 0 and (found := rows(1)):
        name, scope, shard, *parts = found[0]
        left_bytes -= len(parts[1]) + len(parts[3])
        try:
            taken.setdefault((scope, shard), []).append(open_group(f"far row group {name}", parts, 0))
            names.append((name,))
        except CorruptRow as error:
            _log.error("%s It is left where it is and not delivered.", error)
            connection.execute("UPDATE far_groups SET corrupt = 1 WHERE id = ?", (name,))
    connection.executemany("DELETE FROM far_groups WHERE id = ?", names)
    split = [part for place, groups in taken.items() for part in Spread(*place, join_sorted(groups)).parts()]
    return split, left_bytes < SLICE_BYTES


def corrupt_far_groups(connection: sqlite3.Connection, waiting: Set[int]) -> list[str]:
    """Of days that are split, of which nothing else is left: to look through the others would take as long as there are
    tasks. `waiting`: those that are not."""
    split = [day for (day,) in connection.execute(_ALL_DAYS) if day is not None and day not in waiting]
    query = "SELECT id, day FROM far_groups WHERE day = ? AND corrupt = 1"
    rows = sorted(row for day in split for row in connection.execute(query, (day,)))
    named = [f"The far row group {name} of day {np.datetime64(day, 'D')}" for name, day in rows]
    return [f"{each} does not match its checksum. {CorruptRow.consequence}" for each in named]
