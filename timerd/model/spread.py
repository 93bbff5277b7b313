"""Rows of many partitions in one piece: a message over a month touches a thousand buckets, and a thousand groups of one
row cost several times what a thousand rows cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.rows import RowGroup


@dataclass(frozen=True, slots=True)
class Spread:
    """`rows` of all buckets of one scope and shard, sorted by position; at least one."""

    scope: int
    shard: int
    rows: RowGroup

    @property
    def first(self) -> Partition:
        return Partition(self.scope, _start_ms(self.rows, 0), self.shard)

    @property
    def last(self) -> Partition:
        return Partition(self.scope, _start_ms(self.rows, -1), self.shard)

    def parts(self) -> Iterator[tuple[Partition, RowGroup]]:
        """By partition, oldest first."""
        for bucket, rows in cut(self.rows, BUCKET_MS):
            yield Partition(self.scope, bucket * BUCKET_MS, self.shard), rows

    def part(self, partition: Partition) -> RowGroup:
        """The rows of one partition, possibly none."""
        if (partition.scope, partition.shard) != (self.scope, self.shard):
            return self.rows.select(slice(0, 0))
        limits = [partition.bucket_ms, partition.end_ms]
        return self.rows.select(slice(*np.searchsorted(self.rows.columns["position_ms"], limits).tolist()))


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
