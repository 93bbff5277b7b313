"""Row groups in the file: written sorted, with a checksum of each of their two parts, verified whenever they are read.

The keys stand before the payloads, so that a read of keys does not touch the pages of the payloads. Groups that were
opened are kept for a while: who cancels or moves a task reads its row several times, and one page of a bucket has rows
of many groups, as has the next one.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.adapters.sqlite.hash_runs import RAW_DIGEST
from timerd.model.errors import CorruptRow
from timerd.model.few_rows import FewRows, few_rows
from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.rows import RowGroup, concat

INSERT = "INSERT INTO groups"
_BY_PLACE = "FROM groups WHERE scope = ? AND bucket = ? AND shard = ? AND id > ? ORDER BY id"
_WITH_PAYLOADS = f"SELECT id, first_ms, last_ms, keys_crc, keys, payloads_crc, payloads {_BY_PLACE}"
_KEYS_ONLY = f"SELECT id, first_ms, last_ms, keys_crc, keys, NULL, NULL {_BY_PLACE}"
_ONE = "SELECT id, first_ms, last_ms, keys_crc, keys, payloads_crc, payloads FROM groups WHERE id = ?"
_KEYS_OF_ONE = "SELECT id, first_ms, last_ms, keys_crc, keys, NULL, NULL FROM groups WHERE id = ?"

# Of groups that are kept open.
MOST_BYTES = 32 << 20
GroupPlace = tuple[int, int, int]


def place_of(partition: Partition) -> GroupPlace:
    """As the tables name it."""
    return partition.scope, partition.bucket_ms // BUCKET_MS, partition.shard


class StoredGroup(NamedTuple):
    """A row of the table. Times are distances to the start of the bucket."""

    id: int
    first_ms: int
    last_ms: int
    keys_crc: int
    keys: bytes
    payloads_crc: int | None
    payloads: bytes | None

    def overlaps(self, lo_ms: int, hi_ms: int) -> bool:
        return self.first_ms < hi_ms and self.last_ms >= lo_ms

    def open(self) -> RowGroup:
        """Raises CorruptRow where a checksum does not fit."""
        return open_group(f"row group {self.id}", self[3:], self.id)


class Packed(NamedTuple):
    """The last columns of both tables of groups."""

    keys_crc: int
    payloads_crc: int
    keys: bytes
    payloads: bytes | memoryview


def checksum(data: bytes | memoryview) -> int:
    """Signed, so that SQLite stores it in 4 bytes."""
    unsigned = zlib.crc32(data)
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned


def pack(group: RowGroup | FewRows) -> Packed:
    keys = group.pack_keys() if isinstance(group, RowGroup) else group.keys
    return Packed(checksum(keys), checksum(group.payloads), keys, group.payloads)


def open_group(name: str, parts: Sequence[object], source: int) -> RowGroup:
    """`parts`: crc and bytes of the keys, crc and bytes of the payloads (None where only keys were read)."""
    keys_crc, keys, payloads_crc, payloads = parts
    if not isinstance(keys, bytes) or checksum(keys) != keys_crc:
        raise CorruptRow(f"The keys of {name} do not match their checksum.")
    if payloads is None:
        payloads = b""
    elif not isinstance(payloads, bytes) or checksum(payloads) != payloads_crc:
        raise CorruptRow(f"The payloads of {name} do not match their checksum.")
    group = RowGroup.unpack(keys, payloads)
    group.source = source
    return group


def join_sorted(groups: Sequence[RowGroup]) -> RowGroup:
    """One group of all rows by position, with nothing that they do not use."""
    group = concat(groups)
    positions = group.columns["position_ms"]
    if len(group) == 1 or bool((positions[1:] >= positions[:-1]).all()):
        return group.compact()
    return group.select(np.argsort(positions, kind="stable")).compact()


def joined_row(name: int, partition: Partition, groups: Sequence[RowGroup]) -> tuple[object, ...]:
    """All rows of these groups as one row for INSERT."""
    few = few_rows(groups)
    if few is not None:
        return _row(name, partition, few, few.first_ms, few.last_ms)
    return stored_row(name, partition, join_sorted(groups))


def stored_row(name: int, partition: Partition, group: RowGroup) -> tuple[object, ...]:
    """A row for INSERT; the group is sorted."""
    positions = group.columns["position_ms"]
    return _row(name, partition, group, int(positions[0]), int(positions[-1]))


def _row(name: int, partition: Partition, group: RowGroup | FewRows, first_ms: int, last_ms: int) -> tuple[object, ...]:
    bucket_ms = partition.bucket_ms
    return (name, *place_of(partition), first_ms - bucket_ms, last_ms - bucket_ms, *pack(group))


def read_groups(
    connection: sqlite3.Connection, partition: Partition, cursor: int, *, keys_only: bool
) -> Iterator[StoredGroup]:
    """In the order of their ids, those after `cursor`."""
    statement = _KEYS_ONLY if keys_only else _WITH_PAYLOADS
    return map(StoredGroup._make, connection.execute(statement, (*place_of(partition), cursor)))


def read_group(connection: sqlite3.Connection, name: int, *, keys_only: bool) -> StoredGroup | None:
    found = connection.execute(_KEYS_OF_ONE if keys_only else _ONE, (name,)).fetchone()
    return found and StoredGroup._make(found)


def between(group: RowGroup, lo_ms: int, hi_ms: int) -> RowGroup:
    """Of a sorted group the rows with lo_ms <= position < hi_ms."""
    positions = group.columns["position_ms"]
    if lo_ms <= int(positions[0]) and int(positions[-1]) < hi_ms:
        return group
    first, end = np.searchsorted(positions, [lo_ms, hi_ms]).tolist()
    return replace(group.select(slice(first, end)))


class Opened(NamedTuple):
    """A group, and what its rows are compared by."""

    group: RowGroup
    positions_ms: npt.NDArray[np.int64]
    digests: npt.NDArray[np.void]

    @property
    def size_bytes(self) -> int:
        return self.group.size_bytes + 24 * len(self.digests) + 1_000


class OpenGroups:
    """For one thread and its connection. Names of corrupt groups go to `on_corrupt`."""

    def __init__(self, connection: sqlite3.Connection, on_corrupt: Callable[[CorruptRow], None]) -> None:
        self._connection = connection
        self._on_corrupt = on_corrupt
        self._groups: OrderedDict[tuple[int, bool], Opened] = OrderedDict()
        self.size_bytes = 0

    def get(self, name: int, *, payloads: bool) -> Opened | None:
        """None: it is gone, or spoilt."""
        found = self._groups.get((name, payloads))
        if found is not None:
            self._groups.move_to_end((name, payloads))
            return found
        stored = read_group(self._connection, name, keys_only=not payloads)
        return self.open(stored, payloads=payloads) if stored is not None else None

    def open(self, stored: StoredGroup, *, payloads: bool) -> Opened | None:
        """None: it is spoilt."""
        try:
            group = stored.open()
        except CorruptRow as error:
            self._on_corrupt(error)
            return None
        before = self._groups.pop((stored.id, payloads), None)
        positions_ms = group.columns["position_ms"].astype(np.int64)
        opened = self._groups[stored.id, payloads] = Opened(
            group, positions_ms, group.packed_digests().view(RAW_DIGEST)
        )
        self.size_bytes += opened.size_bytes - (before.size_bytes if before is not None else 0)
        while self.size_bytes > MOST_BYTES:
            self.size_bytes -= self._groups.popitem(last=False)[1].size_bytes
        return opened

    def clear(self) -> None:
        self._groups.clear()
        self.size_bytes = 0
