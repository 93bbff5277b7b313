"""Notes that never change, by place and name."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from timerd.ports import Entry, EntryKey


def write_entries(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    rows = [(*entry.key, entry.value) for entry in entries]
    connection.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?, ?)", rows)


def find_entries(connection: sqlite3.Connection, keys: Sequence[EntryKey]) -> list[bytes | None]:
    query = "SELECT value FROM entries WHERE place = ? AND name = ?"
    rows = (connection.execute(query, key).fetchone() for key in keys)
    return [row[0] if row is not None else None for row in rows]


def list_entries(connection: sqlite3.Connection, place: bytes, after: bytes, limit: int) -> list[Entry]:
    query = "SELECT name, value FROM entries WHERE place = ? AND name > ? ORDER BY name LIMIT ?"
    rows = connection.execute(query, (place, after, limit))
    return [Entry(EntryKey(place, name), value) for name, value in rows]


def remove_entries(connection: sqlite3.Connection, keys: Sequence[EntryKey]) -> None:
    connection.executemany("DELETE FROM entries WHERE place = ? AND name = ?", keys)
