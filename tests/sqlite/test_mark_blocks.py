"""Marks of many rows that are written together lie in blocks: found again after a restart, beside marks of older data,
under any limit of memory, and named where a block is spoilt."""

from __future__ import annotations

import sqlite3
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sqlite.conftest import Bench
from tests.sqlite.older import LEFT, load
from timerd.adapters.sqlite import mark_index, mark_writing, retention
from timerd.adapters.sqlite.files import DATABASE
from timerd.adapters.sqlite.mark_blocks import INSERT, KEY, MOST_KEYS, MarkBlock, block_row
from timerd.adapters.sqlite.mark_index import MarkIndex
from timerd.adapters.sqlite.mark_writing import LEAST_IN_BLOCK, write_marks
from timerd.adapters.sqlite.marks import SOME, marks_on, marks_since
from timerd.adapters.sqlite.schema import connect, migrate
from timerd.adapters.sqlite.store import SqliteStore
from timerd.bootstrap import back_up_sqlite, restore_sqlite
from timerd.model.errors import CorruptRow, StartupError
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.ports import Look, Mark, MarkKind
from timerd.testing.contracts.build import HERE, NEXT, START_MS, digest, key, message, scan

MANY = [f"k{n:03}" for n in range(2 * LEAST_IN_BLOCK)]
SPOIL = "UPDATE mark_blocks SET packed = CAST(substr(packed, 1, 40) || x'ff' || substr(packed, 42) AS BLOB)"


def cancels(names: Iterable[str], who: bytes = b"1", partition: Partition = HERE) -> list[Mark]:
    return [Mark(partition, key(name), MarkKind.CANCELLED, who) for name in names]


async def said(store: SqliteStore, names: Iterable[str] = MANY) -> list[list[bytes]]:
    """The values of the marks on each row."""
    found = await store.find(HERE, [(START_MS, digest(name)) for name in names])
    return [[mark.value for mark in each.marks] for each in found]


async def test_few_marks_are_rows_and_many_are_a_block(bench: Bench) -> None:
    store = bench.open()
    await store.mark(cancels(MANY[1:LEAST_IN_BLOCK]))
    assert (bench.count("marks"), bench.count("mark_blocks")) == (LEAST_IN_BLOCK - 1, 0)
    await store.mark([*cancels(MANY), *cancels(MANY[:3], partition=NEXT)])
    assert (bench.count("marks"), bench.count("mark_blocks")) == (LEAST_IN_BLOCK - 1 + 3, 1)


async def test_a_repeat_writes_nothing(bench: Bench) -> None:
    store = bench.open()
    await store.mark(cancels(MANY))
    for _ in range(2):
        assert [await store.mark(cancels(part, b"2")) for part in (MANY, MANY[:1], MANY[3:5])] == [0, 0, 0]
        store = await bench.reopen()
    assert (bench.count("marks"), bench.count("mark_blocks")) == (0, 1)


async def test_blocks_are_there_after_a_restart(bench: Bench) -> None:
    store = bench.open()
    await store.append([message("m", *(key(name) for name in MANY))])
    await store.mark(cancels(MANY))
    cursor = (await scan(store)).cursor
    store = await bench.reopen()
    assert await said(store) == [[b"1"]] * len(MANY)
    assert {mark.key for mark in (await scan(store)).marks} == {key(name) for name in MANY}
    assert not any((await store.look(Look([(HERE, [(START_MS, digest(n)) for n in MANY])], []))).bare[0])
    assert await store.mark(cancels([*MANY, "more"], b"2")) == 1
    assert [mark.key for mark in (await scan(store, cursor=cursor)).marks] == [key("more")]


async def test_what_is_written_after_a_restart_has_a_later_name(bench: Bench) -> None:
    """The block has the newest name of all."""
    store = bench.open()
    await store.mark(cancels(MANY))
    cursor = (await scan(store)).cursor
    store = await bench.reopen()
    await store.append([message("m", key("late"))])
    assert (await scan(store, cursor=cursor)).keys == [key("late")]


async def test_nothing_is_left_in_mind_of_a_commit_that_failed(
    failing_commits: Callable[[str | None, int], None], bench: Bench
) -> None:
    store = bench.open()
    failing_commits("COMMIT", sqlite3.SQLITE_FULL)
    with pytest.raises(Exception, match="could not write"):
        await store.mark(cancels(MANY))
    failing_commits(None, 0)
    assert await said(store) == [[]] * len(MANY)
    assert await store.mark(cancels(MANY, b"2")) == len(MANY)
    assert await said(store) == [[b"2"]] * len(MANY)


@pytest.mark.usefixtures("little_memory")
async def test_what_is_not_kept_in_mind_is_read_again(bench: Bench) -> None:
    store = bench.open()
    partitions = [Partition(0, START_MS, shard) for shard in range(4)]
    for partition in partitions:
        await store.mark(cancels(MANY, partition=partition))
    for partition in partitions * 2:
        assert await store.mark(cancels(MANY, b"2", partition)) == 0
        (found,) = await store.find(partition, [(START_MS, digest(MANY[5]))])
        assert [mark.value for mark in found.marks] == [b"1"]


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mark_index, "MOST_MARKS", 2 * len(MANY))
    monkeypatch.setattr(mark_index, "MOST_OPEN_BYTES", 100)


@pytest.mark.usefixtures("little_memory")
def test_the_marks_kept_in_mind_are_limited(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "timerd.db", "full")) as connection:
        migrate(connection, tmp_path / "timerd.db")
        index, names = MarkIndex(connection, refuse, is_writer=True), count(1)
        for shard in range(20):
            write_marks(connection, cancels(MANY, partition=Partition(0, START_MS, shard)), lambda: next(names), index)
            assert index.size <= mark_index.MOST_MARKS


def test_the_blocks_of_a_partition_are_not_all_in_memory_while_they_are_read(tmp_path: Path) -> None:
    """The index has 16 bytes a mark, a block 28; sorting takes its part as well."""
    blocks = 100
    with closing(connect(tmp_path / "timerd.db", "off")) as connection:
        migrate(connection, tmp_path / "timerd.db")
        keys, rows = np.zeros(MOST_KEYS, KEY), []
        for name in range(1, blocks + 1):
            keys["position_ms"] = START_MS + name
            keys["digest"] = np.arange(2 * MOST_KEYS, dtype=np.uint64).view("V16")
            rows.append(block_row(name, HERE, MarkBlock(MarkKind.CANCELLED, b"1", keys)))
        connection.executemany(f"{INSERT} VALUES (?,?,?,?,?,?)", rows)
        index = MarkIndex(connection, refuse)
        tracemalloc.start()
        try:
            assert index.has_blocks(HERE)
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert index.size == blocks * MOST_KEYS
    assert peak_bytes < 100 * index.size


async def test_marks_of_older_data_stay_the_first(tmp_path: Path) -> None:
    """Version 1 wrote each of them as a row."""
    load(1, tmp_path / "data")
    with closing(sqlite3.connect(tmp_path / "data" / DATABASE)) as connection:
        for n, name in enumerate(MANY[:20]):
            place = (HERE.scope, HERE.bucket_ms // 300_000, HERE.shard, START_MS, digest(name))
            row = (1_000 + n, *place, 0, int(MarkKind.CANCELLED), b"old")
            connection.execute("INSERT INTO marks VALUES (?,?,?,?,?,?,?,?,?)", row)
        connection.commit()
    store = SqliteStore(tmp_path / "data", lambda: int(LEFT.timestamp() * 1e3))
    try:
        assert await said(store) == [[b"old"]] * 20 + [[]] * (len(MANY) - 20)
        assert await store.mark(cancels(MANY, b"new")) == len(MANY) - 20
        assert await said(store) == [[b"old"]] * 20 + [[b"new"]] * (len(MANY) - 20)
        assert len((await scan(store)).marks) == len(MANY)
    finally:
        await store.close()


async def test_a_drop_takes_the_blocks_along(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SLICE_ROWS", 1)
    store = bench.open()
    for part in (MANY[: len(MANY) // 2], MANY):
        await store.mark([*cancels(part), *cancels(part, partition=NEXT)])
    assert bench.count("mark_blocks") == 4
    await store.drop(HERE)
    assert bench.count("mark_blocks") == 2
    assert (await scan(store)).marks == []
    assert await store.mark(cancels(MANY, b"2")) == len(MANY)
    assert await said(store) == [[b"2"]] * len(MANY)


async def test_a_spoilt_block_is_named_and_nothing_else_is_lost(bench: Bench) -> None:
    store = bench.open()
    await store.mark(cancels(MANY, b"1"))
    await store.mark([*cancels(["other"]), *cancels(MANY, partition=NEXT)])
    await bench.close()
    bench.query(f"{SPOIL} WHERE id = 1")
    for reads in (scan, said):
        store = await bench.reopen()
        await reads(store)
        (sentence,) = (await store.facts()).corrupt
        assert "Block 1 of marks does not match its checksum" in sentence
        assert "may be delivered" in sentence
    assert [mark.key for mark in (await scan(store)).marks] == [key("other")]
    assert len((await scan(store, NEXT)).marks) == len(MANY)


async def test_what_a_spoilt_block_held_can_be_cancelled_again(bench: Bench) -> None:
    store = bench.open()
    await store.mark(cancels(MANY))
    await bench.close()
    bench.query(SPOIL)
    store = await bench.reopen()
    assert await store.mark(cancels(MANY, b"2")) == len(MANY)
    assert len((await store.facts()).corrupt) == 1
    assert await said(await bench.reopen()) == [[b"2"]] * len(MANY)


async def test_a_copy_has_the_blocks_and_one_with_a_spoilt_block_is_none(bench: Bench, tmp_path: Path) -> None:
    store = bench.open()
    await store.mark(cancels(MANY))
    back_up_sqlite(bench.path, tmp_path / "copy.db", lambda _done, _whole: None)
    restore_sqlite(tmp_path / "copy.db", tmp_path / "new")
    restored = SqliteStore(tmp_path / "new", lambda: START_MS)
    assert await said(restored) == [[b"1"]] * len(MANY)
    await restored.close()
    await bench.close()
    bench.query(SPOIL)
    with pytest.raises(StartupError, match=r"is damaged .Block 1 of marks"):
        back_up_sqlite(bench.path, tmp_path / "spoilt.db", lambda _done, _whole: None)


def test_few_marks_of_a_partition_are_read_from_an_index(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "timerd.db", "full")) as connection:
        migrate(connection, tmp_path / "timerd.db")
        plan = connection.execute(f"EXPLAIN QUERY PLAN {SOME}", (0, 0, 0, 1)).fetchall()
    assert [bytes(row[3]) for row in plan] == [
        b"SEARCH marks USING COVERING INDEX marks_by_row (scope=? AND bucket=? AND shard=?)"
    ]


Calls = list[tuple[int, MarkKind, bytes, list[int]]]
CALLS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from([MarkKind.CANCELLED, MarkKind.PURGED]),
        st.sampled_from([b"", b"a", b"b" * 40]),
        st.lists(st.integers(0, 30), max_size=12),
    ),
    max_size=8,
)


def row_of(number: int) -> RowKey:
    return RowKey(START_MS + number % 3, digest(f"row{number % 5}"), number % 2)


@settings(max_examples=150, deadline=None)
@given(commits=st.lists(st.tuples(CALLS, st.booleans()), max_size=5))
def test_blocks_and_rows_together_are_as_a_dict(
    tmp_path_factory: pytest.TempPathFactory, commits: list[tuple[Calls, bool]]
) -> None:
    """Whatever is written in one call or in several, kept or rolled back, the first mark of each kind stays."""
    path = tmp_path_factory.mktemp("marks") / "timerd.db"
    kept: dict[tuple[int, RowKey, MarkKind], bytes] = {}
    with (
        pytest.MonkeyPatch.context() as patched,
        closing(connect(path, "off")) as connection,
        closing(connect(path, "off")) as reading,
    ):
        patched.setattr(mark_writing, "LEAST_IN_BLOCK", 3)
        patched.setattr(mark_writing, "MOST_KEYS", 5)
        patched.setattr(mark_index, "MOST_MARKS", 6)
        migrate(connection, path)
        writer, reader, names = MarkIndex(connection, refuse, is_writer=True), MarkIndex(reading, refuse), count(1)
        for calls, stays in commits:
            model = dict(kept)
            connection.execute("BEGIN")
            for shard, kind, value, numbers in calls:
                before = len(model)
                for number in numbers:
                    model.setdefault((shard, row_of(number), kind), value)
                marks = [Mark(Partition(0, START_MS, shard), row_of(n), kind, value) for n in numbers]
                assert write_marks(connection, marks, lambda: next(names), writer) == len(model) - before
            connection.execute("COMMIT" if stays else "ROLLBACK")
            if stays:
                kept = model
            else:
                writer.forget()
            assert_same(reading, reader, kept)


def assert_same(
    connection: sqlite3.Connection, index: MarkIndex, kept: dict[tuple[int, RowKey, MarkKind], bytes]
) -> None:
    for shard in (0, 1):
        partition = Partition(0, START_MS, shard)
        expected = {(row, kind): value for (there, row, kind), value in kept.items() if there == shard}
        everything, _ = marks_since(connection, partition, START_MS, START_MS + 3, 0, refuse)
        assert sorted(mark[1:] for mark in everything) == sorted((*at, value) for at, value in expected.items())
        places = sorted({row_of(number)[:2] for number in range(31)})
        for place, found in zip(places, marks_on(connection, partition, places, index), strict=True):
            of_place = sorted((*at, value) for at, value in expected.items() if at[0][:2] == place)
            assert sorted(mark[1:] for mark in found) == of_place


def refuse(error: CorruptRow) -> None:
    raise error
