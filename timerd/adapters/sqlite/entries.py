"""Notes that never change, by place and name."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

from timerd.adapters.sqlite.inserts import delete_rows, insert_rows
from timerd.ports import Entry, EntryKey

_MOST_ASKED = 200
# In this order: each that is asked for is looked up by the key of the table.
_FOUND = "SELECT number, value FROM asked CROSS JOIN entries USING (place, name)"


def write_entries(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    rows = [(*entry.key, entry.value) for entry in entries]
    insert_rows(connection, "INSERT OR IGNORE INTO entries", rows)


def find_entries(connection: sqlite3.Connection, keys: Sequence[EntryKey]) -> list[bytes | None]:
    """In few statements: between two of them the thread gives up the interpreter and waits for it."""
    found: dict[int, bytes] = {}
    for at in range(0, len(keys), _MOST_ASKED):
        part = keys[at : at + _MOST_ASKED]
        asked = ",".join(f"({number},?,?)" for number in range(at, at + len(part)))
        query = f"WITH asked(number, place, name) AS (VALUES {asked}) {_FOUND}"
        found.update(connection.execute(query, [*chain.from_iterable(part)]))
    return [found.get(number) for number in range(len(keys))]


def list_entries(connection: sqlite3.Connection, place: bytes, after: bytes, limit: int) -> list[Entry]:
    query = "SELECT name, value FROM entries WHERE place = ? AND name > ? ORDER BY name LIMIT ?"
    rows = connection.execute(query, (place, after, limit))
    return [Entry(EntryKey(place, name), value) for name, value in rows]


def remove_entries(connection: sqlite3.Connection, keys: Sequence[EntryKey]) -> None:
    names: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for place, name in keys:
        names[place].append(name)
    for place, of_place in names.items():
        delete_rows(connection, "DELETE FROM entries WHERE place = ? AND name", of_place, place)
