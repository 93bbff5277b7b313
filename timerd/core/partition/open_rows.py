"""Rows that are open: sent, and not over; and the copies that wait behind them, and end as they do.

Open rows stay in the arrays that they came in, none is an object of its own, and what was sent together and has ended
together leaves together.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

from timerd.core.due_queue import NOWHERE
from timerd.core.partition.copies import Copies
from timerd.core.partition.reload import Reload
from timerd.core.taken import AckedRows, QueueKey, Taken
from timerd.model.identity import RowKey, generation_of
from timerd.model.rows import RowGroup

# A slot is number of the batch * MOST_ROWS + row.
MOST_ROWS = 1 << 20
FEW_ROWS = 64


class Closed(NamedTuple):
    """A row that was open."""

    rows: RowGroup
    row: int
    key: RowKey


@dataclass(slots=True, eq=False)
class OpenBatch:
    """Rows that were sent together; the batch holds `verified` back while one of them is open: `left` of them are."""

    number: int
    taken: Taken
    left: int
    oldest_ms: int
    latest_ms: int
    sent_ms: int

    def are_at(self, rows: slice, positions: list[int], versions: list[int]) -> bool:
        return self.taken.positions[rows] == positions and self.taken.versions[rows] == versions


class OpenRows:
    """By digest: of one task one row is open at the most."""

    def __init__(self) -> None:
        self._slots: dict[bytes, int] = {}
        # Those with a row that is open.
        self._batches: dict[int, OpenBatch] = {}
        self._next = 0
        self.copies = Copies()

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._slots

    def keys(self) -> KeysView[bytes]:
        return self._slots.keys()

    def has_any(self, reload: Reload) -> bool:
        """Whether one that the reload brings, or that was sent with it, is open."""
        near = (batch.taken.rows for batch in self._batches.values() if batch.latest_ms >= reload.first_ms)
        return not all(bool(reload.leaves(rows).all()) for rows in near if _may_bring(reload, rows))

    def get(self, digest: bytes) -> tuple[OpenBatch, int] | None:
        slot = self._slots.get(digest)
        return None if slot is None else (self._batches[slot // MOST_ROWS], slot % MOST_ROWS)

    def is_open(self, key: RowKey) -> bool:
        """Whether the task is open by a row of this attempt."""
        slot = self._slots.get(key.digest)
        return slot is not None and self._batches[slot // MOST_ROWS].taken.versions[slot % MOST_ROWS] == key.version

    def key_of(self, digest: bytes) -> RowKey | None:
        """The row by which the task is open."""
        found = self.get(digest)
        return found[0].taken.key(found[1]) if found is not None else None

    def pop(self, digest: bytes) -> tuple[OpenBatch, int] | None:
        """The batch's tables stay usable."""
        slot = self._slots.pop(digest, None)
        if slot is None:
            return None
        batch = self._batches[slot // MOST_ROWS]
        self._less(batch, 1)
        return batch, slot % MOST_ROWS

    def close(self, key: RowKey) -> Closed | None:
        """Takes the open row of the same generation out. None: there is none."""
        found = self.get(key.digest)
        if found is None:
            return None
        batch, row = found
        version = batch.taken.versions[row]
        if version != key.version and generation_of(version) != generation_of(key.version):
            return None
        self.pop(key.digest)
        return Closed(batch.taken.rows, row, batch.taken.key(row))

    def all_of(self, closed: Closed) -> list[RowKey]:
        """The row and the copies that end with it."""
        return [closed.key, *self.copies.pop(closed.key.digest)]

    def before(self, position_ms: int) -> Iterator[RowKey]:
        """Open rows older than `position_ms`."""
        for batch in self._batches_now():
            if batch.oldest_ms < position_ms:
                yield from (key for key in self.keys_of(batch) if key.position_ms < position_ms)

    def since(self, sent_ms: int) -> Iterator[RowKey]:
        """Rows sent before `sent_ms` that are still open: what was due long ago is not late because of its worker."""
        for batch in self._batches_now():
            if batch.sent_ms < sent_ms:
                yield from self.keys_of(batch)

    def oldest_ms(self) -> int | None:
        """Position of the oldest row, or copy, that is not over."""
        return min([*(batch.oldest_ms for batch in self._batches.values()), *self.copies.positions_ms()], default=None)

    def latest_ms(self) -> int | None:
        """Position of the latest row of what was sent."""
        return max((batch.latest_ms for batch in self._batches.values()), default=None)

    def end(self, key: RowKey) -> bool:
        """Takes the very row out. False: it is not open."""
        position_ms, digest, version = key
        slot = self._slots.get(digest)
        if slot is None:
            return False
        batch, row = self._batches[slot // MOST_ROWS], slot % MOST_ROWS
        if batch.taken.positions[row] != position_ms or batch.taken.versions[row] != version:
            return False
        del self._slots[digest]
        self._less(batch, 1)
        return True

    def add(self, taken: Taken, sent_ms: int) -> None:
        """A task that was open by another row is open by this one."""
        digests = taken.digests
        if not self._slots.keys().isdisjoint(digests):
            for digest in self._slots.keys() & digests:
                self.pop(digest)
        number, count = self._next, len(digests)
        self._next += 1
        # Of a few the list says it sooner.
        positions, column = taken.positions, taken.rows.columns["position_ms"]
        few = count < FEW_ROWS
        first_ms, last_ms = (min(positions), max(positions)) if few else (int(column.min()), int(column.max()))
        self._batches[number] = OpenBatch(number, taken, count, first_ms, last_ms, sent_ms)
        first = number * MOST_ROWS
        self._slots.update(zip(digests, range(first, first + count), strict=True))

    def take_out(self, acked: AckedRows) -> RowGroup | None:
        """All of them, which were sent together. None: nothing was done, for not all of them are open as they were
        sent."""
        first = self._slots.get(acked.digests[0])
        if first is None:
            return None
        count = len(acked)
        batch, row = self._batches[first // MOST_ROWS], first % MOST_ROWS
        where = slice(row, row + count)
        if not batch.are_at(where, acked.positions, acked.versions):
            return None
        slots = list(map(self._slots.pop, acked.digests, repeat(None)))
        if slots != list(range(first, first + count)):
            # As it was: they end one by one.
            self._slots.update((d, slot) for d, slot in zip(acked.digests, slots, strict=True) if slot is not None)
            return None
        self._less(batch, count)
        return batch.taken.rows.select(where)

    def keys_of(self, batch: OpenBatch) -> Iterator[RowKey]:
        """Its rows that are open still: the task may be open by a later row of the same attempt."""
        first = batch.number * MOST_ROWS
        for row, digest in enumerate(batch.taken.digests):
            if self._slots.get(digest) == first + row:
                yield batch.taken.key(row)

    def clear(self) -> None:
        self._slots.clear()
        self._batches.clear()
        self.copies.clear()

    def _batches_now(self) -> list[OpenBatch]:
        return list(self._batches.values())

    def _less(self, batch: OpenBatch, rows: int) -> None:
        batch.left -= rows
        if not batch.left:
            del self._batches[batch.number]


def _may_bring(reload: Reload, rows: RowGroup) -> bool:
    """Where only limit keys come, most batches have none of them."""
    if not _is_of(reload.queue, rows):
        return False
    return reload.place != NOWHERE or any(t.limit_key in reload.keys for t in rows.templates)


def _is_of(queue: QueueKey, rows: RowGroup) -> bool:
    """What is sent together is of one queue."""
    template = rows.template_of(0)
    return (template.namespace, template.queue) == queue
