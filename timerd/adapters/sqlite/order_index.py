"""What comes next? For each partition that is listed, the keys of its rows in order, each with the group that holds it.

Groups of one commit overlap in time, so that without this each page of a list would read all groups of its bucket. 28
bytes a row in memory, brought up to date by the cursor at each use, forgotten when others need the room.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.adapters.sqlite.groups import Opened, OpenGroups, read_groups
from timerd.model.identity import DIGEST_BYTES
from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.rows import RowGroup, concat, empty_group

MOST_ROWS = 2_000_000
# Who lists a year goes through a hundred thousand of them, most with a few rows.
MOST_PARTITIONS = 256
_MOST_RUNS = 8
# Distance to the start of the bucket, then the digest: as texts they sort as they should.
_KEY = np.dtype([("after_ms", ">u4"), ("digest", f"V{DIGEST_BYTES}")])
_TEXT = np.dtype(f"S{_KEY.itemsize}")
KeyColumn = npt.NDArray[np.bytes_]


class _Run(NamedTuple):
    """Sorted by `keys`; `groups`: places among the names of the partition's groups; `rows`: within these."""

    keys: KeyColumn
    groups: npt.NDArray[np.uint32]
    rows: npt.NDArray[np.uint32]

    def part(self, begin: int, end: int) -> _Run:
        return _Run(self.keys[begin:end], self.groups[begin:end], self.rows[begin:end])


@dataclass(slots=True)
class _Ordered:
    """One partition, up to the cursor."""

    cursor: int = 0
    names: list[int] = field(default_factory=list)
    runs: list[_Run] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(run.keys) for run in self.runs)

    def add(self, opened: list[Opened], bucket_ms: int) -> None:
        first = len(self.names) - len(opened)
        self.runs.append(_sorted([_run_of(each, first + n, bucket_ms) for n, each in enumerate(opened)]))
        if len(self.runs) > _MOST_RUNS:
            self.runs = [_sorted(self.runs)]

    def between(self, after: bytes, end: bytes, most_rows: int) -> tuple[_Run, bool]:
        """The first keys behind `after` and before `end`, equal ones together, and whether there are more."""
        parts: list[_Run] = []
        has_more = False
        for run in self.runs:
            begin, stop = int(np.searchsorted(run.keys, after, "right")), int(np.searchsorted(run.keys, end))
            cut = _whole(run.keys, begin, stop, most_rows)
            has_more |= cut < stop
            parts.append(run.part(begin, cut))
        merged = parts[0] if len(parts) == 1 else _sorted(parts)
        cut = _whole(merged.keys, 0, len(merged.keys), most_rows)
        return merged.part(0, cut), has_more or cut < len(merged.keys)


class OrderIndex:
    """For one thread and its connection."""

    def __init__(self, connection: sqlite3.Connection, groups: OpenGroups) -> None:
        self._connection = connection
        self._groups = groups
        self._partitions: OrderedDict[Partition, _Ordered] = OrderedDict()
        # Of all partitions, kept as they come and go.
        self._row_count = 0

    def stretch(
        self, partition: Partition, after: tuple[int, bytes], hi_ms: int, most_rows: int
    ) -> tuple[RowGroup, tuple[int, bytes] | None]:
        """As Rows.stretch, without the marks."""
        known = self._fresh(partition)
        ends = _text(partition, after), _text(partition, (hi_ms, b""))
        found, has_more = known.between(*ends, most_rows)
        through = found.keys[-1].ljust(_KEY.itemsize, b"\0") if has_more else None
        return self._rows(known, found), _place(partition, through) if through is not None else None

    def forget(self, partition: Partition | None = None) -> None:
        """Of a partition, or all. Names may be given again after that."""
        if partition is None:
            self._partitions.clear()
            self._row_count = 0
        elif partition in self._partitions:
            self._row_count -= len(self._partitions.pop(partition))

    def _rows(self, known: _Ordered, found: _Run) -> RowGroup:
        parts: list[RowGroup] = []
        at: list[npt.NDArray[np.intp]] = []
        for group in sorted(set(found.groups.tolist())):
            opened = self._groups.get(known.names[group], payloads=False)
            if opened is not None:
                at.append(np.flatnonzero(found.groups == group))
                parts.append(opened.group.select(found.rows[at[-1]].astype(np.intp)))
        if not parts:
            return empty_group()
        is_other = found.keys[1:] != found.keys[:-1]
        if len(parts) == 1 and is_other.all():
            return parts[0]
        rows, ranks = concat(parts), np.cumsum(np.append(False, is_other))
        return rows.select(np.lexsort((rows.columns["version"], ranks[np.concatenate(at)])))

    def _fresh(self, partition: Partition) -> _Ordered:
        known = self._partitions.get(partition) or _Ordered()
        opened: list[Opened] = []
        for stored in read_groups(self._connection, partition, known.cursor, keys_only=True):
            known.cursor = stored.id
            each = self._groups.open(stored, payloads=False)
            if each is not None:
                opened.append(each)
                known.names.append(stored.id)
        if opened:
            known.add(opened, partition.bucket_ms)
            self._row_count += sum(len(each.digests) for each in opened)
        if known.cursor:
            self._partitions[partition] = known
            self._partitions.move_to_end(partition)
            self._make_room()
        return known

    def _make_room(self) -> None:
        while len(self._partitions) > 1 and (self._row_count > MOST_ROWS or len(self._partitions) > MOST_PARTITIONS):
            self._row_count -= len(self._partitions.popitem(last=False)[1])


def _run_of(opened: Opened, group: int, bucket_ms: int) -> _Run:
    count = len(opened.digests)
    keys = np.empty(count, _KEY)
    keys["after_ms"] = opened.positions_ms - bucket_ms
    keys["digest"] = opened.digests
    return _Run(keys.view(_TEXT), np.full(count, group, np.uint32), np.arange(count, dtype=np.uint32))


def _sorted(runs: list[_Run]) -> _Run:
    if not runs:
        return _Run(np.empty(0, _TEXT), np.empty(0, np.uint32), np.empty(0, np.uint32))
    keys, groups, rows = (np.concatenate(columns) for columns in zip(*runs, strict=True))
    order = np.argsort(keys, kind="stable")
    return _Run(keys[order], groups[order], rows[order])


def _whole(keys: KeyColumn, begin: int, stop: int, most: int) -> int:
    """The end of `most` of them, or a few more: behind the last one that is equal to the one at the cut."""
    cut = min(stop, begin + max(1, most))
    return max(cut, int(np.searchsorted(keys[:stop], keys[cut - 1], "right"))) if begin < cut else begin


def _text(partition: Partition, place: tuple[int, bytes]) -> bytes:
    """Behind an empty digest all digests of its instant come."""
    position_ms, digest = place
    after_ms = min(max(position_ms - partition.bucket_ms, 0), BUCKET_MS)
    if position_ms < partition.bucket_ms:
        digest = b""
    return after_ms.to_bytes(4, "big") + digest


def _place(partition: Partition, text: bytes) -> tuple[int, bytes]:
    return partition.bucket_ms + int.from_bytes(text[:4], "big"), text[4:]
