"""What the data of a schema version consist of: whether a file has all of its tables, columns and indexes.

SQLite checks the pages that there are. A table that is not there at all is no damage to it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

from timerd.adapters.sqlite.schema import Migration

Part = tuple[str, tuple[object, ...]]


def lacks(connection: sqlite3.Connection, version: int, migrations: Sequence[Migration]) -> str | None:
    """What is missing, or not as it should be, to go on a sentence with; None: nothing. More than there should be
    does no harm."""
    found = dict(_parts(connection))
    for name, definition in _made_by(migrations, version):
        if name not in found:
            return f"lacks the {name}, which schema version {version} has"
        if found[name] != definition:
            return f"has another {name} than schema version {version} has"
    return None


def _made_by(migrations: Sequence[Migration], version: int) -> list[Part]:
    with closing(sqlite3.connect(":memory:")) as fresh:
        for step in migrations:
            if step.version <= version:
                fresh.executescript(step.script)
        return list(_parts(fresh))


def _parts(connection: sqlite3.Connection) -> Iterator[Part]:
    """Tables first, for without one nothing of it is there."""
    tables = _asked(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")
    yield from ((f"table {table}", ()) for (table,) in tables)
    for (table,) in tables:
        for name, *definition in _asked(
            connection, 'SELECT name, type, "notnull", pk FROM pragma_table_info(?)', table
        ):
            yield f"column {name} of the table {table}", tuple(definition)
        # Those that nobody made by name come with their table.
        for name, *kinds in _asked(
            connection, """SELECT name, "unique", partial FROM pragma_index_list(?) WHERE origin = 'c'""", table
        ):
            columns = _asked(connection, "SELECT name FROM pragma_index_info(?)", name)
            yield f"index {name}", (table, *kinds, *columns)


def _asked(connection: sqlite3.Connection, statement: str, *values: object) -> list[tuple[object, ...]]:
    """Text as text, whatever the connection makes of it."""
    return [tuple(map(_plain, row)) for row in connection.execute(statement, values)]


def _plain(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
