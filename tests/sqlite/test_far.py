"""Day-wide groups: cheap to write far ahead, split once, and no row is lost or doubled on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing

import pytest

from tests.sqlite.conftest import DAY_MS, Bench
from timerd.adapters.sqlite import far
from timerd.adapters.sqlite.schema import connect
from timerd.model.errors import StoreUnavailable
from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.registers import control_key
from timerd.ports import Cas
from timerd.testing.contracts.build import START_MS, batch, carried, scan, spread

FAR_MS = START_MS + 10 * DAY_MS
POSITIONS = [FAR_MS + n * 7_000_003 for n in range(60)]


def places(positions_ms: list[int]) -> list[Partition]:
    return [Partition(0, bucket_ms, 0) for bucket_ms in sorted({p - p % BUCKET_MS for p in positions_ms})]


async def positions(bench_store: object, partitions: list[Partition]) -> list[int]:
    found = [await scan(bench_store, partition) for partition in partitions]  # type: ignore[arg-type]
    return sorted(k.position_ms for read in found for k in read.keys)


async def test_a_message_over_days_makes_one_group_a_day(bench: Bench) -> None:
    store = bench.open()
    (appended,) = await store.append([batch("m", POSITIONS)])
    days = {p // DAY_MS for p in POSITIONS}
    assert bench.count("far_groups") == len(days)
    assert bench.count("groups") == 0
    assert appended.sources == {}
    assert set(appended.controls) == set(places(POSITIONS))


async def test_a_spread_makes_the_same_groups_as_a_group_for_each_bucket(bench: Bench) -> None:
    store = bench.open()
    near = [START_MS + n * 7_000_003 for n in range(5)]
    await store.append([spread("m", [*near, *POSITIONS[::2]]), spread("n", [START_MS + 1, *POSITIONS[1::2]])])
    assert bench.count("far_groups") == len({p // DAY_MS for p in POSITIONS})
    assert bench.count("groups") == len(near)
    assert await positions(store, places([*near, *POSITIONS])) == sorted([*near, START_MS + 1, *POSITIONS])


async def test_a_spread_over_a_day_that_was_read_goes_to_its_buckets(bench: Bench) -> None:
    store = bench.open()
    await scan(store, places(POSITIONS)[0])
    first_day = [p for p in POSITIONS if p // DAY_MS == POSITIONS[0] // DAY_MS]
    await store.append([spread("m", POSITIONS)])
    assert bench.count("groups") == len(places(first_day))
    assert await positions(store, places(POSITIONS)) == POSITIONS


async def test_what_is_within_a_day_goes_to_its_bucket(bench: Bench) -> None:
    store = bench.open()
    (appended,) = await store.append([batch("m", [START_MS, START_MS + DAY_MS])])
    assert bench.count("far_groups") == 0
    assert len(appended.sources) == 2


async def test_the_catalogue_knows_far_buckets_without_a_split(bench: Bench) -> None:
    store = bench.open()
    await store.append([batch("m", POSITIONS)])
    entries = await store.catalogue(None, 0, 1 << 50)
    assert [Partition(e.scope, e.bucket_ms, 0) for e in entries] == places(POSITIONS)
    assert bench.count("groups") == 0


async def test_a_scan_splits_the_one_day_it_touches(bench: Bench) -> None:
    store = bench.open()
    await store.append([batch("m", POSITIONS)])
    first_day = [p for p in POSITIONS if p // DAY_MS == POSITIONS[0] // DAY_MS]
    assert await positions(store, places(first_day)) == first_day
    assert {day for (day,) in bench.query("SELECT day FROM far_groups")} == {
        p // DAY_MS for p in POSITIONS if p not in first_day
    }
    assert await positions(store, places(POSITIONS)) == POSITIONS
    assert bench.count("far_groups") == 0


async def test_many_groups_are_split_in_slices_while_others_write(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(far, "SLICE_GROUPS", 3)
    store = bench.open()
    day = [FAR_MS + n * 1_000_003 for n in range(80)]
    for n in range(10):
        await store.append([batch(f"m{n}", day[n * 8 : n * 8 + 4])])
    late = [store.append([batch(f"l{n}", day[n * 8 + 4 : n * 8 + 8])]) for n in range(10)]
    _, *rest = await asyncio.gather(positions(store, places(day)), store.split_day(FAR_MS), *late)
    assert len(rest) == 11
    assert await positions(store, places(day)) == day


async def test_rows_written_after_a_split_are_seen(bench: Bench) -> None:
    store = bench.open()
    await store.append([batch("a", POSITIONS[:3])])
    cursor = (await scan(store, places(POSITIONS)[0])).cursor
    (appended,) = await store.append([batch("b", [FAR_MS + 1])])
    assert appended.sources != {}
    read = await scan(store, Partition(0, FAR_MS, 0), cursor=cursor)
    assert [k.position_ms for k in read.keys] == [FAR_MS + 1]


async def test_a_find_sees_far_rows_also_those_written_after_it(bench: Bench) -> None:
    store = bench.open()
    partition = Partition(0, FAR_MS, 0)
    for n in range(3):
        message = batch(f"m{n}", [FAR_MS + n])
        await store.append([message])
        (key,) = message.groups[0][1].keys()
        (found,) = await store.find(partition, [(key.position_ms, key.digest)])
        assert found.rows.keys() == [key]


async def test_a_split_that_fails_half_way_loses_and_doubles_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, failing_commits: Callable[..., None]
) -> None:
    monkeypatch.setattr(far, "SLICE_GROUPS", 1)
    store = bench.open()
    day = [FAR_MS + n * 1_000_003 for n in range(40)]
    for n in range(4):
        await store.append([batch(f"m{n}", day[n * 10 : n * 10 + 10])])
    await store._writer.submit(lambda commit: commit.split(FAR_MS // DAY_MS))
    failing_commits("COMMIT", 13)
    with pytest.raises(StoreUnavailable):
        await store.split_day(FAR_MS)
    failing_commits(None)
    assert bench.count("far_groups") == 3
    store = await bench.reopen()
    assert await positions(store, places(day)) == day


async def test_carried_rows_are_kept_once_far_ahead_too(bench: Bench) -> None:
    store = bench.open()
    message = batch("m", [FAR_MS + 5])
    (key,) = message.groups[0][1].keys()
    partition = Partition(0, FAR_MS, 0)
    for payload in (b"first", b"second"):
        await store.append([carried(key, partition=partition, payload=payload)])
    store = await bench.reopen()
    await store.append([carried(key, partition=partition, payload=b"third")])
    assert (await scan(store, partition)).payloads == {key: b"first"}


async def test_control_facts_are_told_for_far_rows(bench: Bench) -> None:
    store = bench.open()
    partition = Partition(0, FAR_MS, 0)
    await store.cas([Cas(control_key(partition), None, b"held")])
    (appended,) = await store.append([batch("m", [FAR_MS])])
    assert appended.controls == {partition: b"held"}


async def test_drop_forgets_far_rows(bench: Bench) -> None:
    store = bench.open()
    await store.append([batch("m", [FAR_MS, FAR_MS + BUCKET_MS])])
    await store.drop(Partition(0, FAR_MS, 0))
    assert await positions(store, places([FAR_MS, FAR_MS + BUCKET_MS])) == [FAR_MS + BUCKET_MS]


async def test_the_days_are_those_that_have_a_group_that_can_be_read(bench: Bench) -> None:
    store = bench.open()
    for n in range(3):
        await store.append([batch(f"m{n}", POSITIONS)])
    days = {p // DAY_MS for p in POSITIONS}
    spoilt, half = min(days), max(days)
    with closing(connect(bench.path / "timerd.db", "full")) as connection:
        assert far.far_days(connection) == days
        connection.execute("UPDATE far_groups SET corrupt = 1 WHERE day = ?", (spoilt,))
        connection.execute("UPDATE far_groups SET corrupt = id % 2 WHERE day = ?", (half,))
        assert far.far_days(connection) == days - {spoilt}
        connection.execute("DELETE FROM far_groups")
        assert far.far_days(connection) == set()


async def test_a_start_does_not_read_every_far_group(bench: Bench) -> None:
    """They are many, and each lies on pages of its own."""
    bench.open()
    plan = [str(step[3]) for step in bench.query(f"EXPLAIN QUERY PLAN {far.DAYS}")]
    assert not [step for step in plan if step.startswith("SCAN far_groups")]
    assert [step for step in plan if step.startswith("SEARCH far_groups")]
