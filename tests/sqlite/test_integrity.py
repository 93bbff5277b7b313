"""What does not match its checksum is never delivered; everything else is, and the facts name what is missing."""

from __future__ import annotations

import pytest

from tests.sqlite.conftest import DAY_MS, Bench
from timerd.model.partition import Partition
from timerd.model.settle import Outcome, SettleRecord, settle_entries
from timerd.testing.contracts.build import HERE, START_MS, batch, found_versions, key, message, scan

FLIP = "UPDATE {0} SET {1} = CAST(substr({1}, 1, {2}) || x'ff' || substr({1}, {2} + 2) AS BLOB) WHERE id = ?"


async def spoilt(bench: Bench, table: str, column: str, name: int = 1, at: int = 3) -> None:
    await bench.close()
    bench.query(FLIP.format(table, column, at), name)


@pytest.mark.parametrize("column", ["keys", "payloads"])
async def test_a_spoilt_group_is_left_out_and_named(bench: Bench, column: str) -> None:
    store = bench.open()
    await store.append([message("a", key("a", 1))])
    await store.append([message("b", key("b", 2))])
    await spoilt(bench, "groups", column)
    store = bench.open()
    assert (await store.facts()).corrupt == ()
    for _ in range(2):
        assert (await scan(store)).keys == [key("b", 2)]
    assert await found_versions(store, [key("a", 1), key("b", 2)]) == [[], [0]]
    (sentence,) = (await store.facts()).corrupt
    assert column in sentence
    assert "row group 1" in sentence


async def test_what_is_no_blob_any_more_is_left_out_too(bench: Bench) -> None:
    store = bench.open()
    await store.append([message("a", key("a", 1))])
    await store.append([message("b", key("b", 2))])
    await bench.close()
    bench.query("UPDATE groups SET keys = 17 WHERE id = 1")
    store = bench.open()
    assert (await scan(store)).keys == [key("b", 2)]
    assert len((await store.facts()).corrupt) == 1
    await bench.close()
    bench.query("UPDATE groups SET keys = CAST(x'ff' AS TEXT) WHERE id = 1")
    assert (await scan(bench.open())).keys == [key("b", 2)]


async def test_spoilt_payloads_do_not_hide_the_keys(bench: Bench) -> None:
    store = bench.open()
    await store.append([message("a", key("a", 1))])
    await spoilt(bench, "groups", "payloads")
    assert (await scan(bench.open(), keys_only=True)).keys == [key("a", 1)]


async def test_a_spoilt_far_group_stays_where_it_is(bench: Bench) -> None:
    far_ms = START_MS + 5 * DAY_MS
    store = bench.open()
    await store.append([batch("a", [far_ms])])
    await store.append([batch("b", [far_ms + 1])])
    await spoilt(bench, "far_groups", "keys")
    store = bench.open()
    read = await scan(store, Partition(0, far_ms, 0))
    assert [k.position_ms for k in read.keys] == [far_ms + 1]
    assert bench.count("far_groups") == 1
    (before,) = (await store.facts()).corrupt
    (after,) = (await (await bench.reopen()).facts()).corrupt
    assert before == after
    assert "far row group 1" in before


async def test_a_spoilt_settle_record_is_left_out_and_named(bench: Bench) -> None:
    store = bench.open()
    for sequence in (1, 2):
        entries = settle_entries([(key("a"), Outcome.ACKED)])
        await store.settle([SettleRecord(HERE, 1, sequence, entries)])
    await spoilt(bench, "settled", "packed", at=10)
    store = bench.open()
    assert [record.sequence for record in await store.settled(HERE)] == [2]
    (sentence,) = (await store.facts()).corrupt
    assert "settle record 1/1" in sentence
