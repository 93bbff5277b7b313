"""The order of a bucket's rows: read once, then by what a page needs, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.sqlite.conftest import Bench
from timerd.adapters.sqlite import groups, order_index
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.rows import RowGroup
from timerd.testing.contracts.build import END_MS, HERE, NEXT, START_MS, batch, key, message, stretches

ROWS = 10_000


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each group had that was opened."""
    counts: list[int] = []
    unpack: Callable[[bytes, bytes], RowGroup] = RowGroup.unpack

    def counted(keys: bytes, payloads: bytes) -> RowGroup:
        group = unpack(keys, payloads)
        counts.append(len(group))
        return group

    monkeypatch.setattr(RowGroup, "unpack", counted)
    return counts


async def test_the_keys_of_a_bucket_are_opened_once(bench: Bench, unpacked: list[int]) -> None:
    store = bench.open()
    positions = np.linspace(START_MS, END_MS - 1, ROWS).astype(int).tolist()
    for n in range(10):
        await store.append([batch(f"m{n}", positions[n::10])])
    unpacked.clear()
    pages = await stretches(store, most_rows=100)
    assert (len(pages), sum(len(page.rows) for page in pages)) == (100, ROWS)
    assert sum(unpacked) == ROWS
    await store.append([message("late", key("late", 7))])
    assert key("late", 7) in (await store.stretch(HERE, (START_MS, b""), END_MS, 5)).rows.keys()
    assert sum(unpacked) == ROWS + 1


async def test_a_page_opens_no_more_groups_than_it_has_rows(
    bench: Bench, unpacked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the groups of a bucket are more than are kept open."""
    monkeypatch.setattr(groups, "MOST_BYTES", 1)
    store = bench.open()
    positions = np.linspace(START_MS, END_MS - 1, 1_000).astype(int).tolist()
    for n in range(100):
        await store.append([batch(f"m{n}", positions[n::100])])
    _, through = [(page.rows, page.through) for page in await stretches(store, most_rows=5)][50]
    unpacked.clear()
    assert through is not None
    assert len((await store.stretch(HERE, through, END_MS, 5)).rows) == 5
    assert sum(unpacked) <= 5 * 10


async def test_what_is_forgotten_is_read_anew(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_index, "MOST_ROWS", 1)
    store = bench.open()
    later = batch("n", [END_MS + n for n in range(10)])
    await store.append([batch("m", [START_MS + n for n in range(10)]), later])
    for _ in range(2):
        assert [len(page.rows) for page in await stretches(store, most_rows=4)] == [4, 4, 2]
        assert len((await store.stretch(NEXT, (END_MS, b""), END_MS + 5, 100)).rows) == 5


async def test_of_many_buckets_a_few_are_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_index, "MOST_PARTITIONS", 3)
    store = bench.open()
    places = [START_MS + n * BUCKET_MS for n in range(10)]
    await store.append([batch("m", places)])
    for at_ms in places:
        assert len((await store.stretch(Partition(TIME_SCOPE, at_ms, 0), (at_ms, b""), at_ms + 1, 5)).rows) == 1
    assert len(store._lists._order._partitions) == 3


async def test_many_commits_between_pages_are_merged(bench: Bench) -> None:
    store = bench.open()
    for n in range(30):
        await store.append([message(f"m{n}", key(f"a{n:02}", 1000 - n), key(f"b{n:02}", n))])
        await store.stretch(HERE, (START_MS, b""), END_MS, 3)
    positions = [k.position_ms - START_MS for page in await stretches(store, most_rows=7) for k in page.rows.keys()]
    assert positions == [*range(30), *range(971, 1001)]
