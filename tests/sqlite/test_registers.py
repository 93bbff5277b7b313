"""Registers in the commit: many changes in few statements, for between two the writer waits for a busy loop."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing

import pytest

from tests.sqlite.conftest import Bench
from timerd.adapters.sqlite.files import DATABASE
from timerd.adapters.sqlite.registers import RegisterTable, read_registers
from timerd.model.registers import name_key
from timerd.ports import Cas, CasResult, CasStatus

MANY = 1_024
KEYS = [name_key("default", f"k{n}") for n in range(MANY)]


@pytest.fixture
async def connection(bench: Bench) -> AsyncIterator[sqlite3.Connection]:
    bench.open()
    await bench.close()
    with closing(sqlite3.connect(bench.path / DATABASE, isolation_level=None)) as connection:
        yield connection


async def test_many_changes_take_few_statements(connection: sqlite3.Connection) -> None:
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    table = RegisterTable(connection)
    for expected, value in ((None, b"1"), (b"1", b"2")):
        said = table.cas([Cas(key, expected, value) for key in KEYS])
        assert said == [CasResult(CasStatus.APPLIED)] * MANY
    assert len(statements) == 2 * 2 * MANY / 128


async def test_of_many_changes_only_those_are_made_that_find_what_they_expect(connection: sqlite3.Connection) -> None:
    table = RegisterTable(connection)
    table.cas([Cas(KEYS[7], None, b"another's")])
    said = table.cas([Cas(key, None, b"mine") for key in KEYS[:20]])
    assert [n for n, each in enumerate(said) if each.status is not CasStatus.APPLIED] == [7]
    assert said[7] == CasResult(CasStatus.REFUSED, b"another's")
    assert read_registers(connection, KEYS[:20]) == [b"another's" if n == 7 else b"mine" for n in range(20)]


async def test_of_two_changes_of_a_register_the_second_finds_what_the_first_has_written(
    connection: sqlite3.Connection,
) -> None:
    said = RegisterTable(connection).cas([Cas(KEYS[0], None, b"1"), Cas(KEYS[1], None, b"1"), Cas(KEYS[0], None, b"2")])
    assert said[2] == CasResult(CasStatus.REFUSED, b"1")
    assert read_registers(connection, KEYS[:2]) == [b"1", b"1"]
