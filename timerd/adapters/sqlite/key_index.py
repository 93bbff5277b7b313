"""Where is a row? For each partition that is asked for, the hash of every row's key with the group that holds it.

Groups of one commit overlap in time, so no index over positions could narrow a look-up down. 16 bytes a row in memory,
brought up to date by the cursor at each use, forgotten when others need the room.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from timerd.adapters.sqlite.groups import Opened, OpenGroups, read_groups
from timerd.adapters.sqlite.hash_runs import (
    Candidates,
    KnownHashes,
    RowNumbers,
    RunHashes,
    Sought,
    mix_one,
    sought,
    sought_in,
)
from timerd.model.errors import CorruptRow
from timerd.model.identity import digest_of
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup, concat, empty_group

MOST_ROWS = 4_000_000


class KeyIndex:
    """For one thread and its connection. Names of corrupt groups go to `on_corrupt`."""

    def __init__(self, connection: sqlite3.Connection, on_corrupt: Callable[[CorruptRow], None]) -> None:
        self._connection = connection
        self._partitions: OrderedDict[Partition, KnownHashes] = OrderedDict()
        # Of all partitions, kept as they come and go: a purge of a year walks a hundred thousand of them.
        self._rows = 0
        self._open = OpenGroups(connection, on_corrupt)

    @property
    def open_bytes(self) -> int:
        """Of the groups that are kept open."""
        return self._open.size_bytes

    def find(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> list[RowGroup]:
        """For each (position_ms, digest) its rows of all versions."""
        return [concat(parts) if parts else empty_group() for parts in self.locate(partition, keys, payloads=True)]

    def locate(
        self, partition: Partition, keys: Sequence[tuple[int, bytes]], *, payloads: bool
    ) -> list[list[RowGroup]]:
        """The same, each row as a group of one that still names its source."""
        found: list[list[RowGroup]] = [[] for _ in keys]
        wanted = sought(keys)
        for candidates in self._fresh(partition).candidates(wanted.hashes):
            opened = self._open.get(candidates.name, payloads=payloads)
            if opened is not None:
                at, rows = _matches(opened, wanted, candidates)
                for n, row in zip(at.tolist(), rows.tolist(), strict=True):
                    found[n].append(opened.group.one(row))
        return found

    def single(self, partition: Partition, wanted: Sought, newest: int) -> npt.NDArray[np.bool_]:
        """Whether there is one row, and it is of version 0. `newest`: the name of the partition's newest group."""
        count, later = np.zeros(len(wanted.hashes), np.intp), np.zeros(len(wanted.hashes), np.bool_)
        for candidates in self._fresh(partition, newest).candidates(wanted.hashes):
            opened = self._open.get(candidates.name, payloads=False)
            if opened is not None:
                at, rows = _matches(opened, wanted, candidates)
                count += np.bincount(at, minlength=len(count))
                later[at[opened.group.columns["version"][rows] > 0]] = True
        one: npt.NDArray[np.bool_] = (count == 1) & ~later
        return one

    def is_single(self, partition: Partition, position_ms: int, digest: bytes) -> bool:
        """As `single` for one row, without numpy, whose calls cost more here than its loops save."""
        count = 0
        for name, row in self._fresh(partition).candidates_of_one(mix_one(position_ms, digest)):
            opened = self._open.get(name, payloads=True)
            if opened is None:
                continue
            at_ms, _, prefix, index, version, *_ = opened.group.columns[row].item()
            if at_ms == position_ms and digest_of(opened.group.prefixes[prefix].tobytes(), index) == digest:
                if version:
                    return False
                count += 1
        return count == 1

    def forget(self, partition: Partition | None = None) -> None:
        """Of a partition, or all. Names may be given again after that."""
        self._open.clear()
        if partition is None:
            self._partitions.clear()
            self._rows = 0
        elif partition in self._partitions:
            self._rows -= len(self._partitions.pop(partition))

    def _fresh(self, partition: Partition, newest: int | None = None) -> KnownHashes:
        known = self._partitions.get(partition, KnownHashes())
        if newest is None or newest > known.cursor:
            self._read_on(partition, known)
        # Where there is nothing, or nothing any more, nothing is kept: who asks for what is long over asks everywhere.
        if known.cursor:
            self._partitions[partition] = known
            self._partitions.move_to_end(partition)
            self._make_room()
        return known

    def _read_on(self, partition: Partition, known: KnownHashes) -> None:
        hashes: list[RunHashes] = []
        names: list[int] = []
        for stored in read_groups(self._connection, partition, known.cursor, keys_only=True):
            known.cursor = stored.id
            # Who asks for a row of it compares its keys next.
            opened = self._open.open(stored, payloads=False)
            if opened is not None:
                hashes.append(sought_in(opened.positions_ms, opened.digests).hashes)
                names.append(stored.id)
        if names:
            known.add(hashes, names)
            self._rows += sum(map(len, hashes))

    def _make_room(self) -> None:
        while self._rows > MOST_ROWS and len(self._partitions) > 1:
            self._rows -= len(self._partitions.popitem(last=False)[1])


def _matches(opened: Opened, wanted: Sought, met: Candidates) -> tuple[RowNumbers, RowNumbers]:
    """Equal hashes of other keys are told apart here."""
    same = opened.positions_ms[met.rows] == wanted.positions_ms[met.at]
    same &= opened.digests[met.rows] == wanted.digests[met.at]
    return (met.at, met.rows) if same.all() else (met.at[same], met.rows[same])
