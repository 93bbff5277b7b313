"""Which rows of a partition are known to be over: what hints, scans and reloads that meet them again are checked
against.

A dict of two million keys takes half a gigabyte when one second holds them all, so endings are kept as the records that
they were written in, sorted by a 64-bit hash: about 40 bytes each, looked up for a whole group of rows at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from timerd.core.due_queue import tie_of
from timerd.model.identity import RowKey
from timerd.model.rows import RowGroup
from timerd.model.settle import ENTRY, Outcome, settle_entries

# So many endings are kept in a dict before they are sorted into a chunk.
FRESH = 8_192
MERGE_CHUNKS = 8
LARGEST_MERGE = 65_536
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SPREAD_POSITION = np.uint64(0xC2B2AE3D27D4EB4F)
_SPREAD_VERSION = np.uint64(0x165667B19E3779F9)
Hashes = npt.NDArray[np.uint64]
Entries = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Chunk:
    """`entries` of ENTRY, sorted by `hashes`."""

    hashes: Hashes
    entries: Entries
    latest_ms: int


@dataclass(frozen=True, slots=True)
class Recent:
    """A record that is still in the dict of fresh endings."""

    keys: list[RowKey]
    entries: Entries
    latest_ms: int


class SettledIndex:
    """Endings at or above `verified`: the newest in a dict, the others in sorted chunks."""

    def __init__(self) -> None:
        self._fresh: dict[RowKey, Outcome] = {}
        self._recent: list[Recent] = []
        self._chunks: list[Chunk] = []

    def __len__(self) -> int:
        return len(self._fresh) + sum(len(c.entries) for c in self._chunks)

    def add(self, key: RowKey, outcome: Outcome) -> None:
        """An ending whose record is not made yet."""
        self._fresh[key] = outcome

    def seal(self, keys: list[RowKey], entries: Entries) -> None:
        """The record of all that was added since the last one."""
        self._recent.append(Recent(keys, entries, int(entries["position_ms"].max())))
        if len(self._fresh) >= FRESH:
            self.load(_joined([r.entries for r in self._recent]))
            self._drop(self._recent)
            self._recent = []

    def load(self, entries: Entries) -> None:
        """A record of an earlier holder."""
        if len(entries):
            self._chunks.append(_chunk(entries))
            self._merge()

    def without_known(self, entries: Entries) -> Entries:
        """Of a record: what no record before it has said (a holder that was taken over may have said it as well)."""
        fresh = np.ones(len(entries), dtype=bool)
        hashes = _hash(entries)
        for chunk in self._chunks:
            fresh &= _find(chunk, hashes, entries) < 0
        return entries[fresh]

    def get(self, key: RowKey) -> Outcome | None:
        found = self._fresh.get(key)
        if found is not None or not self._chunks:
            return found
        wanted = settle_entries([(key, Outcome.ACKED)])
        for chunk in reversed(self._chunks):
            at = _find(chunk, _hash(wanted), wanted)
            if at[0] >= 0:
                return Outcome(int(chunk.entries["outcome"][at[0]]))
        return None

    def known(self, rows: RowGroup) -> npt.NDArray[np.bool_]:
        """(n,): which rows are over."""
        found = np.zeros(len(rows), dtype=bool)
        if self._fresh:
            found |= np.fromiter((key in self._fresh for key in rows.keys()), dtype=bool, count=len(rows))
        if self._chunks:
            wanted = _as_entries(rows)
            hashes = _hash_rows(rows)
            for chunk in self._chunks:
                found |= _find(chunk, hashes, wanted) >= 0
        return found

    def forget_below(self, verified_ms: int) -> Counter[int]:
        """Drops the records that `verified` has passed as a whole; outcome -> how many."""
        passed = [c for c in self._chunks if c.latest_ms < verified_ms]
        recent = [r for r in self._recent if r.latest_ms < verified_ms]
        if recent:
            self._drop(recent)
            self._recent = [r for r in self._recent if r.latest_ms >= verified_ms]
        self._chunks = [c for c in self._chunks if c.latest_ms >= verified_ms]
        return _count(_joined([*[c.entries for c in passed], *[r.entries for r in recent]]))

    def counts(self) -> Counter[int]:
        return _count(_joined([c.entries for c in self._chunks])) + Counter(int(o) for o in self._fresh.values())

    def counts_below(self, position_ms: int) -> Counter[int]:
        """Of the records alone: what has no record yet is not below `verified`."""
        entries = _joined([*[c.entries for c in self._chunks], *[r.entries for r in self._recent]])
        return _count(entries[entries["position_ms"] < position_ms])

    def _drop(self, records: list[Recent]) -> None:
        for record in records:
            for key in record.keys:
                self._fresh.pop(key, None)

    def _merge(self) -> None:
        """The last chunks become one while they are small and many."""
        small = len(self._chunks)
        while small and len(self._chunks[small - 1].entries) < LARGEST_MERGE:
            small -= 1
        tail = self._chunks[small:]
        if len(tail) < MERGE_CHUNKS or (
            len(tail[-1].entries) * MERGE_CHUNKS * 4 < len(tail[0].entries) and len(tail) < 64
        ):
            return
        self._chunks[small:] = [_chunk(_joined([c.entries for c in tail]))]


def keys_of(entries: Entries) -> Iterator[RowKey]:
    return map(RowKey, entries["position_ms"].tolist(), entries["digest"].tolist(), entries["version"].tolist())


def _chunk(entries: Entries) -> Chunk:
    hashes = _hash(entries)
    order = np.argsort(hashes)
    return Chunk(hashes[order], entries[order], int(entries["position_ms"].max()))


def _find(chunk: Chunk, hashes: Hashes, wanted: Entries) -> npt.NDArray[np.intp]:
    """Index into the chunk of each wanted row; -1: not there. Rows of equal hash lie side by side."""
    found = np.full(len(hashes), -1, dtype=np.intp)
    at = np.searchsorted(chunk.hashes, hashes)
    hit = np.arange(len(hashes))
    while len(hit):
        inside = at < len(chunk.hashes)
        inside[inside] = chunk.hashes[at[inside]] == hashes[hit[inside]]
        at, hit = at[inside], hit[inside]
        entries = chunk.entries[at]
        same = (entries["position_ms"] == wanted["position_ms"][hit]) & (entries["version"] == wanted["version"][hit])
        same &= entries["digest"] == wanted["digest"][hit]
        found[hit[same]] = at[same]
        at, hit = at[~same] + 1, hit[~same]
    return found


def keys_in(rows: RowGroup, groups: Sequence[RowGroup]) -> npt.NDArray[np.bool_]:
    """(n,): which rows are among those of the groups."""
    listed = _chunk(np.concatenate([_as_entries(group) for group in groups]))
    return _find(listed, _hash_rows(rows), _as_entries(rows)) >= 0


def _hash(entries: Entries) -> Hashes:
    words = np.ascontiguousarray(entries["digest"]).view("u1").reshape(-1, 16)
    heads = np.ascontiguousarray(words[:, :8]).view(">u8").reshape(-1).astype(np.uint64)
    items = np.ascontiguousarray(words[:, 12:]).view(">u4").reshape(-1).astype(np.uint64)
    return _mix(heads + items * _SPREAD, entries["position_ms"], entries["version"])


def _hash_rows(rows: RowGroup) -> Hashes:
    return _mix(tie_of(rows), rows.columns["position_ms"], rows.columns["version"])


def _mix(tie: Hashes, position_ms: Entries, version: Entries) -> Hashes:
    mixed: Hashes = tie + position_ms.astype(np.uint64) * _SPREAD_POSITION + version.astype(np.uint64) * _SPREAD_VERSION
    return mixed


def _as_entries(rows: RowGroup) -> Entries:
    out = np.empty(len(rows), ENTRY)
    out["position_ms"] = rows.columns["position_ms"]
    out["digest"] = np.frombuffer(b"".join(rows.digests()), "V16")
    out["version"] = rows.columns["version"]
    return out


def _joined(parts: list[Entries]) -> Entries:
    """numpy joins structured arrays field by field, 20 us each; as bytes hundreds cost next to nothing."""
    return parts[0] if len(parts) == 1 else np.frombuffer(b"".join([part.tobytes() for part in parts]), ENTRY)


def _count(entries: Entries) -> Counter[int]:
    numbers = np.bincount(entries["outcome"]).tolist()
    return Counter({outcome: number for outcome, number in enumerate(numbers) if number})
