"""Data of an older version becomes data of this one, in one transaction for each version."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from timerd.adapters.sqlite.schema import MIGRATIONS, Migration, connect, migrate, version_made

NEWEST = MIGRATIONS[-1].version
NEXT = Migration(NEWEST + 1, "ALTER TABLE days ADD COLUMN note TEXT NOT NULL DEFAULT 'old'; CREATE TABLE extra (x)")
BROKEN = Migration(NEWEST + 2, "CREATE TABLE half (x); INSERT INTO nowhere VALUES (1)")


def opened(path: Path, *more: Migration) -> sqlite3.Connection:
    connection = connect(path, "normal")
    try:
        migrate(connection, path, (*MIGRATIONS, *more))
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def test_old_data_is_carried_over(tmp_path: Path) -> None:
    path = tmp_path / "timerd.db"
    connection = opened(path)
    assert version_made(connection) == NEWEST
    connection.execute("INSERT INTO days VALUES (1, 0, x'01', x'00', x'00')")
    connection.close()
    connection = opened(path, NEXT)
    assert version_made(connection) == NEWEST + 1
    assert connection.execute("SELECT day, present, note FROM days").fetchall() == [(1, b"\1", b"old")]
    connection.close()
    opened(path, NEXT).close()


def test_a_new_file_goes_through_all_of_them(tmp_path: Path) -> None:
    connection = opened(tmp_path / "timerd.db", NEXT)
    assert version_made(connection) == NEWEST + 1
    assert connection.execute("SELECT count(*) FROM extra").fetchone() == (0,)
    connection.close()


def test_a_migration_that_fails_leaves_the_version_before_it(tmp_path: Path) -> None:
    path = tmp_path / "timerd.db"
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        opened(path, NEXT, BROKEN)
    connection = opened(path, NEXT)
    assert version_made(connection) == NEWEST + 1
    assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall() == []
    connection.close()
