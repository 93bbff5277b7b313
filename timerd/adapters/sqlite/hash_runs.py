"""Hashes of row keys, sorted, each with the name of what holds the row: how indexes in memory find rows and marks.

A look-up is a binary search in arrays for all keys at once; equal hashes of other keys are told apart by who asks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.model.identity import PREFIX_BYTES

DIGEST = np.dtype([("low", "<u8"), ("high", "<u4"), ("index", ">u4")])
RAW_DIGEST = np.dtype("V16")
Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.intp]
_PREFIX = struct.Struct("<QI")
_64_BITS = (1 << 64) - 1
_PRIMES = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))


class Run(NamedTuple):
    """Sorted by hash."""

    hashes: Hashes
    names: npt.NDArray[np.int64]


class Sought(NamedTuple):
    """Rows that are asked for."""

    positions_ms: npt.NDArray[np.int64]
    digests: npt.NDArray[np.void]
    hashes: Hashes


@dataclass(slots=True)
class Known:
    """Of one partition. `cursor`: the name of the last that was read."""

    cursor: int = 0
    runs: list[Run] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(run.hashes) for run in self.runs)

    def add(self, hashes: list[Hashes], names: list[int]) -> None:
        sizes = [len(part) for part in hashes]
        self._push(_sorted(np.concatenate(hashes), np.repeat(np.array(names, np.int64), sizes)))

    def candidates(self, wanted: Hashes) -> dict[int, Places]:
        """Name -> which of the keys may be there. What has one name was added at once, so it is in one run."""
        out: dict[int, Places] = {}
        for run in self.runs:
            at, entries = hits(run.hashes, wanted)
            if len(at):
                out.update(_by_name(run.names[entries], at))
        return out

    def _push(self, run: Run) -> None:
        """Runs double in size, so that a row is sorted a few times and a look-up asks a few runs."""
        while self.runs and len(self.runs[-1].hashes) < 2 * len(run.hashes):
            last = self.runs.pop()
            both = np.concatenate([last.hashes, run.hashes]), np.concatenate([last.names, run.names])
            run = _sorted(*both)
        self.runs.append(run)


def _sorted(hashes: Hashes, names: npt.NDArray[np.int64]) -> Run:
    order = np.argsort(hashes, kind="stable")
    return Run(hashes[order], names[order])


def mix(position_ms: npt.NDArray[np.int64], digest: npt.NDArray[np.void]) -> Hashes:
    """`digest` of DIGEST."""
    low, high, index = (digest[name].astype(np.uint64) for name in ("low", "high", "index"))
    prefix = low * _PRIMES[0] ^ (high + np.uint64(1)) * _PRIMES[1]
    mixed: Hashes = (prefix ^ position_ms.view(np.uint64)) * _PRIMES[0] + index * _PRIMES[2]
    return mixed ^ (mixed >> np.uint64(29))


def mix_one(position_ms: int, digest: bytes) -> int:
    low, high, index = *_PREFIX.unpack_from(digest), int.from_bytes(digest[PREFIX_BYTES:])
    prime, second, third = map(int, _PRIMES)
    mixed = ((low * prime ^ (high + 1) * second ^ position_ms) * prime + index * third) & _64_BITS
    return int(mixed ^ (mixed >> 29))


def places(ranked: Hashes, wanted: np.uint64) -> Iterator[int]:
    """Of one hash."""
    at = int(ranked.searchsorted(wanted))
    while at < len(ranked) and ranked[at] == wanted:
        yield at
        at += 1


def sought(keys: Sequence[tuple[int, bytes]]) -> Sought:
    digests = np.frombuffer(b"".join([digest for _, digest in keys]), DIGEST)
    positions_ms = np.array([position_ms for position_ms, _ in keys], np.int64)
    return Sought(positions_ms, digests.view(RAW_DIGEST), mix(positions_ms, digests))


def hits(ranked: Hashes, wanted: Hashes) -> tuple[Places, Places]:
    """Pairs of a place in `wanted` and one of the same hash in `ranked`, which is not empty."""
    first = ranked.searchsorted(wanted)
    met = np.flatnonzero(ranked.take(first, mode="clip") == wanted)
    if not len(met):
        return met, met
    first = first[met]
    times = ranked.searchsorted(wanted[met], side="right") - first
    at = np.repeat(met, times)
    return at, np.repeat(first - np.cumsum(times) + times, times) + np.arange(len(at))


def _by_name(names: npt.NDArray[np.int64], at: Places) -> Iterator[tuple[int, Places]]:
    """`at` ascends, and comes twice where two rows of a name have its hash."""
    order = np.argsort(names, kind="stable")
    names, at = names[order], at[order]
    starts = np.flatnonzero(np.r_[True, names[1:] != names[:-1]])
    for name, part in zip(names[starts].tolist(), np.split(at, starts[1:]), strict=True):
        yield name, part[np.r_[True, part[1:] != part[:-1]]]
