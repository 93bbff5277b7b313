"""Where the rows of one message go: to their instants, or to now where these have passed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from timerd.model.first_reply import Times
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import FLAG_LATE, RowGroup


def placed_from(asked_ms: Times, now_ms: int) -> Times:
    """Where rows live that are asked for now: the same array where none is late."""
    first_ms = asked_ms[0] if len(asked_ms) == 1 else asked_ms.min(initial=now_ms)
    return asked_ms if first_ms >= now_ms else np.maximum(asked_ms, now_ms)


def marked_late(rows: RowGroup, now_ms: int) -> RowGroup:
    """The same rows; what is due already is marked so."""
    is_late = rows.columns["fire_at_ms"] < now_ms
    if not bool(is_late.any()):
        return rows
    columns = rows.columns.copy()
    columns["flags"] |= np.where(is_late, np.uint8(FLAG_LATE), np.uint8(0))
    return RowGroup(columns, rows.prefixes, rows.templates, rows.payloads, rows.extras)


def positioned(rows: RowGroup, positions_ms: Times, asked_ms: Times) -> RowGroup:
    """The same rows where they will live; what came too late is marked so."""
    if positions_ms is asked_ms:
        return rows
    if positions_ms.tobytes() == asked_ms.tobytes() == rows.columns["position_ms"].tobytes():
        return rows
    columns = rows.columns.copy()
    columns["position_ms"] = positions_ms
    columns["flags"] |= np.where(positions_ms > asked_ms, np.uint8(FLAG_LATE), np.uint8(0))
    return RowGroup(columns, rows.prefixes, rows.templates, rows.payloads, rows.extras)


def by_key_shard(
    rows: RowGroup, shards: Mapping[int, int], of_keys: Mapping[int, int]
) -> list[tuple[Partition, RowGroup]]:
    """As `by_bucket`. `of_keys`: row -> key shard, of those that have one."""
    if not of_keys:
        return by_bucket(rows, shards)
    parts: defaultdict[int, list[int]] = defaultdict(list)
    for row in range(len(rows)):
        parts[of_keys.get(row, -1)].append(row)
    found: list[tuple[Partition, RowGroup]] = []
    for shard, which in parts.items():
        own = shards if shard < 0 else dict.fromkeys(shards, shard)
        found += by_bucket(rows.select(np.array(which, np.intp)), own)
    return found


def by_bucket(rows: RowGroup, shards: Mapping[int, int]) -> list[tuple[Partition, RowGroup]]:
    """`shards` has the shard of each bucket."""
    if not len(rows):
        return []
    positions_ms = rows.columns["position_ms"]
    first_ms = bucket_of(int(positions_ms[0]))
    if len(rows) == 1 or bool((positions_ms // BUCKET_MS == first_ms // BUCKET_MS).all()):
        return [(Partition(TIME_SCOPE, first_ms, shards[first_ms]), rows)]
    buckets = positions_ms - positions_ms % BUCKET_MS
    # Sorted once: its parts are then slices, which copy nothing.
    ordered = rows.select(np.argsort(buckets, kind="stable"))
    places = np.sort(buckets)
    ends = [*np.flatnonzero(np.diff(places)) + 1, len(places)]
    return [
        (Partition(TIME_SCOPE, int(places[start]), shards[int(places[start])]), ordered.select(slice(start, end)))
        for start, end in pairwise([0, *ends])
    ]
