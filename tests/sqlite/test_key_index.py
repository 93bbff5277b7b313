"""Where a row is: found with one statement where there is something new, and under any limit of memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.sqlite.conftest import Bench
from timerd.adapters.sqlite import groups, key_index
from timerd.adapters.sqlite.files import DATABASE
from timerd.adapters.sqlite.hash_runs import sought
from timerd.adapters.sqlite.key_index import KeyIndex
from timerd.adapters.sqlite.schema import connect_reader
from timerd.adapters.sqlite.store import SqliteStore
from timerd.model.errors import CorruptRow
from timerd.testing.contracts.build import HERE, NEXT, START_MS, digest, key, message

NAMES = [f"k{n}" for n in range(6)]
KEYS = [(START_MS, digest(name)) for name in NAMES]


@pytest.fixture
async def store(bench: Bench) -> SqliteStore:
    """With one message for each name."""
    store = bench.open()
    for name in NAMES:
        await store.append([message(name, key(name))])
    return store


@pytest.fixture
def connection(bench: Bench, store: SqliteStore) -> Iterator[sqlite3.Connection]:
    with closing(connect_reader(bench.path / DATABASE)) as connection:
        yield connection


def found(index: KeyIndex) -> list[list[int]]:
    """The positions of the rows of each name."""
    rows = index.locate(HERE, KEYS, payloads=False)
    return [[int(row.columns["position_ms"][0]) for row in each] for each in rows]


def refuse(error: CorruptRow) -> None:
    raise error


async def test_what_was_read_for_the_index_is_not_read_again(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    statements: list[str] = []
    index = KeyIndex(connection, refuse)
    connection.set_trace_callback(statements.append)
    assert found(index) == [[START_MS]] * len(KEYS)
    assert len(statements) == 1
    await store.append([message("later", key("later"))])
    assert index.single(HERE, sought([(START_MS, digest("later"))]), 1 << 40).tolist() == [True]
    assert len(statements) == 2


async def test_the_bytes_of_a_group_count_once_when_its_partition_is_read_anew(
    store: SqliteStore, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "MOST_ROWS", 1)
    index = KeyIndex(connection, refuse)
    await store.append([message("next", key("next"), partition=NEXT)])
    sizes_bytes = []
    for _ in range(3):
        assert found(index) == [[START_MS]] * len(KEYS)
        # Takes the room of the other partition's hashes, whose groups stay open.
        assert len(index.locate(NEXT, [(START_MS, digest("next"))], payloads=False)[0]) == 1
        sizes_bytes.append(index.open_bytes)
    assert sizes_bytes == [sizes_bytes[0]] * 3


def test_groups_kept_open_are_limited(connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    index = KeyIndex(connection, refuse)
    found(index)
    half_bytes = index.open_bytes // 2
    monkeypatch.setattr(groups, "MOST_BYTES", half_bytes)
    index.forget(HERE)
    assert index.open_bytes == 0
    for _ in range(3):
        assert found(index) == [[START_MS]] * len(KEYS)
        assert 0 < index.open_bytes <= half_bytes


async def test_nothing_is_kept_of_partitions_in_which_nothing_is(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    """Whoever asks for tasks that are long over asks in a new one for each five minutes and each queue."""
    index = KeyIndex(connection, refuse)
    assert found(index) == [[START_MS]] * len(KEYS)
    for scope in range(1, 1_000):
        assert index.locate(HERE._replace(scope=scope), KEYS, payloads=False) == [[]] * len(KEYS)
        assert index.single(NEXT._replace(scope=scope), sought(KEYS), 0).tolist() == [False] * len(KEYS)
    assert list(index._partitions) == [HERE]
    await store.drop(HERE)
    index.forget(HERE)
    assert (found(index), list(index._partitions)) == ([[]] * len(KEYS), [])
