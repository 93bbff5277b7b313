"""What comes by the thousand is written and taken away in few statements: at each of them the writer waits for a busy
loop."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing

import pytest

from tests.sqlite.conftest import Bench
from timerd.adapters.sqlite.dead_letters import (
    add_estimates,
    add_up_estimates,
    find_dead_letters,
    take_dead_letters,
    write_dead_letters,
)
from timerd.adapters.sqlite.entries import find_entries, remove_entries, write_entries
from timerd.adapters.sqlite.files import DATABASE
from timerd.ports import DeadLetter, Entry, EntryKey
from timerd.testing.contracts.build import HERE, MAILS, START_MS, key

MANY = 1_024
STATEMENTS = MANY // 128
NAMES = [b"n%d" % n for n in range(MANY)]


@pytest.fixture
async def connection(bench: Bench) -> AsyncIterator[sqlite3.Connection]:
    bench.open()
    await bench.close()
    with closing(sqlite3.connect(bench.path / DATABASE, isolation_level=None)) as connection:
        yield connection


def counted(connection: sqlite3.Connection, work: Callable[[], object]) -> int:
    """How many statements that change something."""
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    work()
    connection.set_trace_callback(None)
    return sum(not each.startswith(("SELECT", "WITH")) for each in statements)


def test_estimates(connection: sqlite3.Connection) -> None:
    counts = {("d", "q", n * 60_000): n for n in range(MANY)}
    for times in (1, 2):
        assert counted(connection, lambda: add_estimates(connection, counts)) == STATEMENTS
        total = add_up_estimates(connection, "d", "q", 0, 1 << 60)
        assert total == (times * sum(range(MANY)), MANY)


def test_notes(connection: sqlite3.Connection) -> None:
    keys = [EntryKey(b"p%d" % (n % 2), name) for n, name in enumerate(NAMES)]
    assert counted(connection, lambda: write_entries(connection, [Entry(each, b"v") for each in keys])) == STATEMENTS
    write_entries(connection, [Entry(keys[0], b"another")])
    assert find_entries(connection, keys) == [b"v"] * MANY
    assert counted(connection, lambda: remove_entries(connection, keys[2:])) <= STATEMENTS + 14
    assert find_entries(connection, keys) == [b"v", b"v", *[None] * (MANY - 2)]


def test_dead_letters(connection: sqlite3.Connection) -> None:
    ids = [name.ljust(44, b"-") for name in NAMES]
    letters = [DeadLetter(each, key("k"), HERE, MAILS, START_MS, START_MS, 3, "", b"payload") for each in ids]
    assert counted(connection, lambda: write_dead_letters(connection, letters)) == STATEMENTS
    assert counted(connection, lambda: take_dead_letters(connection, ids)) == STATEMENTS
    assert find_dead_letters(connection, ids) == []
