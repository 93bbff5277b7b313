"""A stretch of a sorted run, with a cursor: what a due queue is made of, and how it finds the next of them."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np

from timerd.core.due_queue.lean_run import Run, positions_of
from timerd.core.taken import LAST
from timerd.core.urgency import Urgency
from timerd.model.identity import RowKey
from timerd.model.row_keys import Positions
from timerd.model.rows import RowGroup

FEW_DUE = 16


@dataclass(slots=True)
class Segment:
    """Rows [cursor, end) of `run` belong to one queue and urgency, sorted by position. `cursor == end`: used up."""

    run: Run
    urgency: Urgency
    cursor: int
    end: int
    size_bytes: int

    @property
    def head_ms(self) -> int:
        return int(positions_of(self.run)[self.cursor])

    def positions(self, limit: int) -> Positions:
        """The next positions, contiguous."""
        stop = min(self.end, self.cursor + limit)
        return np.ascontiguousarray(positions_of(self.run)[self.cursor : stop])

    def due(self, until_ms: int, limit: int) -> Positions:
        """Of the next positions those until then. Mostly few are, and each lies on memory of its own."""
        few = self.cursor + FEW_DUE
        has_few = few < self.end and positions_of(self.run)[few] > until_ms
        heads = self.positions(min(limit, FEW_DUE) if has_few else limit)
        return heads[: int(np.searchsorted(heads, until_ms, side="right"))]

    def upcoming(self, until_ms: int, limit: int) -> Positions:
        """Of the next positions those until then, and a few in any case: to begin with a run is what costs."""
        positions = positions_of(self.run)
        past = bisect_right(positions, until_ms, self.cursor, min(self.end, self.cursor + limit))
        return self.positions(max(past - self.cursor, min(limit, FEW_DUE)))

    def has(self, key: RowKey) -> bool:
        """Whether the row is one of them."""
        positions = positions_of(self.run)
        first = bisect_left(positions, key.position_ms, self.cursor, self.end)
        past = bisect_right(positions, key.position_ms, first, self.end)
        return first < past and key in self.run.select(slice(first, past)).keys()

    def next(self, rows: int) -> RowGroup:
        return self.run.select(slice(self.cursor, self.cursor + rows))

    def rest(self) -> RowGroup:
        return self.run.select(slice(self.cursor, self.end))


# By the head of each segment, as it was when it was pushed.
Heap = list[tuple[int, int, Segment]]


def pop_next(heap: Heap, until_ms: int, most: int) -> list[Segment]:
    found: list[Segment] = []
    while heap and len(found) < most and heap[0][0] <= until_ms:
        segment = heapq.heappop(heap)[2]
        if segment.cursor < segment.end:
            found.append(segment)
    return found


def live_head(heap: Heap) -> int | None:
    while heap and heap[0][2].cursor == heap[0][2].end:
        heapq.heappop(heap)
    return heap[0][0] if heap else None


def _nth(heads: list[Positions], number: int) -> int:
    """The position of the row that comes so late among all of these, the first is 1; LAST where they are fewer."""
    positions = np.concatenate(heads)
    return int(np.partition(positions, number - 1)[number - 1]) if len(positions) >= number else LAST


def first_of(runs: list[Segment], until_ms: int, most: int) -> list[int]:
    """How many rows of each are among the first `most` of all."""
    share = -(-2 * most // len(runs))
    heads = [s.upcoming(until_ms, share) for s in runs]
    last_ms = _nth(heads, most)
    # What was cut short before that is looked at again: its rest would lie beside the new run, to be gathered anew with
    # each that comes between.
    for at, (segment, head) in enumerate(zip(runs, heads, strict=True)):
        if len(head) == share and head[-1] < last_ms:
            heads[at] = segment.upcoming(min(until_ms, last_ms), most)
    last_ms = _nth(heads, most)
    counts = [int(np.searchsorted(head, last_ms)) for head in heads]
    # Rows of equal position come in any order, and may be many.
    room = most - sum(counts)
    for at, head in enumerate(heads):
        more = min(room, int(np.searchsorted(head, last_ms, side="right")) - counts[at])
        counts[at] += more
        room -= more
    return counts


def shares_of(due: list[Segment], limit: int, now_ms: int, upto: int) -> list[int]:
    """How many rows of each segment are among the first `limit` due ones."""
    ready = [s.due(min(now_ms, s.urgency.last_ms(upto, now_ms)), limit) for s in due]
    if len(due) == 1:
        return [len(ready[0])]
    keys = np.concatenate([s.urgency.order(r, now_ms) for r, s in zip(ready, due, strict=True)])
    owners = np.repeat(np.arange(len(due)), [len(r) for r in ready])
    first = owners[np.argsort(keys, kind="stable")[:limit]]
    return [int(n) for n in np.bincount(first, minlength=len(due))]
