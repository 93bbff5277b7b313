"""A spread is cut where its partitions begin, and loses no row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from timerd.model.identity import mac_of, macs_of
from timerd.model.partition import BUCKET_MS, Partition, bucket_of
from timerd.model.rows import ROW, RowGroup, empty_group
from timerd.model.spread import Spread, cut

TIMES = st.lists(st.integers(0, 20 * BUCKET_MS), min_size=1, max_size=30).map(sorted)


def group(positions_ms: list[int]) -> RowGroup:
    columns = np.zeros(len(positions_ms), ROW)
    columns["position_ms"] = positions_ms
    rows = empty_group()
    rows.columns = columns
    return rows


def times(rows: RowGroup) -> list[int]:
    found: list[int] = rows.columns["position_ms"].tolist()
    return found


@given(TIMES)
def test_each_part_holds_the_rows_of_its_partition(positions_ms: list[int]) -> None:
    spread = Spread(3, 1, group(positions_ms))
    parts = dict(spread.parts())
    assert list(parts) == sorted({Partition(3, bucket_of(p), 1) for p in positions_ms})
    assert [p for rows in parts.values() for p in times(rows)] == positions_ms
    for partition, rows in parts.items():
        assert {bucket_of(p) for p in times(rows)} == {partition.bucket_ms}
        assert times(spread.part(partition)) == times(rows)
    assert (spread.first, spread.last) == (min(parts), max(parts))


@given(TIMES, st.integers(0, 21))
def test_a_partition_that_is_not_in_it_has_no_rows(positions_ms: list[int], bucket: int) -> None:
    spread = Spread(3, 1, group(positions_ms))
    wanted = Partition(3, bucket * BUCKET_MS, 1)
    assert times(spread.part(wanted)) == [p for p in positions_ms if bucket_of(p) == wanted.bucket_ms]
    assert not len(spread.part(wanted._replace(shard=0)))
    assert not len(spread.part(wanted._replace(scope=0)))


def test_nothing_is_cut_into_nothing() -> None:
    assert list(cut(group([]), 1_000)) == []


def test_the_macs_of_many_buckets_are_those_of_each() -> None:
    shards = {n * BUCKET_MS: n % 3 for n in (0, 1, 6_000_000)}
    each = [mac_of(b"secret", "ns", b"p" * 12, Partition(0, *home), 77, 4) for home in shards.items()]
    assert macs_of(b"secret", "ns", b"p" * 12, shards, 77, 4) == each
    assert len(set(each)) == 3
