"""Rows of many partitions in one piece: stored as if each had come for its own partition, and the same facts told."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from timerd.model.identity import RowKey
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.registers import control_key
from timerd.ports import Cas, Store
from timerd.testing.contracts.build import END_MS, HERE, NEXT, START_MS, batch, found_versions, scan, spread, tasks

HOUR_MS = 3_600_000
# Over a day and a half: several buckets of each day, one of them twice.
POSITIONS = [START_MS + 5, START_MS + 9, *(START_MS + n * HOUR_MS + n for n in range(1, 36))]
BETWEEN = Partition(TIME_SCOPE, START_MS + 2 * BUCKET_MS, 0)


def bucket(position_ms: int) -> Partition:
    return Partition(TIME_SCOPE, position_ms - position_ms % BUCKET_MS, 0)


BUCKETS = sorted({bucket(position_ms) for position_ms in POSITIONS})


@pytest.mark.asyncio
class SpreadContract:
    """Append of a spread."""

    async def test_every_row_of_a_spread_is_in_its_partition(self, store: Store) -> None:
        await store.append([spread("m", list(reversed(POSITIONS)))])
        read = [await scan(store, partition) for partition in BUCKETS]
        assert [k for one in read for k in one.keys] == sorted(tasks("m", list(reversed(POSITIONS))).keys())
        assert {body for one in read for body in one.payloads.values()} == {b"body"}

    async def test_a_row_of_a_spread_is_found_by_its_key(self, store: Store) -> None:
        await store.append([spread("m", POSITIONS)])
        for key in tasks("m", POSITIONS).keys()[::7]:
            assert await found_versions(store, [key], bucket(key.position_ms)) == [[0]]

    async def test_the_catalogue_names_the_buckets_of_a_spread(self, store: Store) -> None:
        await store.append([spread("m", POSITIONS)])
        entries = await store.catalogue(None, 0, 1 << 60)
        assert [Partition(e.scope, e.bucket_ms, 0) for e in entries] == BUCKETS
        assert {(e.finishing, e.finished) for e in entries} == {(False, False)}

    async def test_a_message_may_hold_both(self, store: Store) -> None:
        (appended,) = await store.append([spread("m", POSITIONS[2:], near=batch("m", POSITIONS[:2]))])
        assert appended.controls == {HERE: None}
        assert [k.position_ms for p in BUCKETS for k in (await scan(store, p)).keys] == POSITIONS

    async def test_of_a_spread_only_partitions_with_a_control_row_are_named(self, store: Store) -> None:
        held = Cas(control_key(bucket(POSITIONS[7])), None, b"held")
        others = [BETWEEN, Partition(TIME_SCOPE, POSITIONS[9] - POSITIONS[9] % BUCKET_MS, 1), Partition(7, START_MS, 0)]
        await store.cas([held, *(Cas(control_key(other), None, b"other") for other in others)])
        (appended,) = await store.append([spread("m", POSITIONS)])
        assert appended.controls == {bucket(POSITIONS[7]): b"held"}
        assert appended.finishing == frozenset()

    async def test_of_a_spread_partitions_that_are_finishing_are_named(self, store: Store) -> None:
        for partition in (BETWEEN, HERE, bucket(POSITIONS[-1])):
            await store.finish_bucket(TIME_SCOPE, partition.bucket_ms, finished=False)
        await store.finish_bucket(7, START_MS + HOUR_MS, finished=False)
        await store.cas([Cas(control_key(HERE), None, b"held")])
        (appended,) = await store.append([spread("m", POSITIONS)])
        assert appended.controls == {HERE: b"held"}
        assert appended.finishing == {bucket(POSITIONS[-1])}

    async def test_facts_are_told_for_times_of_any_length(self, store: Store) -> None:
        early, late = Partition(TIME_SCOPE, 9 * BUCKET_MS, 0), Partition(TIME_SCOPE, 2_000 * BUCKET_MS, 0)
        await store.cas([Cas(control_key(early), None, b"early"), Cas(control_key(late), None, b"late")])
        (appended,) = await store.append([spread("m", [early.bucket_ms, late.bucket_ms, START_MS])])
        assert appended.controls == {early: b"early", late: b"late"}

    async def test_a_close_that_misses_a_row_of_a_spread_is_seen_by_its_writer(self, store: Store) -> None:
        async def close(n: int, seen: bytes | None) -> set[RowKey]:
            await store.cas([Cas(control_key(NEXT), seen, b"%d" % n)])
            return set((await scan(store, NEXT)).keys)

        value: bytes | None = None
        for n in range(8):
            message = spread(f"m{n}", [START_MS + n, END_MS + n])
            appended, keys = await asyncio.gather(store.append([message]), close(n, value))
            value = b"%d" % n
            assert tasks(f"m{n}", [START_MS + n, END_MS + n]).keys()[1] in keys or appended[0].controls[NEXT] == value

    async def test_rows_of_a_spread_that_is_not_remembered_are_kept_as_they_are(self, store: Store) -> None:
        for payload in (b"first", b"other"):
            await store.append([replace(spread("m", POSITIONS, payload=payload), prefix=b"")])
        payloads = [body for p in BUCKETS for body in (await scan(store, p)).payloads.values()]
        assert payloads == [b"first"] * len(POSITIONS)
