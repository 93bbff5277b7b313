"""Rows of many partitions in one piece: a message over a month touches a thousand buckets, and a thousand groups of one
row cost several times what a thousand rows cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.rows import RowGroup


@dataclass(frozen=True, slots=True)
class Spread:
    """`rows` of all buckets of one scope, sorted by position; at least one. They are of one shard, but for the buckets
    that `shards` has."""

    scope: int
    shard: int
    rows: RowGroup
    shards: Mapping[int, int] = field(default_factory=dict)

    @property
    def first(self) -> Partition:
        return self._partition(_start_ms(self.rows, 0))

    @property
    def last(self) -> Partition:
        return self._partition(_start_ms(self.rows, -1))

    def parts(self) -> Iterator[tuple[Partition, RowGroup]]:
        """By partition, oldest first."""
        for bucket, rows in cut(self.rows, BUCKET_MS):
            yield self._partition(bucket * BUCKET_MS), rows

    def part(self, partition: Partition) -> RowGroup:
        """The rows of one partition, possibly none."""
        if partition != self._partition(partition.bucket_ms):
            return self.rows.select(slice(0, 0))
        limits = [partition.bucket_ms, partition.end_ms]
        return self.rows.select(slice(*np.searchsorted(self.rows.columns["position_ms"], limits).tolist()))

    def _partition(self, bucket_ms: int) -> Partition:
        return Partition(self.scope, bucket_ms, self.shards.get(bucket_ms, self.shard))


def cut(rows: RowGroup, width_ms: int) -> Iterator[tuple[int, RowGroup]]:
    """Sorted rows by the ordinal of the stretch of time they lie in; the parts are slices, which copy nothing."""
    ordinals = rows.columns["position_ms"] // width_ms
    begins = [0, *(np.flatnonzero(ordinals[1:] != ordinals[:-1]) + 1).tolist()]
    if not len(rows):
        return
    for begin, end in zip(begins, [*begins[1:], len(rows)], strict=True):
        yield int(ordinals[begin]), rows.select(slice(begin, end))


def _start_ms(rows: RowGroup, row: int) -> int:
    position_ms = int(rows.columns["position_ms"][row])
    return position_ms - position_ms % BUCKET_MS
