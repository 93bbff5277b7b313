"""The store in RAM: the reference for every other one, and what tests and simulations run on.

It keeps to the same steps as the durable stores (names of what was written, cursors, keep-first, first mark wins), so
that whatever runs on it runs on them; where speed and plainness disagree, it is plain. Nothing survives the process.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import RegisterKey, control_key, move_key
from timerd.model.rows import RowGroup, concat
from timerd.model.settle import SettleRecord
from timerd.ports import (
    Append,
    Appended,
    BucketEntry,
    Cas,
    CasResult,
    CasStatus,
    DeadLetter,
    Entry,
    EntryKey,
    EstimatedTotal,
    Found,
    Look,
    Looked,
    Mark,
    MarkKind,
    Page,
    StoreFacts,
    StoreTraits,
    Stretch,
    is_bare,
)


class _Place(NamedTuple):
    """Of one row: all rows of a digest at a position lie under the same key."""

    group: RowGroup
    row: int


@dataclass(slots=True)
class _Rows:
    """One partition. `groups` in the order of their sources."""

    groups: list[RowGroup] = field(default_factory=list)
    places: defaultdict[tuple[int, bytes], dict[int, _Place]] = field(default_factory=lambda: defaultdict(dict))
    # By the sequence in which they became readable.
    marks: dict[tuple[RowKey, MarkKind], tuple[int, Mark]] = field(default_factory=dict)
    records: dict[tuple[int, int], SettleRecord] = field(default_factory=dict)
    order: list[tuple[int, bytes]] = field(default_factory=list)

    def known(self, key: RowKey) -> _Place | None:
        return self.places.get((key.position_ms, key.digest), {}).get(key.version)

    def in_order(self) -> list[tuple[int, bytes]]:
        """The keys of `places`."""
        if len(self.order) < len(self.places):
            self.order = sorted(self.places)
        return self.order

    def add(self, group: RowGroup) -> None:
        self.groups.append(group)
        for row, key in enumerate(group.keys()):
            self.places[key.position_ms, key.digest][key.version] = _Place(group, row)


class MemoryStore:
    """All of `Store`. For one event loop."""

    traits = StoreTraits(knows_repeats=True, has_cursors=True, counts_marks=True, commit_is_cheap=True)

    def __init__(self) -> None:
        self._partitions: defaultdict[Partition, _Rows] = defaultdict(_Rows)
        self._buckets: dict[tuple[int, int], BucketEntry] = {}
        # Places of finished buckets that were dropped.
        self._dropped: set[tuple[int, int]] = set()
        self._registers: dict[RegisterKey, bytes] = {}
        self._replies: dict[bytes, bytes] = {}
        self._dead: dict[bytes, DeadLetter] = {}
        self._estimates: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self._entries: dict[EntryKey, bytes] = {}
        self._sequence = 0

    async def append(self, messages: Sequence[Append]) -> Sequence[Appended]:
        return [self._append(message) for message in messages]

    def _append(self, message: Append) -> Appended:
        sources: dict[Partition, int] = {}
        parts = [*message.groups, *(message.spread.parts() if message.spread else ())]
        repeated = self._replies.get(message.prefix) if message.prefix else None
        if repeated is None:
            for partition, group in parts:
                sources[partition] = self._write(partition, group)
            if message.prefix:
                self._replies[message.prefix] = message.reply
        known = {p: self._registers.get(control_key(p)) for p, _ in parts}
        finishing = frozenset(p for p, control in known.items() if control is None and self._is_finishing(p))
        asked = {p for p, _ in message.groups}
        controls = {p: control for p, control in known.items() if p in asked or control is not None}
        return Appended(controls, sources, finishing, repeated)

    async def replies(self, prefixes: Sequence[bytes]) -> Sequence[bytes | None]:
        return [self._replies.get(prefix) for prefix in prefixes]

    def _write(self, partition: Partition, group: RowGroup) -> int:
        """Keeps what is there already; returns the source of what is stored now."""
        at = partition.scope, partition.bucket_ms
        entry = self._buckets.get(at) or BucketEntry(*at, 1, finishing=False, finished=False)
        self._buckets[at] = entry.with_shard(partition.shard)
        self._dropped.discard(at)
        stored = self._partitions[partition]
        order = np.argsort(group.columns["position_ms"], kind="stable")
        places = {row: stored.known(key) for row, key in enumerate(group.keys())}
        fresh = [row for row in order.tolist() if places[row] is None]
        if not fresh:
            return max((place.group.source for place in places.values() if place), default=0)
        added = group.select(np.array(fresh, dtype=np.intp)).compact()
        added.source = self._next()
        stored.add(added)
        return added.source

    def _is_finishing(self, partition: Partition) -> bool:
        entry = self._buckets.get((partition.scope, partition.bucket_ms))
        return entry is not None and entry.finishing

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    async def scan(
        self, partition: Partition, lo_ms: int, hi_ms: int, cursor: int, limit_bytes: int, *, keys_only: bool = False
    ) -> Page:
        stored = self._partitions.get(partition, _Rows())
        since = [(n, m) for n, m in stored.marks.values() if n > cursor]
        marks = [m for _, m in since if lo_ms <= m.key.position_ms < hi_ms]
        groups: list[RowGroup] = []
        left_bytes, last = limit_bytes, cursor
        for group in stored.groups:
            if group.source <= cursor:
                continue
            if left_bytes <= 0:
                return Page(groups, marks, last, done=False)
            last = group.source
            part = _between(group, lo_ms, hi_ms, keys_only)
            if len(part):
                groups.append(part)
                left_bytes -= part.size_bytes
        return Page(groups, marks, max([last, *(n for n, _ in since)]), done=True)

    async def stretch(self, partition: Partition, after: tuple[int, bytes], hi_ms: int, most_rows: int) -> Stretch:
        stored = self._partitions.get(partition, _Rows())
        order = stored.in_order()
        begin, end = bisect_right(order, after), bisect_left(order, (hi_ms, b""))
        keys = order[begin : min(end, begin + most_rows)]
        places = [place for key in keys for _, place in sorted(stored.places[key].items())]
        wanted = set(keys)
        marks = [m for _, m in stored.marks.values() if (m.key.position_ms, m.key.digest) in wanted]
        rows = replace(_rows_at(places), payloads=b"")
        return Stretch(rows, marks, keys[-1] if begin + most_rows < end else None)

    async def find(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> Sequence[Found]:
        stored = self._partitions.get(partition, _Rows())
        marks: defaultdict[tuple[int, bytes], list[Mark]] = defaultdict(list)
        for _, mark in stored.marks.values():
            marks[mark.key.position_ms, mark.key.digest].append(mark)
        return [Found(_rows_at(stored.places.get(key, {}).values()), marks.get(key, [])) for key in keys]

    async def look(self, look: Look) -> Looked:
        bare = [list(map(is_bare, await self.find(partition, keys))) for partition, keys in look.rows]
        moved = {digest for digest in look.tasks if move_key(digest) in self._registers}
        return Looked(
            bare, moved, {p for p in look.partitions if p in self._partitions and self._partitions[p].records}
        )

    async def mark_and_look(self, marks: Sequence[Mark], look: Look) -> tuple[int, Looked]:
        return await self.mark(marks), await self.look(look)

    async def mark(self, marks: Sequence[Mark]) -> int:
        fresh = 0
        for mark in marks:
            known = self._partitions[mark.partition].marks
            fresh += (mark.key, mark.kind) not in known
            known.setdefault((mark.key, mark.kind), (self._next(), mark))
        return fresh

    async def settle(self, records: Sequence[SettleRecord], dead_letters: Sequence[DeadLetter] = ()) -> None:
        await self.put_dead_letters(dead_letters)
        for record in records:
            self._partitions[record.partition].records.setdefault((record.token, record.sequence), record)

    async def settled(self, partition: Partition, known: Set[tuple[int, int]] = frozenset()) -> Sequence[SettleRecord]:
        records = self._partitions.get(partition, _Rows()).records
        return [record for name, record in sorted(records.items()) if name not in known]

    async def drop(self, partition: Partition) -> None:
        self._partitions.pop(partition, None)
        place = (partition.scope, partition.bucket_ms)
        entry = self._buckets.get(place)
        if entry is not None and entry.finished and partition.shard == entry.last_shard:
            self._dropped.add(place)

    async def catalogue(self, scope: int | None, lo_ms: int, hi_ms: int) -> Sequence[BucketEntry]:
        listed = (e for place, e in self._buckets.items() if place not in self._dropped)
        found = [e for e in listed if lo_ms <= e.bucket_ms < hi_ms and scope in (None, e.scope)]
        return sorted(found, key=lambda entry: (entry.bucket_ms, entry.scope))

    async def finish_bucket(self, scope: int, bucket_ms: int, *, finished: bool) -> None:
        entry = self._buckets.get((scope, bucket_ms)) or BucketEntry(scope, bucket_ms, 1, True, False)
        self._buckets[scope, bucket_ms] = replace(entry, finishing=True, finished=entry.finished or finished)
        self._dropped.discard((scope, bucket_ms))

    async def put_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> None:
        self._dead.update((letter.task_id, letter) for letter in dead_letters)

    async def dead(
        self, namespace: str, queue: str, lo_ms: int, hi_ms: int, after: bytes, limit: int
    ) -> Sequence[DeadLetter]:
        found = {
            letter.died_at_ms.to_bytes(8, "big") + letter.task_id: letter
            for letter in self._dead.values()
            if letter.template.namespace == namespace
            and queue in ("", letter.template.queue)
            and lo_ms <= letter.died_at_ms < hi_ms
        }
        return [found[place] for place in sorted(found) if place > after][:limit]

    async def get_dead_letters(self, task_ids: Sequence[bytes]) -> Sequence[DeadLetter]:
        return [self._dead[task_id] for task_id in task_ids if task_id in self._dead]

    async def take_dead_letters(self, task_ids: Sequence[bytes]) -> Sequence[DeadLetter]:
        removed = [self._dead.pop(task_id, None) for task_id in task_ids]
        return [letter for letter in removed if letter is not None]

    async def save_estimates(self, counts: Mapping[tuple[str, str, int], int]) -> None:
        for key, count in counts.items():
            self._estimates[key] += count

    async def estimates(self, namespace: str, queue: str, lo_ms: int, hi_ms: int) -> Mapping[int, int]:
        out: defaultdict[int, int] = defaultdict(int)
        for (space, name, minute_ms), count in self._estimates.items():
            if space == namespace and queue in ("", name) and lo_ms <= minute_ms < hi_ms:
                out[minute_ms] += count
        return dict(out)

    async def estimated(self, namespace: str, queue: str, lo_ms: int, hi_ms: int) -> EstimatedTotal:
        counts = await self.estimates(namespace, queue, lo_ms, hi_ms)
        return EstimatedTotal(sum(counts.values()), len(counts))

    async def cas(self, changes: Sequence[Cas]) -> Sequence[CasResult]:
        return [self._cas(change) for change in changes]

    def _cas(self, change: Cas) -> CasResult:
        current = self._registers.get(change.key)
        if current != change.expected:
            return CasResult(CasStatus.REFUSED, current)
        self._registers[change.key] = change.value
        return CasResult(CasStatus.APPLIED)

    async def read(self, keys: Sequence[RegisterKey]) -> Sequence[bytes | None]:
        return [self._registers.get(key) for key in keys]

    async def write_entries(self, entries: Sequence[Entry]) -> None:
        self._entries.update(entries)

    async def find_entries(self, keys: Sequence[EntryKey]) -> Sequence[bytes | None]:
        return [self._entries.get(key) for key in keys]

    async def list_entries(self, place: bytes, after: bytes, limit: int) -> Sequence[Entry]:
        found = sorted(key for key in self._entries if key.place == place and key.name > after)
        return [Entry(key, self._entries[key]) for key in found[:limit]]

    async def remove_entries(self, keys: Sequence[EntryKey]) -> None:
        for key in keys:
            self._entries.pop(key, None)

    async def facts(self) -> StoreFacts:
        used_bytes = sum(g.size_bytes for stored in self._partitions.values() for g in stored.groups)
        return StoreFacts("memory", "none: everything is gone when the process ends", used_bytes, 0, 0)

    async def close(self) -> None:
        """Nothing is held but memory."""


def _between(group: RowGroup, lo_ms: int, hi_ms: int, keys_only: bool) -> RowGroup:
    first, end = np.searchsorted(group.columns["position_ms"], [lo_ms, hi_ms]).tolist()
    part = group.select(slice(first, end))
    return replace(part, payloads=b"") if keys_only else part


def _rows_at(places: Iterable[_Place]) -> RowGroup:
    return concat([place.group.select(slice(place.row, place.row + 1)).compact() for place in places])
