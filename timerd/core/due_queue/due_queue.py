"""The waiting rows of one partition: immutable runs, cut into segments per queue and urgency.

A run is a row group sorted by (queue, urgency, position); a segment is the stretch of one queue and urgency in it,
with a cursor. The next task of a queue is the least of its segment heads by their order keys (core/urgency.py) among
those that are due (protocol section 6). Live inserts come as small runs that are merged by size class, so that a
partition that is filled one task at a time ends with a few large runs. No Python object per task.

The loop that fires does all of this, so no step may take many milliseconds, however much waits: merges are bounded,
what several runs have next is gathered as it comes near, and a cut shortens runs at once but copies them one by one.
A cut of limit keys looks at each row of them: it goes on run by run, and until then what was cut is passed over.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import numpy.typing as npt

from timerd.core.due_queue.heads import Heads
from timerd.core.due_queue.key_places import KeyPlaces, is_kept, sampled
from timerd.core.due_queue.lean_run import (
    LeanRun,
    Run,
    column_of,
    flagged,
    lean,
    part_of,
    positions_of,
    run_bytes,
    ties_at,
)
from timerd.core.due_queue.runs import joined, split, taken
from timerd.core.due_queue.segments import Heap, Segment, first_of, live_head, pop_next, shares_of
from timerd.core.due_queue.standing import standing
from timerd.core.due_queue.tie_order import RowsAt, tie_of
from timerd.core.due_queue.waiting_bytes import waiting_bytes
from timerd.core.taken import LAST, QueueKey
from timerd.core.urgency import Urgency
from timerd.model.identity import RowKey
from timerd.model.rows import RowGroup, empty_group

# Eight runs of a size class become one of the next; above the largest they stay, for a merge must not hold up firing.
# Nor must it where each of them is nearly as large, as pages of a full bucket are: then fewer become one that
# stays, and large enough that there are not many of those.
MERGE_RUNS = 8
MERGE_ROWS = 8_192
LARGEST_MERGE_ROWS = 4_096
LARGEST_MERGE_BYTES = 2 << 20
# Each run costs a take some 30 us, however few of its rows are due. So where several have some, what they and the next
# ones have until so much later becomes one run: a few us a row. Of as many runs, rows and bytes as take about 2 ms.
FRONT_MS = 1_000
FRONT_RUNS = 32
FRONT_ROWS = 8_192
FRONT_BYTES = 4 << 20
# Beforehand more may be gathered: nobody waits.
PREPARED_RUNS = 96
# Few runs that give so many rows each are not gathered: to move these would cost as much as the runs do, and where new
# runs come all the time it would be done again for each take.
SHARE_ROWS = 128
# So many are cut by keys at once, 0.2 to 0.4 ms each.
CUT_RUNS = 4
# About so many rows say where a share of them ends.
SAMPLE_ROWS = 8_192


@dataclass(slots=True)
class QueueLane:
    """One queue: a heap of segments by head for each urgency."""

    heaps: dict[Urgency, Heap] = field(default_factory=dict)
    tiers: dict[tuple[Urgency, int], list[Segment]] = field(default_factory=dict)
    rows: int = 0
    size_bytes: int = 0
    # Where its limit keys are being cut, and the runs that have still to be.
    places: KeyPlaces = field(default_factory=dict)
    uncut: deque[Segment] = field(default_factory=deque)


class DueQueue:
    """`size_bytes` and `rows` count what waits, which the shell bounds. `touched` is told which queues get rows."""

    def __init__(self, touched: set[QueueKey] | None = None) -> None:
        self._touched = touched if touched is not None else set()
        self._lanes: dict[QueueKey, QueueLane] = {}
        self._heads = Heads()
        self._order = count()
        # Shortened by a cut: what was cut off is still in their columns and arenas.
        self._loose: deque[Segment] = deque()
        # Those whose limit keys are being cut.
        self._cutting: dict[QueueKey, None] = {}
        # Pushed at a later instant than their heads, as long as rows of them are left.
        self._held: list[tuple[QueueKey, Segment]] = []
        self.rows = 0
        self.size_bytes = 0

    def queues(self) -> Iterator[QueueKey]:
        return iter(self._lanes)

    def lane_bytes(self, queue: QueueKey) -> int:
        lane = self._lanes.get(queue)
        return lane.size_bytes if lane else 0

    def lane_rows(self, queue: QueueKey) -> int:
        lane = self._lanes.get(queue)
        return lane.rows if lane else 0

    def add(self, rows: RowGroup, *, for_now: bool = False) -> None:
        """Takes rows of any queues and in any order; they share the group's arena. `for_now`: they leave soon, so it is
        not worth while to make them small."""
        for queue, urgency, part in split(rows):
            self._heads.at(queue, int(part.columns["position_ms"][0]))
            self._touched.add(queue)
            self._add_segment(self._lanes.setdefault(queue, QueueLane()), urgency, part, for_now=for_now)

    def hold(self, rows: RowGroup, until_ms: int) -> None:
        """As `add`, of rows that are not to be taken before that instant, although they are due."""
        for queue, urgency, part in split(rows):
            lane = self._lanes.setdefault(queue, QueueLane())
            segment = self._push(lane, urgency, part, waiting_bytes(part), not_before_ms=until_ms)
            alive = [(held, each) for held, each in self._held if each.cursor < each.end]
            self._held = [*alive, (queue, segment)]
            self._heads.at(queue, until_ms)
            self._touched.add(queue)

    def held(self, queue: QueueKey) -> list[RowGroup]:
        """What was put there by `hold` and is there still."""
        return [each.rest() for of, each in self._held if of == queue and each.cursor < each.end]

    def end_holds(self, until_ms: int) -> None:
        """Rows that are held, and whose positions are not after that instant, may be taken."""
        for queue, held in self._held:
            if held.cursor < held.end and held.head_ms <= until_ms:
                self._heads.at(queue, held.head_ms)
                heap = self._lanes[queue].heaps[held.urgency]
                heap[:] = [(held.head_ms, n, each) if each is held else (at_ms, n, each) for at_ms, n, each in heap]
                heapq.heapify(heap)

    def take(self, queue: QueueKey, limit: int, now_ms: int, upto: int = LAST) -> RowGroup | None:
        """Up to `limit` rows with position <= now and order key <= `upto`, in order; they are no longer here. There may
        be fewer though more are due, or none, where the queue is being cut."""
        lane = self._lanes.get(queue)
        due = self._pop_due(lane, limit, now_ms) if lane and limit > 0 else []
        if lane is None or not due:
            return None
        # Nothing is looked at in vain where there are more runs than could give so many rows.
        shares = shares_of(due, limit, now_ms, upto) if limit >= len(due) * SHARE_ROWS else []
        if len(due) > 1 and sum(shares) < len(due) * SHARE_ROWS:
            self._gather_front(lane, due, now_ms + FRONT_MS, limit)
            due = self._pop_due(lane, limit, now_ms)
            shares = []
        shares = shares or shares_of(due, limit, now_ms, upto)
        parts = [s.next(n) for s, n in zip(due, shares, strict=True) if n]
        for segment, n in zip(due, shares, strict=True):
            self._advance(lane, segment, n)
        if not lane.rows:
            del self._lanes[queue]
        return _kept(taken(parts, now_ms), lane.places) if parts else None

    def prepare(self, queue: QueueKey, until_ms: int) -> bool:
        """Gathers what a take until then would have to: in a moment in which nothing is due it holds nobody up. Whether
        there was anything to gather."""
        lane = self._lanes.get(queue)
        # What is held is not gathered with the others: it would be taken before its time.
        due = self._pop_due(lane, FRONT_ROWS, until_ms) if lane and not self._held else []
        if lane is None or not due:
            return False
        gathered = due[:PREPARED_RUNS] if len(due) > 1 else []
        for segment in due[len(gathered) :]:
            self._advance(lane, segment, 0)
        if gathered:
            self._gather_front(lane, gathered, until_ms + FRONT_MS, 0)
        return bool(gathered)

    def next_ms(self, queue: QueueKey) -> int | None:
        """Position of the queue's earliest row; of rows that are held, until when they are."""
        lane = self._lanes.get(queue)
        heads = [live_head(heap) for heap in lane.heaps.values()] if lane else []
        return min((h for h in heads if h is not None), default=None)

    def head_key(self, queue: QueueKey, now_ms: int) -> int | None:
        """The order key of the row that `take` would give next."""
        lane = self._lanes.get(queue)
        heads = [(urgency, live_head(heap)) for urgency, heap in lane.heaps.items()] if lane else []
        return min((u.order(ms, now_ms) for u, ms in heads if ms is not None and ms <= now_ms), default=None)

    def due_rows(self, queue: QueueKey, until_ms: int, most: int) -> int:
        """How many rows have a position <= until; `most` or more is said as `most`."""
        lane = self._lanes.get(queue)
        found = 0
        for head_ms, _, segment in (entry for heap in lane.heaps.values() for entry in heap) if lane else ():
            if head_ms <= until_ms and segment.cursor < segment.end:
                positions = positions_of(segment.run)
                stop = min(segment.end, segment.cursor + most)
                found += bisect_right(positions, until_ms, segment.cursor, stop) - segment.cursor
                if found >= most:
                    return most
        return found

    def standing(self, queue: QueueKey, until_ms: int, past_ms: int) -> tuple[int, int | None]:
        """(how many rows with a position <= until have not expired by `past_ms`, the position of the first row that has
        not). Only runs whose templates say that they expire are looked at row by row."""
        lane = self._lanes.get(queue)
        found = [standing(s, until_ms, past_ms) for s in (_live(lane) if lane else ())]
        return sum(rows for rows, _ in found), min((ms for _, ms in found if ms is not None), default=None)

    def flagged(self, flag: int) -> list[RowGroup]:
        """The rows that have it."""
        live = [segment for lane in self._lanes.values() for segment in _live(lane)]
        found = [flagged(segment.run, slice(segment.cursor, segment.end), flag) for segment in live]
        return [rows for rows in found if len(rows)]

    def has(self, key: RowKey) -> bool:
        """Whether the row waits here. There is no index: each run is looked at."""
        return any(segment.has(key) for lane in self._lanes.values() for segment in _live(lane))

    def oldest_ms(self) -> int | None:
        """Position of the earliest row of all, held or not."""
        first_ms = self._heads.first_ms(self.next_ms)
        if first_ms is None or not self._held:
            return first_ms
        self._held = [(queue, each) for queue, each in self._held if each.cursor < each.end]
        return min([first_ms, *(each.head_ms for _, each in self._held)])

    def cut(self, queue: QueueKey, position_ms: int, tie: int) -> int:
        """Drops the queue's rows at or after (position, tie): they are in the store. Returns how many. What they took
        is free when `tidy` has been called until it has nothing left to do."""
        lane = self._lanes.get(queue)
        if lane is None:
            return 0
        rows = lane.rows
        for segment in _live(lane):
            self._shorten(lane, segment, position_ms, tie)
        if not lane.rows:
            del self._lanes[queue]
        return rows - lane.rows

    def cut_keys(self, queue: QueueKey, places: KeyPlaces) -> None:
        """As `cut`, of limit keys at the places of these; rows of ordering keys stay. It goes on with `cut_on`."""
        lane = self._lanes.get(queue)
        if lane is not None:
            lane.places = places
            lane.uncut.extend(_live(lane))
            self._cutting[queue] = None
            self.cut_on(queue)

    def cut_on(self, queue: QueueKey, runs: int = 0) -> bool:
        """Cuts some more runs of the queue, or so many, where it is being cut. Whether there are more."""
        lane = self._lanes.get(queue)
        if lane is None or not lane.uncut:
            return False
        for _ in range(min(runs or CUT_RUNS, len(lane.uncut))):
            segment = lane.uncut.popleft()
            kept = is_kept(segment.run, slice(segment.cursor, segment.end), lane.places)
            if not kept.all():
                self._leave_behind(lane, segment, kept)
        self._raise_heads(lane)
        if not lane.uncut:
            lane.places = {}
        if not lane.rows:
            del self._lanes[queue]
        return bool(lane.uncut)

    def is_being_cut(self, queue: QueueKey) -> bool:
        lane = self._lanes.get(queue)
        return lane is not None and bool(lane.uncut)

    def sample(self, queue: QueueKey, step: int) -> list[RowGroup]:
        """About one of `step` rows."""
        lane = self._lanes.get(queue)
        return [s.run.select(sampled(s.cursor, s.end, step)) for s in (_live(lane) if lane else ())]

    def pull_at(self, wanted: RowsAt, until_ms: int) -> list[RowGroup]:
        """Takes out those of the wanted rows that are due: each group is of one queue, in order of firing."""
        pulled: list[RowGroup] = []
        for queue in list(self._lanes):
            lane = self._lanes[queue]
            found = [rows for s in _live(lane) for rows in self._pull_from(lane, s, wanted, until_ms)]
            if found:
                pulled += found
                self._raise_heads(lane)
            if not lane.rows:
                del self._lanes[queue]
        return pulled

    def tidy(self) -> bool:
        """Copies one run that was shortened, so that the rest of it is let go; whether there are more. A queue that is
        being cut goes first."""
        if self._cutting:
            queue = next(iter(self._cutting))
            if not self.cut_on(queue):
                del self._cutting[queue]
            return True
        while self._loose:
            segment = self._loose.popleft()
            if segment.cursor < segment.end:
                rest = segment.rest().compact()
                segment.run = lean(rest) if isinstance(segment.run, LeanRun) else rest
                segment.cursor, segment.end = 0, len(rest)
                break
        return bool(self._loose)

    def lowest(self, queue: QueueKey, share_bytes: int) -> tuple[int, int]:
        """(position, tie) so that the queue's rows before it take about `share_bytes`, and are one at least."""
        lane = self._lanes[queue]
        step = -(-lane.rows // SAMPLE_ROWS)
        parts = [s.run.select(slice(s.cursor, s.end, step)) for s in _live(lane)]
        positions = np.concatenate([p.columns["position_ms"] for p in parts])
        ties = np.concatenate([tie_of(p) for p in parts])
        wanted = int(len(positions) * share_bytes / max(1, lane.size_bytes))
        order = np.lexsort((ties, positions))
        positions, ties = positions[order], ties[order]
        after_first = int(np.count_nonzero((positions == positions[0]) & (ties == ties[0])))
        at = max(after_first, min(len(positions) - 1, wanted))
        # Between two instants a cut is a cut of each run; within one, its rows have to be looked at.
        instant = int(np.searchsorted(positions, positions[min(at, len(positions) - 1)]))
        if after_first <= instant and at // 2 <= instant:
            return int(positions[instant]), 0
        if at == len(positions):
            return int(positions[0]) + 1, 0
        return int(positions[at]), int(ties[at])

    def check(self) -> None:
        """Invariants, for tests."""
        for lane in self._lanes.values():
            live = _live(lane)
            assert lane.rows == sum(s.end - s.cursor for s in live) > 0
            for s in live:
                assert bool(np.all(np.diff(s.rest().columns["position_ms"]) >= 0))
            entries = [e[2] for heap in lane.heaps.values() for e in heap if e[2].cursor < e[2].end]
            assert {id(s) for s in entries} == {id(s) for s in live}
        assert self.rows == sum(lane.rows for lane in self._lanes.values())
        assert self.size_bytes == sum(lane.size_bytes for lane in self._lanes.values())

    def _add_segment(self, lane: QueueLane, urgency: Urgency, part: RowGroup, *, for_now: bool = False) -> None:
        size_bytes = waiting_bytes(part)
        if not _is_final(len(part), size_bytes):
            self._tier(lane, self._push(lane, urgency, part, size_bytes))
        elif for_now:
            self._push(lane, urgency, part, size_bytes)
        else:
            run = lean(part)
            self._push(lane, urgency, run, size_bytes - run.saved_bytes)

    def _push(self, lane: QueueLane, urgency: Urgency, run: Run, size_bytes: int, *, not_before_ms: int = 0) -> Segment:
        segment = Segment(run, urgency, 0, len(run), size_bytes)
        at_ms = max(segment.head_ms, not_before_ms)
        heapq.heappush(lane.heaps.setdefault(urgency, []), (at_ms, next(self._order), segment))
        self._count(lane, len(run), size_bytes)
        if lane.uncut:
            lane.uncut.append(segment)
        return segment

    def _tier(self, lane: QueueLane, segment: Segment) -> None:
        """Merges a full size class into one run."""
        tier = lane.tiers.setdefault((segment.urgency, len(segment.run).bit_length() // 3), [])
        tier.append(segment)
        if not _is_full(tier):
            return
        alive = [s for s in tier if s.cursor < s.end]
        tier.clear()
        parts = [s.rest() for s in alive]
        for s in alive:
            self._count(lane, s.cursor - s.end, -s.size_bytes)
            # Used up, and its rows let go: the entry stays in the heap until its head would have been due.
            s.run, s.cursor, s.end, s.size_bytes = empty_group(), 0, 0, 0
        self._add_segment(lane, segment.urgency, joined(parts))

    def _gather_front(self, lane: QueueLane, due: list[Segment], until_ms: int, least: int) -> None:
        """`due`, which were taken off their heaps, go back; what they and others have next is one run for each
        urgency. `least`: of so many rows, where there are more."""
        most = max(1, least, _front_rows(due))
        for urgency in {s.urgency for s in due}:
            runs = [s for s in due if s.urgency == urgency]
            if len(runs) > 1 and not self._held:
                runs += pop_next(lane.heaps[urgency], until_ms, FRONT_RUNS - len(runs))
            counts = first_of(runs, until_ms, most) if len(runs) > 1 else [0]
            parts = [s.next(n) for s, n in zip(runs, counts, strict=True) if n]
            for segment, n in zip(runs, counts, strict=True):
                self._advance(lane, segment, n)
            if parts:
                front = joined(parts)
                self._push(lane, urgency, front, waiting_bytes(front))

    def _shorten(self, lane: QueueLane, segment: Segment, position_ms: int, tie: int) -> None:
        left = segment.end - segment.cursor
        positions = segment.positions(left)
        first, past = np.searchsorted(positions, [position_ms, position_ms + 1]).tolist()
        rest = part_of(segment.run, slice(segment.cursor, segment.end))
        here, kept = rest.select(slice(first, past)), part_of(rest, slice(first))
        early = np.flatnonzero(tie_of(here) < np.uint64(tie)) if tie and len(here) else ()
        if len(early):
            kept = rest.select(slice(past)).select(np.concatenate([np.arange(first), first + early]))
        if len(kept) == left:
            return
        size_bytes = run_bytes(kept)
        self._count(lane, len(kept) - left, size_bytes - segment.size_bytes)
        # Without rows the entry stays in the heap until its head would have been due.
        segment.run, segment.cursor, segment.end = kept if len(kept) else empty_group(), 0, len(kept)
        segment.size_bytes = size_bytes
        self._loose.append(segment)

    def _pull_from(self, lane: QueueLane, segment: Segment, wanted: RowsAt, until_ms: int) -> Iterator[RowGroup]:
        past = bisect_right(positions_of(segment.run), until_ms, segment.cursor, segment.end)
        near = wanted.near(positions_of(segment.run)[segment.cursor : past])
        if not len(near):
            return
        near += segment.cursor
        is_wanted = wanted.ties_among(ties_at(segment.run, near))
        if is_wanted.any():
            yield segment.run.select(near[is_wanted])
            which = near[is_wanted]
            self._leave_out(lane, segment, which, segment.size_bytes * len(which) // (segment.end - segment.cursor))

    def _leave_out(self, lane: QueueLane, segment: Segment, which: npt.NDArray[np.intp], freed: int) -> None:
        """What is left of the run keeps its columns' arena until `tidy`, where that is most of it."""
        kept = np.delete(np.arange(segment.cursor, segment.end), which - segment.cursor)
        freed = freed if len(kept) else segment.size_bytes
        self._count(lane, -len(which), -freed)
        if len(kept) * 2 < len(segment.run):
            self._loose.append(segment)
        segment.run = part_of(segment.run, kept) if len(kept) else empty_group()
        segment.cursor, segment.end, segment.size_bytes = 0, len(kept), segment.size_bytes - freed

    def _leave_behind(self, lane: QueueLane, segment: Segment, kept: npt.NDArray[np.bool_]) -> None:
        """Keys differ in the length of their payloads."""
        rows = slice(segment.cursor, segment.end)
        lengths = column_of(segment.run, "length", rows).astype(np.int64)
        left_bytes, kept_bytes = int(lengths.sum()), int(lengths[kept].sum())
        even_bytes = max(0, segment.size_bytes - left_bytes) * int(np.count_nonzero(kept)) // len(kept)
        which = np.flatnonzero(~kept) + segment.cursor
        self._leave_out(lane, segment, which, max(0, segment.size_bytes - kept_bytes - even_bytes))

    def _raise_heads(self, lane: QueueLane) -> None:
        """Where the first rows of runs have left."""
        for heap in lane.heaps.values():
            heap[:] = [(max(at_ms, s.head_ms), n, s) for at_ms, n, s in heap if s.cursor < s.end]
            heapq.heapify(heap)

    def _pop_due(self, lane: QueueLane, limit: int, now_ms: int) -> list[Segment]:
        """The segments that may hold some of the next `limit` rows, taken off their heaps."""
        found: list[Segment] = []
        for heap in lane.heaps.values():
            rows = 0
            # Rows of equal position come in any order: whose head is at the bound has none that must come before.
            bound = now_ms + 1
            while heap and heap[0][0] < bound:
                segment = heapq.heappop(heap)[2]
                if segment.cursor == segment.end:
                    continue
                found.append(segment)
                rows += segment.end - segment.cursor
                if rows >= limit and segment.end - segment.cursor >= limit:
                    bound = min(bound, int(positions_of(segment.run)[segment.cursor + limit - 1]))
        return found

    def _advance(self, lane: QueueLane, segment: Segment, n: int) -> None:
        left = segment.end - segment.cursor
        freed = segment.size_bytes if n == left else segment.size_bytes * n // left
        segment.cursor += n
        segment.size_bytes -= freed
        self._count(lane, -n, -freed)
        if n < left:
            heapq.heappush(lane.heaps[segment.urgency], (segment.head_ms, next(self._order), segment))

    def _count(self, lane: QueueLane, rows: int, size_bytes: int) -> None:
        lane.rows += rows
        lane.size_bytes += size_bytes
        self.rows += rows
        self.size_bytes += size_bytes


def _is_final(rows: int, size_bytes: int) -> bool:
    """Whether a run is merged with nothing any more."""
    return rows >= LARGEST_MERGE_ROWS or size_bytes >= LARGEST_MERGE_BYTES


def _is_full(tier: list[Segment]) -> bool:
    """Eight, or as many as make one that stays."""
    if len(tier) == MERGE_RUNS:
        return True
    return sum(len(s.run) for s in tier) >= MERGE_ROWS or sum(s.size_bytes for s in tier) >= LARGEST_MERGE_BYTES


def _front_rows(due: list[Segment]) -> int:
    rows = sum(s.end - s.cursor for s in due)
    return min(FRONT_ROWS, FRONT_BYTES * rows // max(1, sum(s.size_bytes for s in due)))


def _kept(rows: RowGroup, places: KeyPlaces) -> RowGroup:
    return rows.select(np.flatnonzero(is_kept(rows, slice(0, len(rows)), places))) if places else rows


def _live(lane: QueueLane) -> list[Segment]:
    return [entry[2] for heap in lane.heaps.values() for entry in heap if entry[2].cursor < entry[2].end]
