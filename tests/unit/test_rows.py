"""Row groups come back from their packed form as they were, and every way to cut and join them keeps each row whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.row_rig import I64, ROWS, U32, Row, one, rows_of
from timerd.model.columns import pack_columns, unpack_columns
from timerd.model.identity import RowKey
from timerd.model.rows import PREFIX, ROW, RowGroup, concat, empty_group, gather
from timerd.model.task import NO_EXTRA, Extra, Template


def repacked(group: RowGroup) -> RowGroup:
    return RowGroup.unpack(group.pack_keys(), group.payloads)


@given(st.lists(ROWS, max_size=20))
def test_joined_rows_come_back_from_their_packed_form(rows: list[Row]) -> None:
    group = concat([one(row) for row in rows])
    assert rows_of(group) == rows
    assert rows_of(repacked(group)) == rows


@given(st.lists(st.lists(ROWS, min_size=1, max_size=6), min_size=1, max_size=4), st.data())
def test_a_selection_is_the_same_rows_however_it_is_cut_and_joined(
    batches: list[list[Row]], data: st.DataObject
) -> None:
    groups = [concat([one(row) for row in batch]) for batch in batches]
    picked: list[RowGroup] = []
    expected: list[Row] = []
    for group, batch in zip(groups, batches, strict=True):
        for _ in range(data.draw(st.integers(0, 2))):
            chosen = data.draw(st.lists(st.integers(0, len(batch) - 1), max_size=6))
            picked.append(group.select(np.array(chosen, dtype=np.intp)))
            expected += [batch[n] for n in chosen]
    joined = concat(picked)
    assert rows_of(joined) == expected
    assert rows_of(joined.compact()) == expected
    assert rows_of(repacked(joined.compact())) == expected


def test_each_single_row_of_a_group_is_itself() -> None:
    rows = [
        Row(RowKey(n, bytes([n]) * 16, n), n, Template("d", f"q{n}"), Extra(f"k{n}"), bytes([n]), n) for n in range(5)
    ]
    group = concat([one(row) for row in rows])
    assert [rows_of(group.select(slice(n, n + 1)).compact()) for n in range(5)] == [[row] for row in rows]


@given(st.lists(ROWS, min_size=2, max_size=10))
def test_a_compact_copy_holds_only_what_its_rows_use(rows: list[Row]) -> None:
    small = concat([one(row) for row in rows]).select(slice(1, None)).compact()
    assert len(small.payloads) == sum(len(row.payload) for row in rows[1:])
    assert len(small.prefixes) <= len(rows) - 1
    assert len(small.extras) == sum(row.extra != NO_EXTRA for row in rows[1:])
    assert {id(t) for t in small.templates} == {id(small.template_of(n)) for n in range(len(small))}


@given(st.lists(st.tuples(I64, I64, U32, U32, U32, U32, U32, U32, U32, st.integers(0, 255)), max_size=12))
def test_any_columns_come_back(values: list[tuple[int, ...]]) -> None:
    columns = np.array(values, dtype=ROW)
    out = np.zeros(len(values), ROW)
    unpack_columns(pack_columns(columns), 0, out)
    assert out.tolist() == columns.tolist()


def test_rows_of_one_message_cost_few_bytes_each() -> None:
    columns = np.zeros(1_000, ROW)
    columns["position_ms"] = columns["fire_at_ms"] = 1_700_000_000_000 + np.arange(1_000) ** 2 % 300_000
    columns["index"] = np.arange(1_000)
    columns["length"] = 200
    columns["offset"] = 200 * np.arange(1_000)
    group = RowGroup(columns, np.zeros(1, PREFIX), [Template("d", "q")], bytes(200_000), [])
    assert len(group.pack_keys()) < 6 * len(group)


def test_keys_can_be_read_without_the_payloads() -> None:
    row = Row(RowKey(5, b"d" * 16, 7), 5, Template("d", "q"), Extra("k"), b"body", 1)
    keys_only = RowGroup.unpack(one(row).pack_keys(), b"")
    assert keys_only.keys() == [row.key]
    assert keys_only.extra_of(0) == row.extra


@pytest.mark.parametrize("arena", [b"", b"abcdef", memoryview(b"abcdef")])
def test_nothing_gathered_is_nothing(arena: bytes | memoryview) -> None:
    assert gather(arena, np.empty(0, "<u4"), np.empty(0, "<u4")) == b""


def test_joining_nothing_is_an_empty_group() -> None:
    assert len(concat([])) == len(empty_group()) == 0
    assert len(repacked(empty_group())) == 0
    assert len(empty_group().compact()) == 0


@pytest.mark.parametrize("count", [1, 2, 32, 33, 200])
def test_a_compact_copy_names_each_table_in_the_order_of_use(count: int) -> None:
    """Few rows and many go different ways to the same result."""
    chance = np.random.default_rng(count)
    columns = np.zeros(count, ROW)
    columns["index"], columns["position_ms"] = np.arange(count), np.arange(count)
    columns["prefix"], columns["template"] = chance.integers(0, 9, count), chance.integers(0, 3, count)
    columns["offset"], columns["length"] = np.arange(count), 1
    templates = [Template("d", "q", priority) for priority in range(3)]
    group = RowGroup(columns, np.frombuffer(chance.bytes(12 * 9), PREFIX), templates, chance.bytes(count), [])
    packed = group.compact()
    assert packed.keys() == group.keys()
    assert [packed.template_of(n) for n in range(count)] == [group.template_of(n) for n in range(count)]
    assert [packed.payload(n) for n in range(count)] == [group.payload(n) for n in range(count)]
    for name, table in (("prefix", packed.prefixes), ("template", packed.templates)):
        assert list(dict.fromkeys(packed.columns[name].tolist())) == list(range(len(table)))
