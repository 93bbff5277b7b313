"""Rows on their way to the table and back, without a node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timerd.adapters.cassandra.codec import (
    INLINE_BYTES,
    TASK_KIND,
    Shape,
    TaskRow,
    cursor_after,
    place_of,
    to_group,
    written_rows,
)
from timerd.adapters.cassandra.codec import Written as Values
from timerd.adapters.cassandra.driver import BATCH_BYTES, BATCH_ROWS
from timerd.adapters.cassandra.schema import NEWEST, statements
from timerd.adapters.cassandra.settings import CassandraSettings
from timerd.adapters.cassandra.tasks import batches, insert_of
from timerd.adapters.cassandra.write_numbers import WriteNumbers
from timerd.adapters.cassandra.write_times import WriteTimes, wall_ms
from timerd.model.errors import StartupError
from timerd.model.registers import Table
from timerd.model.rows import concat, single_row
from timerd.model.task import NO_EXTRA, Extra, Template
from timerd.testing.contracts.build import HERE, START_MS, key


def values(size_bytes: int) -> Values:
    return Values(Shape.PLAIN, size_bytes, [])


def read_back(each: Values) -> TaskRow:
    """As the table would give it: what was not written is None."""
    names = [name.strip() for name in insert_of(each.shape).split("(")[1].split(")")[0].split(",")]
    named = dict(zip(names, each.values, strict=True))
    found = [named.get(name) for name in TaskRow._fields]
    blobs = ("digest", "template", "extra", "value", "body")
    pairs = zip(TaskRow._fields, found, strict=True)
    return TaskRow._make(v if v is None or name in blobs else int.from_bytes(v, signed=True) for name, v in pairs)


def test_rows_come_back_as_they_were() -> None:
    """With what only a later release knows."""
    templates = [Template("d", "q", 7, (("k", "ü"),)), Template("d", "other", kept='{"ordering_key":"x"}')]
    extras = [Extra("my key", lease_until_ms=9), NO_EXTRA, Extra(last_error="broke", kept='{"origin":"import"}')]
    sent = concat(
        [
            single_row(key(f"r{n}", n, n), START_MS + n + n % 2, templates[n % 2], b"x" * n, extras[n % 3], n % 8)
            for n in range(20)
        ]
    )
    written = list(written_rows(HERE, sent, 7))
    ones = [row for n in range(20) for row in written_rows(HERE, sent.select(slice(n, n + 1)), 7)]
    assert ones == written
    assert {each.shape for each in written} == {Shape.PLAIN, Shape.WHOLE}
    rows = [read_back(each) for each in written]
    assert {(row.kind, row.written) for row in rows} == {(TASK_KIND, 7)}
    read = to_group(rows, [row.body or b"" for row in rows])
    assert read.keys() == sent.keys()
    for n in range(20):
        assert (read.template_of(n), read.extra_of(n)) == (sent.template_of(n), sent.extra_of(n))
        assert read.payload(n) == sent.payload(n)
    for column in ("fire_at_ms", "flags", "length"):
        assert read.columns[column].tolist() == sent.columns[column].tolist()


def test_a_large_body_has_a_column_of_its_own() -> None:
    for size, shape in ((INLINE_BYTES, Shape.PLAIN), (INLINE_BYTES + 1, Shape.LARGE)):
        row = single_row(key("a"), START_MS, Template("d", "q"), b"x" * size, NO_EXTRA, 0)
        assert [each.shape for each in written_rows(HERE, row, 1)] == [shape]


@given(st.lists(st.integers(100, 2 * BATCH_BYTES), max_size=400))
def test_a_batch_is_bounded_in_rows_and_bytes_and_keeps_the_order(sizes: list[int]) -> None:
    rows = list(map(values, sizes))
    together = list(batches(rows))
    assert [row for part in together for row in part] == rows
    for part in together:
        assert 1 <= len(part) <= BATCH_ROWS
        assert len(part) == 1 or sum(row.size_bytes for row in part) <= BATCH_BYTES


@given(st.integers(0, 1 << 62), st.binary(min_size=16, max_size=16), st.integers(0, 1 << 32), st.integers(0, 100))
def test_a_cursor_leads_back_to_its_place(position_ms: int, digest: bytes, version: int, kind: int) -> None:
    place = position_ms, digest, version, kind
    assert cursor_after(place) < 0
    assert place_of(cursor_after(place)) == place


def test_there_is_no_place_before_the_first_row() -> None:
    assert place_of(cursor_after(())) == ()


def test_each_writing_is_later_than_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    written = WriteNumbers(WriteTimes(wall_ms))
    first = written.next()
    monkeypatch.setattr("time.time_ns", lambda: 0)
    assert first < written.next() < written.next() < 1 << 63


def test_every_statement_of_the_schema_is_complete() -> None:
    compaction = {"rows": "R", "registers": "G"}
    found = [statement for version in range(1, NEWEST + 1) for statement in statements(version, compaction)]
    assert all(statement.startswith("CREATE TABLE IF NOT EXISTS ") for statement in found)
    assert not any("{" in statement or "--" in statement for statement in found)
    text = "\n".join(found)
    assert all(f"{table.value} (" in text or f'"{table.value}" (' in text for table in Table)


@pytest.mark.parametrize("keyspace", ["", "Ünsafe", "1st", "a" * 49, "x; DROP KEYSPACE y"])
def test_a_keyspace_has_a_plain_name(keyspace: str) -> None:
    with pytest.raises(StartupError, match="keyspace"):
        CassandraSettings(keyspace=keyspace)


def test_replication_names_at_least_one_replica() -> None:
    for replication in ({}, {"dc": 0}):
        with pytest.raises(StartupError, match="at least 1"):
            CassandraSettings(replication=replication)
    with pytest.raises(StartupError, match="Name at least one"):
        CassandraSettings(contact_points=())
