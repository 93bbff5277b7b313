"""Where is a row? For each partition that is asked for, the hash of every row's key with the group that holds it.

Groups of one commit overlap in time, so no index over positions could narrow a look-up down. 16 bytes a row in memory,
brought up to date by the cursor at each use, forgotten when others need the room.
"""

from __future__ import annotations

import sqlite3
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.adapters.sqlite.groups import read_group, read_groups
from timerd.model.errors import CorruptRow
from timerd.model.identity import PREFIX_BYTES, digest_of
from timerd.model.partition import Partition
from timerd.model.rows import PREFIX, RowGroup, concat, empty_group

MOST_ROWS = 4_000_000
# Groups that were opened are kept, for who cancels or moves a task reads its row several times.
MOST_OPEN_BYTES = 32 << 20
_DIGEST = np.dtype([("low", "<u8"), ("high", "<u4"), ("index", ">u4")])
_RAW_DIGEST = np.dtype("V16")
Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.intp]
_PREFIX = struct.Struct("<QI")
_64_BITS = (1 << 64) - 1
_PRIMES = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))


class _Run(NamedTuple):
    """Sorted by hash."""

    hashes: Hashes
    groups: npt.NDArray[np.int64]


class _Sought(NamedTuple):
    """Rows that are asked for."""

    positions_ms: npt.NDArray[np.int64]
    digests: npt.NDArray[np.void]
    hashes: Hashes


class _Opened(NamedTuple):
    """A group with the order of its rows by hash."""

    group: RowGroup
    hashes: Hashes
    order: npt.NDArray[np.intp]


@dataclass(slots=True)
class _Known:
    cursor: int = 0
    runs: list[_Run] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(run.hashes) for run in self.runs)

    def add(self, hashes: list[Hashes], groups: list[int]) -> None:
        sizes = [len(part) for part in hashes]
        self._push(_sorted(np.concatenate(hashes), np.repeat(np.array(groups, np.int64), sizes)))

    def _push(self, run: _Run) -> None:
        """Runs double in size, so that a row is sorted a few times and a look-up asks a few runs."""
        while self.runs and len(self.runs[-1].hashes) < 2 * len(run.hashes):
            last = self.runs.pop()
            both = np.concatenate([last.hashes, run.hashes]), np.concatenate([last.groups, run.groups])
            run = _sorted(*both)
        self.runs.append(run)


class KeyIndex:
    """For one thread and its connection. Names of corrupt groups go to `on_corrupt`."""

    def __init__(self, connection: sqlite3.Connection, on_corrupt: Callable[[CorruptRow], None]) -> None:
        self._connection = connection
        self._on_corrupt = on_corrupt
        self._partitions: OrderedDict[Partition, _Known] = OrderedDict()
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
        sought = _sought(keys)
        for name, asked in self._candidates(partition, sought.hashes).items():
            opened = self._opened(name, payloads)
            if opened is not None:
                at, rows = _matches(opened, sought, asked)
                for n, row in zip(at.tolist(), rows.tolist(), strict=True):
                    found[n].append(opened.group.one(row))
        return found

    def single(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> list[bool]:
        """Whether there is one row, and it is of version 0."""
        sought = _sought(keys)
        count, later = np.zeros(len(keys), np.intp), np.zeros(len(keys), np.bool_)
        for name, asked in self._candidates(partition, sought.hashes).items():
            opened = self._opened(name, payloads=True)
            if opened is not None:
                at, rows = _matches(opened, sought, asked)
                np.add.at(count, at, 1)
                later[at] |= opened.group.columns["version"][rows] > 0
        one: list[bool] = ((count == 1) & ~later).tolist()
        return one

    def is_single(self, partition: Partition, position_ms: int, digest: bytes) -> bool:
        """As `single` for one row, without numpy, whose calls cost more here than its loops save."""
        wanted = np.uint64(_mix_one(position_ms, digest))
        runs = self._fresh(partition).runs
        names = {int(run.groups[at]) for run in runs for at in _places(run.hashes, wanted)}
        count = 0
        for name in names:
            opened = self._opened(name, payloads=True)
            if opened is None:
                continue
            for at in _places(opened.hashes, wanted):
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

    def _candidates(self, partition: Partition, wanted: Hashes) -> dict[int, list[int]]:
        """Group -> which of the keys may be in it."""
        out: dict[int, list[int]] = {}
        for run in self._fresh(partition).runs:
            at, entries = _hits(run.hashes, wanted)
            for name, n in dict.fromkeys(zip(run.groups[entries].tolist(), at.tolist(), strict=True)):
                out.setdefault(name, []).append(n)
        return out

    def _fresh(self, partition: Partition) -> _Known:
        known = self._partitions.setdefault(partition, _Known())
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


def _sorted(hashes: Hashes, groups: npt.NDArray[np.int64]) -> _Run:
    order = np.argsort(hashes, kind="stable")
    return _Run(hashes[order], groups[order])


def _mix(position_ms: npt.NDArray[np.int64], digest: npt.NDArray[np.void]) -> Hashes:
    low, high, index = (digest[name].astype(np.uint64) for name in ("low", "high", "index"))
    prefix = low * _PRIMES[0] ^ (high + np.uint64(1)) * _PRIMES[1]
    mixed: Hashes = (prefix ^ position_ms.view(np.uint64)) * _PRIMES[0] + index * _PRIMES[2]
    return mixed ^ (mixed >> np.uint64(29))


def _mix_one(position_ms: int, digest: bytes) -> int:
    low, high, index = *_PREFIX.unpack_from(digest), int.from_bytes(digest[PREFIX_BYTES:])
    prime, second, third = map(int, _PRIMES)
    mixed = ((low * prime ^ (high + 1) * second ^ position_ms) * prime + index * third) & _64_BITS
    return int(mixed ^ (mixed >> 29))


def _places(ranked: Hashes, wanted: np.uint64) -> Iterator[int]:
    """Of one hash."""
    at = int(ranked.searchsorted(wanted))
    while at < len(ranked) and ranked[at] == wanted:
        yield at
        at += 1


def _sought(keys: Sequence[tuple[int, bytes]]) -> _Sought:
    digests = np.frombuffer(b"".join([digest for _, digest in keys]), _DIGEST)
    positions_ms = np.array([position_ms for position_ms, _ in keys], np.int64)
    return _Sought(positions_ms, digests.view(_RAW_DIGEST), _mix(positions_ms, digests))


def _hits(ranked: Hashes, wanted: Hashes) -> tuple[Places, Places]:
    """Pairs of a place in `wanted` and one of the same hash in `ranked`."""
    first = np.searchsorted(ranked, wanted)
    times = np.searchsorted(ranked, wanted, side="right") - first
    at = np.repeat(np.arange(len(wanted)), times)
    return at, np.repeat(first - np.cumsum(times) + times, times) + np.arange(len(at))


def _hash_rows(group: RowGroup) -> Hashes:
    raw = np.empty(len(group), np.dtype([("prefix", PREFIX), ("index", ">u4")]))
    raw["prefix"] = group.prefixes[group.columns["prefix"]]
    raw["index"] = group.columns["index"]
    return _mix(group.columns["position_ms"].astype(np.int64), raw.view(_DIGEST))


def _size_bytes(opened: _Opened) -> int:
    return opened.group.size_bytes + 16 * len(opened.hashes) + 1_000


def _matches(opened: _Opened, sought: _Sought, asked: list[int]) -> tuple[Places, Places]:
    """Pairs of one of `asked` and its row in the group; equal hashes of other keys are told apart here."""
    among = np.array(asked, np.intp)
    at, entries = _hits(opened.hashes, sought.hashes[among])
    at, rows = among[at], opened.order[entries]
    met = opened.group.select(rows)
    same = met.columns["position_ms"] == sought.positions_ms[at]
    same &= met.packed_digests().view(_RAW_DIGEST) == sought.digests[at]
    return at[same], rows[same]
