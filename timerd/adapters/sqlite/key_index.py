"""Where is a row? For each partition that is asked for, the hash of every row's key with the group that holds it.

Groups of one commit overlap in time, so no index over positions could narrow a look-up down. 16 bytes a row in memory,
brought up to date by the cursor at each use, forgotten when others need the room.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.adapters.sqlite.groups import read_group, read_groups
from timerd.adapters.sqlite.hash_runs import (
    DIGEST,
    RAW_DIGEST,
    Hashes,
    Known,
    Places,
    Sought,
    hits,
    mix,
    mix_one,
    places,
    sought,
)
from timerd.model.errors import CorruptRow
from timerd.model.identity import digest_of
from timerd.model.partition import Partition
from timerd.model.rows import PREFIX, RowGroup, concat, empty_group

MOST_ROWS = 4_000_000
# Groups that were opened are kept, for who cancels or moves a task reads its row several times.
MOST_OPEN_BYTES = 32 << 20


class _Opened(NamedTuple):
    """A group with the order of its rows by hash."""

    group: RowGroup
    hashes: Hashes
    order: npt.NDArray[np.intp]


class KeyIndex:
    """For one thread and its connection. Names of corrupt groups go to `on_corrupt`."""

    def __init__(self, connection: sqlite3.Connection, on_corrupt: Callable[[CorruptRow], None]) -> None:
        self._connection = connection
        self._on_corrupt = on_corrupt
        self._partitions: OrderedDict[Partition, Known] = OrderedDict()
        # Of all partitions, kept as they come and go: a purge of a year walks a hundred thousand of them.
        self._rows = 0
        self._open: OrderedDict[tuple[int, bool], _Opened] = OrderedDict()
        self._open_bytes = 0

    def find(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> list[RowGroup]:
        """For each (position_ms, digest) its rows of all versions."""
        return [concat(parts) if parts else empty_group() for parts in self.locate(partition, keys, payloads=True)]

    def locate(
        self, partition: Partition, keys: Sequence[tuple[int, bytes]], *, payloads: bool
    ) -> list[list[RowGroup]]:
        """The same, each row as a group of one that still names its source."""
        found: list[list[RowGroup]] = [[] for _ in keys]
        wanted = sought(keys)
        for name, asked in self._candidates(partition, wanted.hashes).items():
            opened = self._opened(name, payloads)
            if opened is not None:
                at, rows = _matches(opened, wanted, asked)
                for n, row in zip(at.tolist(), rows.tolist(), strict=True):
                    found[n].append(opened.group.one(row))
        return found

    def single(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> npt.NDArray[np.bool_]:
        """Whether there is one row, and it is of version 0."""
        wanted = sought(keys)
        count, later = np.zeros(len(keys), np.intp), np.zeros(len(keys), np.bool_)
        for name, asked in self._candidates(partition, wanted.hashes).items():
            opened = self._opened(name, payloads=True)
            if opened is not None:
                at, rows = _matches(opened, wanted, asked)
                count += np.bincount(at, minlength=len(keys))
                later[at] |= opened.group.columns["version"][rows] > 0
        one: npt.NDArray[np.bool_] = (count == 1) & ~later
        return one

    def is_single(self, partition: Partition, position_ms: int, digest: bytes) -> bool:
        """As `single` for one row, without numpy, whose calls cost more here than its loops save."""
        wanted = np.uint64(mix_one(position_ms, digest))
        runs = self._fresh(partition).runs
        names = {int(run.names[at]) for run in runs for at in places(run.hashes, wanted)}
        count = 0
        for name in names:
            opened = self._opened(name, payloads=True)
            if opened is None:
                continue
            for at in places(opened.hashes, wanted):
                group, row = opened.group, int(opened.order[at])
                at_ms, _, prefix, index, version, *_ = group.columns[row].item()
                if at_ms == position_ms and digest_of(group.prefixes[prefix].tobytes(), index) == digest:
                    if version:
                        return False
                    count += 1
        return count == 1

    def forget(self, partition: Partition | None = None) -> None:
        """Of a partition, or all. Names may be given again after that."""
        self._open.clear()
        self._open_bytes = 0
        if partition is None:
            self._partitions.clear()
            self._rows = 0
        elif partition in self._partitions:
            self._rows -= len(self._partitions.pop(partition))

    def _candidates(self, partition: Partition, wanted: Hashes) -> dict[int, Places]:
        """Group -> which of the keys may be in it."""
        return self._fresh(partition).candidates(wanted)

    def _fresh(self, partition: Partition) -> Known:
        known = self._partitions.setdefault(partition, Known())
        self._partitions.move_to_end(partition)
        hashes: list[Hashes] = []
        names: list[int] = []
        for stored in read_groups(self._connection, partition, known.cursor, keys_only=True):
            known.cursor = stored.id
            try:
                hashes.append(_hash_rows(stored.open()))
                names.append(stored.id)
            except CorruptRow as error:
                self._on_corrupt(error)
        if names:
            known.add(hashes, names)
            self._rows += sum(map(len, hashes))
            self._make_room()
        return known

    def _make_room(self) -> None:
        while self._rows > MOST_ROWS and len(self._partitions) > 1:
            self._rows -= len(self._partitions.popitem(last=False)[1])

    def _opened(self, name: int, payloads: bool) -> _Opened | None:
        found = self._open.get((name, payloads))
        if found is not None:
            self._open.move_to_end((name, payloads))
            return found
        group = self._read(name, payloads)
        if group is None:
            return None
        hashes = _hash_rows(group)
        order = np.argsort(hashes, kind="stable")
        opened = self._open[(name, payloads)] = _Opened(group, hashes[order], order)
        self._open_bytes += _size_bytes(opened)
        while self._open_bytes > MOST_OPEN_BYTES:
            self._open_bytes -= _size_bytes(self._open.popitem(last=False)[1])
        return opened

    def _read(self, name: int, payloads: bool) -> RowGroup | None:
        stored = read_group(self._connection, name)
        if stored is None:
            return None
        try:
            return (stored if payloads else stored._replace(payloads=None)).open()
        except CorruptRow as error:
            self._on_corrupt(error)
            return None


def _hash_rows(group: RowGroup) -> Hashes:
    raw = np.empty(len(group), np.dtype([("prefix", PREFIX), ("index", ">u4")]))
    raw["prefix"] = group.prefixes[group.columns["prefix"]]
    raw["index"] = group.columns["index"]
    return mix(group.columns["position_ms"].astype(np.int64), raw.view(DIGEST))


def _size_bytes(opened: _Opened) -> int:
    return opened.group.size_bytes + 16 * len(opened.hashes) + 1_000


def _matches(opened: _Opened, wanted: Sought, asked: Places) -> tuple[Places, Places]:
    """Pairs of one of `asked` and its row in the group; equal hashes of other keys are told apart here."""
    at, entries = hits(opened.hashes, wanted.hashes[asked])
    at, rows = asked[at], opened.order[entries]
    met = opened.group.select(rows)
    same = met.columns["position_ms"] == wanted.positions_ms[at]
    same &= met.packed_digests().view(RAW_DIGEST) == wanted.digests[at]
    return (at, rows) if same.all() else (at[same], rows[same])
