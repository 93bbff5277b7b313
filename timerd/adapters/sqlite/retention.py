"""Forgetting a partition in slices: each commit frees a few megabytes, so that none is long and the space is reused."""

from __future__ import annotations

import sqlite3

from timerd.adapters.sqlite.groups import GroupPlace, place_of
from timerd.model.partition import Partition

SLICE_BYTES = 8 << 20
SLICE_ROWS = 5_000
_SIZES = {
    "groups": "SELECT id, length(keys) + length(payloads) FROM groups WHERE scope = ? AND bucket = ? AND shard = ?",
    "mark_blocks": "SELECT id, length(packed) FROM mark_blocks WHERE scope = ? AND bucket = ? AND shard = ?",
}
_SMALL = """DELETE FROM {0} WHERE id IN
    (SELECT id FROM {0} WHERE scope = ? AND bucket = ? AND shard = ? LIMIT ?)"""


def drop_slice(connection: sqlite3.Connection, partition: Partition) -> bool:
    """Whether anything was left to forget."""
    place = place_of(partition)
    dropped = sum(_drop_large(connection, table, place) for table in _SIZES)
    for table in ("marks", "settled"):
        dropped += connection.execute(_SMALL.format(table), (*place, SLICE_ROWS)).rowcount
    return dropped > 0


def _drop_large(connection: sqlite3.Connection, table: str, place: GroupPlace) -> int:
    left_bytes = SLICE_BYTES
    names: list[tuple[int]] = []
    for name, size_bytes in connection.execute(_SIZES[table], place):
        names.append((name,))
        left_bytes -= size_bytes
        if left_bytes <= 0 or len(names) >= SLICE_ROWS:
            break
    connection.executemany(f"DELETE FROM {table} WHERE id = ?", names)
    return len(names)
