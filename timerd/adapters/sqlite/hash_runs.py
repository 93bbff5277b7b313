"""Hashes of row keys, sorted, each with the name of what holds the row: how indexes in memory find rows and marks.

A look-up is a binary search in arrays for all keys at once; equal hashes of other keys are told apart by who asks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.model.identity import PREFIX_BYTES
from timerd.model.row_keys import Places

DIGEST = np.dtype([("low", "<u8"), ("high", "<u4"), ("index", ">u4")])
RAW_DIGEST = np.dtype("V16")
RunHashes = npt.NDArray[np.uint64]
RowNumbers = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
NO_ROWS: RowNumbers = np.empty(0, np.intp)
# Runs grow by this factor: fewer are looked into, and each row is sorted more often.
_GROWTH = 4
# Of an entry: no group and no block has more rows.
ROW_BITS = 20
_ROW_MASK = (1 << ROW_BITS) - 1
_PREFIX = struct.Struct("<QI")
_64_BITS = (1 << 64) - 1
_PRIMES = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))


class HashRun(NamedTuple):
    """Sorted by hash. `entries`: what holds the row, and which of its rows it is."""

    hashes: RunHashes
    entries: npt.NDArray[np.int64]


class Sought(NamedTuple):
    """Rows that are asked for."""

    positions_ms: npt.NDArray[np.int64]
    digests: npt.NDArray[np.void]
    hashes: RunHashes

    def only(self, rows: RowNumbers | slice) -> Sought:
        return Sought(self.positions_ms[rows], self.digests[rows], self.hashes[rows])


class Candidates(NamedTuple):
    """Pairs of one that is asked for and a row of the same hash in what has this name."""

    name: int
    at: RowNumbers
    rows: RowNumbers


@dataclass(slots=True)
class KnownHashes:
    """Of one partition. `cursor`: the name of the last that was read."""

    cursor: int = 0
    runs: list[HashRun] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(run.hashes) for run in self.runs)

    def add(self, hashes: list[RunHashes], names: list[int]) -> None:
        """Of all rows of each name, in their order."""
        entries = [np.arange(len(part)) + (name << ROW_BITS) for part, name in zip(hashes, names, strict=True)]
        self._push(_sorted(np.concatenate(hashes), np.concatenate(entries)))

    def candidates(self, wanted: RunHashes) -> Iterator[Candidates]:
        """What has one name was added at once, so it is in one run, and comes once."""
        for run in self.runs:
            at, places = hits(run.hashes, wanted)
            if len(at):
                yield from _by_name(run.entries[places], at)

    def candidates_of_one(self, wanted: int) -> Iterator[tuple[int, int]]:
        """Names and rows of one hash."""
        for run in self.runs:
            at = int(run.hashes.searchsorted(np.uint64(wanted)))
            while at < len(run.hashes) and int(run.hashes[at]) == wanted:
                yield divmod(int(run.entries[at]), 1 << ROW_BITS)
                at += 1

    def _push(self, run: HashRun) -> None:
        """Runs differ in size, so that a row is sorted a few times and a look-up asks a few runs."""
        while self.runs and len(self.runs[-1].hashes) < _GROWTH * len(run.hashes):
            last = self.runs.pop()
            both = np.concatenate([last.hashes, run.hashes]), np.concatenate([last.entries, run.entries])
            run = _sorted(*both)
        self.runs.append(run)


def _sorted(hashes: RunHashes, entries: npt.NDArray[np.int64]) -> HashRun:
    order = np.argsort(hashes, kind="stable")
    return HashRun(hashes[order], entries[order])


def mix(position_ms: npt.NDArray[np.int64], digest: npt.NDArray[np.void]) -> RunHashes:
    """`digest` of DIGEST."""
    low, high, index = (digest[name].astype(np.uint64) for name in ("low", "high", "index"))
    prefix = low * _PRIMES[0] ^ (high + np.uint64(1)) * _PRIMES[1]
    mixed: RunHashes = (prefix ^ position_ms.view(np.uint64)) * _PRIMES[0] + index * _PRIMES[2]
    return mixed ^ (mixed >> np.uint64(29))


def mix_one(position_ms: int, digest: bytes) -> int:
    low, high, index = *_PREFIX.unpack_from(digest), int.from_bytes(digest[PREFIX_BYTES:])
    prime, second, third = map(int, _PRIMES)
    mixed = ((low * prime ^ (high + 1) * second ^ position_ms) * prime + index * third) & _64_BITS
    return int(mixed ^ (mixed >> 29))


def sought(keys: Sequence[tuple[int, bytes]]) -> Sought:
    if isinstance(keys, Places):
        return sought_in(keys.positions_ms, keys.digests)
    digests = np.frombuffer(b"".join([digest for _, digest in keys]), RAW_DIGEST)
    return sought_in(np.array([position_ms for position_ms, _ in keys], np.int64), digests)


def sought_in(positions_ms: npt.NDArray[np.int64], digests: npt.NDArray[np.void]) -> Sought:
    """Both without gaps."""
    return Sought(positions_ms, digests, mix(positions_ms, digests.view(DIGEST)))


def sought_each(groups: Sequence[Sequence[tuple[int, bytes]]]) -> list[Sought]:
    """As `sought` for each of them, hashed all at once."""
    if not all(isinstance(keys, Places) for keys in groups) or len(groups) < 2:
        return [sought(keys) for keys in groups]
    columns = [keys for keys in groups if isinstance(keys, Places)]
    every = sought_in(np.concatenate([c.positions_ms for c in columns]), np.concatenate([c.digests for c in columns]))
    ends = list(accumulate(map(len, columns)))
    return [every.only(slice(end - len(c), end)) for c, end in zip(columns, ends, strict=True)]


def hits(ranked: RunHashes, wanted: RunHashes) -> tuple[RowNumbers, RowNumbers]:
    """Pairs of a place in `wanted` and one of the same hash in `ranked`, which is not empty."""
    first = ranked.searchsorted(wanted)
    is_met = ranked.take(first, mode="clip") == wanted
    if not is_met.any():
        return NO_ROWS, NO_ROWS
    met = is_met.nonzero()[0]
    first, wanted = first[met], wanted[met]
    if not (ranked.take(first + 1, mode="clip") == wanted).any():
        return met, first
    times = ranked.searchsorted(wanted, side="right") - first
    at = np.repeat(met, times)
    return at, np.repeat(first - np.cumsum(times) + times, times) + np.arange(len(at))


def _by_name(entries: npt.NDArray[np.int64], at: RowNumbers) -> Iterator[Candidates]:
    names, rows = entries >> ROW_BITS, entries & _ROW_MASK
    if not (names != names[0]).any():
        yield Candidates(int(names[0]), at, rows)
        return
    order = np.argsort(names, kind="stable")
    names, at, rows = names[order], at[order], rows[order]
    starts = np.flatnonzero(np.r_[True, names[1:] != names[:-1]]).tolist()
    for start, end in zip(starts, [*starts[1:], len(names)], strict=True):
        yield Candidates(int(names[start]), at[start:end], rows[start:end])
