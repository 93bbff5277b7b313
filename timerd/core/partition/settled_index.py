"""Which rows of a partition are known to be over: what hints, scans and reloads that meet them again are checked
against.

A dict of two million keys takes half a gigabyte when one second holds them all, so endings are kept as the records that
they were written in, sorted by a 64-bit hash: about 40 bytes each, looked up for a whole group of rows at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from timerd.core.due_queue import tie_of
from timerd.model.identity import RowKey, row_keys
from timerd.model.row_keys import Positions, span_of
from timerd.model.rows import RowGroup
from timerd.model.settle import ENTRY, Outcome, entries_with, join_entries

# So many endings are kept in a dict before they are sorted into a chunk.
FRESH = 4_096
MERGE_CHUNKS = 8
# Eight of them are sorted in a few milliseconds, and the loop that does it fires as well.
LARGEST_MERGE = 32_768
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_SPREAD_POSITION = np.uint64(0xC2B2AE3D27D4EB4F)
_SPREAD_VERSION = np.uint64(0x165667B19E3779F9)
_MOST_U32 = (1 << 32) - 1
_ITEM = np.uint64(_MOST_U32)
# No instant lies in it.
_NEVER = (1 << 62, -(1 << 62))
Hashes = npt.NDArray[np.uint64]
Entries = npt.NDArray[Any]
EndedRow = tuple[RowKey, Outcome]


@dataclass(frozen=True, slots=True)
class Chunk:
    """`entries` of ENTRY, sorted by `hashes`. `positions`: of each outcome, sorted, as distances to `earliest_ms`."""

    hashes: Hashes
    entries: Entries
    earliest_ms: int
    latest_ms: int
    positions: dict[int, npt.NDArray[np.uint32]]

    def counts_below(self, position_ms: int) -> Counter[int]:
        distance = min(max(0, position_ms - self.earliest_ms), _MOST_U32)
        below = {o: int(np.searchsorted(at, np.uint32(distance))) for o, at in self.positions.items()}
        return Counter({o: n for o, n in below.items() if n})

    def counts(self) -> Counter[int]:
        return Counter({outcome: len(at) for outcome, at in self.positions.items()})


@dataclass(frozen=True, slots=True)
class Recent:
    """Endings that are not sorted yet. Those with `keys` are a record whose rows are in the dict of fresh ones."""

    keys: list[RowKey]
    entries: Entries
    earliest_ms: int
    latest_ms: int
    counts: Counter[int]


class SettledIndex:
    """Endings at or above `verified`: the newest in a dict, or in the arrays that they came in until something is asked
    of their time, the others in sorted chunks. Rows are looked for only where
    endings of their time are kept: what is loaded is seldom of a time that has ended already."""

    def __init__(self) -> None:
        self._fresh: dict[RowKey, Outcome] = {}
        # Those of `_fresh` without a record.
        self._unsealed: list[EndedRow] = []
        self._recent: list[Recent] = []
        self._loose: list[Recent] = []
        self._loose_rows = 0
        self._chunks: list[Chunk] = []
        # While it is set, where what `add_many` brings goes.
        self._apart: list[Chunk] | None = None

    def __len__(self) -> int:
        return len(self._fresh) + self._loose_rows + sum(len(c.entries) for c in self._all())

    def set_apart(self) -> None:
        """Until `join`, `known` does not look through what `add_many` brings: it is asked of no row that may be there.
        Where millions of one second come from the store while they end, each would be compared with all that have
        ended."""
        self._sort_all_loose()
        self._apart = []

    def join(self) -> None:
        self._sort_all_loose()
        self._chunks += self._apart or []
        self._apart = None

    def add(self, ended: Sequence[EndedRow]) -> None:
        """Endings whose record is not made yet."""
        self._fresh.update(ended)
        self._unsealed += ended

    def add_many(self, entries: Entries) -> None:
        """As `add`, without an object for each; they need no `seal`."""
        self._loose.append(_recent([], entries))
        self._loose_rows += len(entries)
        # Apart they are merged with nothing, so they are sorted once.
        if self._loose_rows >= (FRESH if self._apart is None else LARGEST_MERGE):
            self._sort_all_loose()

    def seal(self, keys: list[RowKey], entries: Entries) -> None:
        """The record of all that was added one by one since the last one."""
        self._recent.append(_recent(keys, entries))
        self._unsealed = []
        if len(self._fresh) >= FRESH:
            self.load(join_entries([r.entries for r in self._recent]))
            self._drop(self._recent)
            self._recent = []

    def load(self, entries: Entries) -> None:
        """A record of an earlier holder."""
        if len(entries):
            _add_chunk(self._chunks, entries)

    def without_known(self, entries: Entries) -> Entries:
        """Of a record: what is not known yet (a holder that was taken over may have said it as well)."""
        self._sort_all_loose()
        fresh = np.ones(len(entries), dtype=bool)
        hashes = _hash(entries)
        for chunk in self._all():
            fresh &= _find(chunk, hashes, entries) < 0
        return entries[fresh]

    def get(self, key: RowKey) -> Outcome | None:
        found = self._fresh.get(key)
        self._sort_loose(key.position_ms, key.position_ms)
        chunks = self._all()
        if found is not None or not chunks:
            return found
        hashed = _hash_key(key)
        for chunk in reversed(chunks):
            if chunk.earliest_ms <= key.position_ms <= chunk.latest_ms:
                found = _outcome_in(chunk, key, hashed)
                if found is not None:
                    return found
        return None

    def knows_any(self, keys: Sequence[RowKey]) -> bool:
        """Whether one of them is over."""
        if len(keys) == 1:
            return self.get(keys[0]) is not None
        if self._fresh and not self._fresh.keys().isdisjoint(keys):
            return True
        first_ms, last_ms = span_of(keys)
        self._sort_loose(first_ms, last_ms)
        near = [c for c in self._all() if c.earliest_ms <= last_ms and c.latest_ms >= first_ms]
        if not near:
            return False
        wanted = entries_with(keys, Outcome.ACKED)
        hashes = _hash(wanted)
        # In their order they are found several times as fast, in each of the chunks.
        order = np.argsort(hashes)
        wanted, hashes = wanted.take(order), hashes[order]
        return any(bool((_find(chunk, hashes, wanted) >= 0).any()) for chunk in near)

    def known(self, rows: RowGroup) -> npt.NDArray[np.bool_]:
        """(n,): which rows are over."""
        found = np.zeros(len(rows), dtype=bool)
        positions = rows.columns["position_ms"]
        near = _between(positions, *self._fresh_ms())
        if len(near):
            some = rows.select(near)
            columns = some.columns
            # Plain tuples are found as the keys that they are equal to.
            keys = zip(columns["position_ms"].tolist(), some.digests(), columns["version"].tolist(), strict=True)
            found[near] = [key in self._fresh for key in keys]
        if self._loose and len(positions) and self._apart is None:
            self._sort_loose(int(positions.min()), int(positions.max()))
        return found | _known_in(self._chunks, rows)

    def known_apart(self, rows: RowGroup) -> npt.NDArray[np.bool_]:
        """(n,): which rows are among what was set apart, which `known` does not look through."""
        if self._apart is not None:
            self._sort_all_loose()
        return _known_in(self._apart or [], rows)

    def forget_below(self, verified_ms: int) -> Counter[int]:
        """Drops the records that `verified` has passed as a whole; outcome -> how many."""
        passed = [c.counts() for c in self._all() if c.latest_ms < verified_ms]
        recent = [r for r in self._recent if r.latest_ms < verified_ms]
        if recent:
            self._drop(recent)
            self._recent = [r for r in self._recent if r.latest_ms >= verified_ms]
        loose = [r for r in self._loose if r.latest_ms < verified_ms]
        if loose:
            self._loose = [r for r in self._loose if r.latest_ms >= verified_ms]
            self._loose_rows = sum(len(r.entries) for r in self._loose)
        if passed:
            self._chunks[:] = [c for c in self._chunks if c.latest_ms >= verified_ms]
            self._apart = self._apart and [c for c in self._apart if c.latest_ms >= verified_ms]
        return sum([*passed, *(r.counts for r in (*recent, *loose))], Counter())

    def counts(self) -> Counter[int]:
        parts = [*(c.counts() for c in self._all()), *(r.counts for r in (*self._recent, *self._loose))]
        return sum(parts, Counter(int(outcome) for _, outcome in self._unsealed))

    def counts_below(self, position_ms: int) -> Counter[int]:
        """What has no record yet is not below `verified`."""
        parts = [c.counts_below(position_ms) for c in self._all()]
        parts += [_count(r.entries[r.entries["position_ms"] < position_ms]) for r in (*self._recent, *self._loose)]
        return sum(parts, Counter())

    def _all(self) -> list[Chunk]:
        return [*self._chunks, *self._apart] if self._apart else self._chunks

    def _sort_loose(self, first_ms: int, last_ms: int) -> None:
        """Where one of them is of the time that is asked for."""
        if any(r.earliest_ms <= last_ms and r.latest_ms >= first_ms for r in self._loose):
            self._sort_all_loose()

    def _sort_all_loose(self) -> None:
        if self._loose:
            entries = join_entries([r.entries for r in self._loose])
            self._loose, self._loose_rows = [], 0
            _add_chunk(self._chunks if self._apart is None else self._apart, entries)

    def _drop(self, records: list[Recent]) -> None:
        for record in records:
            for key in record.keys:
                self._fresh.pop(key, None)

    def _fresh_ms(self) -> tuple[int, int]:
        """The first and the last position in `_fresh`."""
        fresh = [key.position_ms for key, _ in self._unsealed]
        earliest_ms = min([*(r.earliest_ms for r in self._recent), *fresh], default=_NEVER[0])
        return earliest_ms, max([*(r.latest_ms for r in self._recent), *fresh], default=_NEVER[1])


def keys_of(entries: Entries) -> Iterator[RowKey]:
    return row_keys(entries["position_ms"].tolist(), entries["digest"].tolist(), entries["version"].tolist())


def _recent(keys: list[RowKey], entries: Entries) -> Recent:
    positions = entries["position_ms"]
    return Recent(keys, entries, int(positions.min()), int(positions.max()), _count(entries))


def _add_chunk(chunks: list[Chunk], entries: Entries) -> None:
    """The last ones become one while they are small and many."""
    chunks.append(_chunk(entries))
    small = len(chunks)
    while small and len(chunks[small - 1].entries) < LARGEST_MERGE:
        small -= 1
    tail = chunks[small:]
    if len(tail) < MERGE_CHUNKS or (len(tail[-1].entries) * MERGE_CHUNKS * 4 < len(tail[0].entries) and len(tail) < 64):
        return
    # What was sorted in parts is merged, not sorted again.
    chunks[small:] = [_chunk(join_entries([c.entries for c in tail]), "stable")]


def _chunk(entries: Entries, kind: Literal["quicksort", "stable"] = "quicksort") -> Chunk:
    """`kind`: quicksort is five times as fast where numpy has vector instructions for it, and as fast elsewhere."""
    hashes = _hash(entries)
    order = np.argsort(hashes, kind=kind)
    positions, outcomes = np.ascontiguousarray(entries["position_ms"]), np.ascontiguousarray(entries["outcome"])
    earliest_ms = int(positions.min())
    distances = (positions - earliest_ms).astype(np.uint32)
    kinds = np.flatnonzero(np.bincount(outcomes)).tolist()
    sorted_of = {kind: np.sort(distances[outcomes == kind]) for kind in kinds}
    return Chunk(hashes[order], entries.take(order), earliest_ms, int(positions.max()), sorted_of)


def _known_in(chunks: Sequence[Chunk], rows: RowGroup) -> npt.NDArray[np.bool_]:
    found = np.zeros(len(rows), dtype=bool)
    spans = _spans(rows.columns["position_ms"], chunks)
    if any(len(inside) for inside, _ in spans):
        wanted, hashes = entries_of(rows), _hash_rows(rows)
        for inside, chunk in spans:
            if len(inside):
                found[inside] |= _find(chunk, hashes[inside], wanted.take(inside)) >= 0
    return found


def _spans(positions: Positions, chunks: Sequence[Chunk]) -> list[tuple[npt.NDArray[np.intp], Chunk]]:
    """Of each chunk which positions lie in its span. Of a burst all lie in the spans of all chunks."""
    if not len(positions):
        return []
    first_ms, last_ms, everything = int(positions.min()), int(positions.max()), np.arange(len(positions))
    near = [c for c in chunks if c.earliest_ms <= last_ms and c.latest_ms >= first_ms]
    whole = [c.earliest_ms <= first_ms and c.latest_ms >= last_ms for c in near]
    return [
        (everything if is_whole else _between(positions, c.earliest_ms, c.latest_ms), c)
        for c, is_whole in zip(near, whole, strict=True)
    ]


def _between(positions: Positions, earliest_ms: int, latest_ms: int) -> npt.NDArray[np.intp]:
    """Which of them are."""
    return np.flatnonzero((positions >= earliest_ms) & (positions <= latest_ms))


def _find(chunk: Chunk, hashes: Hashes, wanted: Entries) -> npt.NDArray[np.intp]:
    """Index into the chunk of each wanted row; -1: not there. Rows of equal hash lie side by side."""
    found = np.full(len(hashes), -1, dtype=np.intp)
    if not len(chunk.hashes):
        return found
    at = np.searchsorted(chunk.hashes, hashes)
    if not (chunk.hashes.take(at, mode="clip") == hashes).any():
        return found
    hit = np.arange(len(hashes))
    while len(hit):
        inside = at < len(chunk.hashes)
        inside[inside] = chunk.hashes[at[inside]] == hashes[hit[inside]]
        at, hit = at[inside], hit[inside]
        entries = chunk.entries.take(at)
        same = (entries["position_ms"] == wanted["position_ms"][hit]) & (entries["version"] == wanted["version"][hit])
        same &= entries["digest"] == wanted["digest"][hit]
        found[hit[same]] = at[same]
        at, hit = at[~same] + 1, hit[~same]
    return found


def _outcome_in(chunk: Chunk, key: RowKey, hashed: np.uint64) -> Outcome | None:
    """As `_find` for one row, which is most of what cancels and look-ups ask."""
    at = int(chunk.hashes.searchsorted(hashed))
    while at < len(chunk.hashes) and chunk.hashes[at] == hashed:
        entry = chunk.entries[at]
        if (entry["position_ms"], entry["digest"].tobytes(), entry["version"]) == key:
            return Outcome(int(entry["outcome"]))
        at += 1
    return None


def keys_in(rows: RowGroup, groups: Sequence[RowGroup]) -> npt.NDArray[np.bool_]:
    """(n,): which rows are among those of the groups."""
    entries = join_entries([entries_of(group) for group in groups])
    hashes = _hash(entries)
    order = np.argsort(hashes)
    return _find(Chunk(hashes[order], entries.take(order), 0, 0, {}), _hash_rows(rows), entries_of(rows)) >= 0


def _hash(entries: Entries) -> Hashes:
    halves = np.ascontiguousarray(entries["digest"]).view(">u8").reshape(-1, 2).astype(np.uint64)
    tie = halves[:, 0] + (halves[:, 1] & _ITEM) * _SPREAD
    return _mix(tie, entries["position_ms"], entries["version"])


def _hash_key(key: RowKey) -> np.uint64:
    """As `_hash`, in whole numbers."""
    head, item = int.from_bytes(key.digest[:8], "big"), int.from_bytes(key.digest[12:], "big")
    mixed = head + item * int(_SPREAD)
    mixed += key.position_ms * int(_SPREAD_POSITION) + key.version * int(_SPREAD_VERSION)
    return np.uint64(mixed % (1 << 64))


def _hash_rows(rows: RowGroup) -> Hashes:
    return _mix(tie_of(rows), rows.columns["position_ms"], rows.columns["version"])


def _mix(tie: Hashes, position_ms: Entries, version: Entries) -> Hashes:
    mixed: Hashes = tie + position_ms.astype(np.uint64) * _SPREAD_POSITION + version.astype(np.uint64) * _SPREAD_VERSION
    return mixed


def entries_of(rows: RowGroup, outcome: Outcome = Outcome.ACKED) -> Entries:
    """One for each row."""
    out = np.empty(len(rows), ENTRY)
    out["position_ms"] = rows.columns["position_ms"]
    out["digest"] = rows.packed_digests().view("V16")
    out["version"] = rows.columns["version"]
    out["outcome"] = outcome
    return out


def _count(entries: Entries) -> Counter[int]:
    numbers = np.bincount(entries["outcome"]).tolist()
    return Counter({outcome: number for outcome, number in enumerate(numbers) if number})
