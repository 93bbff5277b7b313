"""The rows of one partition in memory: waiting, aside, open; and which of them may still fire.

Every row comes through `merge` (a page) or `hint`; both may bring a row again, so what is known is skipped: by the
name of its commit where the store has cursors, else by its key. A verdict (cancelled, moved away, written again) is
remembered for rows not yet known as well, and is checked in the step that starts each send (protocol sections 4 and 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from timerd.core.due_queue import DueQueue, before, split
from timerd.core.memory import Memory
from timerd.core.settled_index import SettledIndex
from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey, generation_of
from timerd.model.rows import FLAG_MOVED_IN, ROW, RowGroup
from timerd.model.settle import Outcome
from timerd.model.storage import Mark, MarkKind

VERDICTS = {MarkKind.CANCELLED: Outcome.CANCELLED, MarkKind.PURGED: Outcome.PURGED, MarkKind.ACKED: Outcome.ACKED}
Ending = tuple[RowKey, Outcome]


@dataclass(slots=True)
class OpenBatch:
    """Rows that were sent together; the batch holds `verified` back while one of them is open."""

    rows: RowGroup
    left: int
    oldest_ms: int


class RowsInHand:
    """`settled` is the settle log's: rows in it are over."""

    def __init__(self, memory: Memory, settled: SettledIndex) -> None:
        self.waiting = DueQueue()
        self.open: dict[bytes, tuple[OpenBatch, int]] = {}
        # Digest -> hash of the request that cancelled (empty: purged or acknowledged).
        self.verdicts: dict[bytes, tuple[Outcome, bytes]] = {}
        self.row_verdicts: dict[RowKey, Outcome] = {}
        # Rows that fire only after `moves` says that the task lives here, and digests that a mover asked for.
        self.aside: dict[RowKey, RowGroup] = {}
        self.suspended: dict[bytes, int] = {}
        # Of tasks that moved: the generation whose rows may fire, and the move that said so.
        self.alive: dict[bytes, tuple[int, int]] = {}
        # Queues whose rows at or after (position, tie) are left in the store.
        self.withheld: dict[QueueKey, tuple[int, int]] = {}
        self.cursor = 0
        self._hinted: dict[int, set[bytes]] = {}
        self._known: set[RowKey] | None = None
        self._batches: list[OpenBatch] = []
        self._memory = memory
        self._settled = settled
        self._counted_bytes = 0

    def mark(self, marks: Sequence[Mark]) -> None:
        """Before the rows they speak of are merged."""
        for m in marks:
            if m.kind in VERDICTS:
                self.verdicts.setdefault(m.key.digest, (VERDICTS[m.kind], m.value))
            elif m.kind == MarkKind.FORWARD:
                self.row_verdicts.setdefault(m.key, Outcome.FORWARDED)
            elif self.alive.get(m.key.digest, (0, 0))[1] < int(m.value):
                self.suspended.setdefault(m.key.digest, 0)

    def merge(self, rows: RowGroup, only: QueueKey | None = None) -> None:
        """A group of a page. `only`: of a reload, all of one queue at or after where it was cut."""
        rows = self._unhinted(rows) if only is None else rows
        for queue, _, part in split(rows):
            if only in (None, queue):
                self._admit(queue, part, reload=only is not None)

    def hint(self, rows: RowGroup, source: int) -> None:
        """Rows that were just written. They may be on a page as well."""
        if source and source <= self.cursor:
            return
        if source:
            self._hinted.setdefault(source, set()).update(rows.prefixes.tolist())
        else:
            rows = self._unknown(rows)
        for queue, _, part in split(rows):
            self._admit(queue, part, reload=False)

    def forget_hints(self, cursor: int) -> None:
        """Everything up to `cursor` has been merged."""
        self.cursor = max(self.cursor, cursor)
        for source in [s for s in self._hinted if s <= cursor]:
            del self._hinted[source]

    def take(self, queue: QueueKey, limit: int, now_ms: int) -> tuple[RowGroup | None, list[bytes], list[Ending]]:
        """Due rows that may be sent (no longer waiting, not yet open), their digests, and rows that turned out to be
        over."""
        rows = self.waiting.take(queue, limit, now_ms)
        self._count()
        if rows is None:
            return None, [], []
        digests = rows.digests()
        over = self._sieve(rows, digests, now_ms)
        if not over:
            return rows, digests, []
        keep = [n for n in range(len(rows)) if n not in over]
        ended = [ending for ending in over.values() if ending is not None]
        return rows.select(np.array(keep, dtype=np.intp)), [digests[n] for n in keep], ended

    def send(self, rows: RowGroup, digests: Sequence[bytes]) -> None:
        """From here on they are open."""
        batch = OpenBatch(rows, len(digests), int(rows.columns["position_ms"].min()))
        self._batches.append(batch)
        for n, digest in enumerate(digests):
            self.open[digest] = (batch, n)

    def close(self, digest: bytes) -> tuple[RowGroup, int] | None:
        """The row (group, index) is no longer open; None: it was not."""
        found = self.open.pop(digest, None)
        if found is None:
            return None
        batch, row = found
        batch.left -= 1
        return batch.rows, row

    def open_before(self, position_ms: int) -> Iterator[RowKey]:
        """Open rows older than `position_ms`."""
        for batch in self._batches:
            if batch.left and batch.oldest_ms < position_ms:
                for key in batch.rows.keys():
                    if key.position_ms < position_ms and self.is_open(key):
                        yield key

    def is_open(self, key: RowKey) -> bool:
        found = self.open.get(key.digest)
        return found is not None and int(found[0].rows.columns["version"][found[1]]) == key.version

    def settle_aside(self, digest: bytes, generation: int, move: int) -> list[Ending]:
        """`moves`, as the move of that number left it, says which generation lives: its rows may fire, others are
        over."""
        self.suspended.pop(digest, None)
        self.alive[digest] = (generation, move)
        ended: list[Ending] = []
        for key in [k for k in self.aside if k.digest == digest]:
            row = self.aside.pop(key)
            verdict = self.verdict(key)
            if verdict is not None:
                ended.append((key, verdict))
            else:
                self.waiting.add(row)
        self._count()
        return ended

    def oldest_ms(self) -> int | None:
        """Position of the oldest row that is not over."""
        self._batches = [b for b in self._batches if b.left]
        found = [b.oldest_ms for b in self._batches]
        found += [key.position_ms for key in self.aside]
        found += [position for position, _ in self.withheld.values()]
        waiting = self.waiting.oldest_ms()
        return min(found if waiting is None else [*found, waiting], default=None)

    def drop_all(self) -> None:
        """The partition is no longer held."""
        self.waiting = DueQueue()
        self.open.clear()
        self.aside.clear()
        self._batches.clear()
        self._count()

    def _unhinted(self, rows: RowGroup) -> RowGroup:
        if rows.source == 0:
            return self._unknown(rows)
        hinted = self._hinted.get(rows.source)
        if not hinted:
            return rows
        fresh = np.array([prefix not in hinted for prefix in rows.prefixes.tolist()], dtype=bool)
        return rows.select(np.flatnonzero(fresh[rows.columns["prefix"]]))

    def _unknown(self, rows: RowGroup) -> RowGroup:
        """Of a store without cursors: by key."""
        known = self._known = self._known if self._known is not None else set()
        keys = rows.keys()
        fresh = [n for n, key in enumerate(keys) if key not in known]
        known.update(keys)
        return rows.select(np.array(fresh, dtype=np.intp))

    def _admit(self, queue: QueueKey, rows: RowGroup, *, reload: bool) -> None:
        """Keeps the rows, or leaves the end of the queue in the store when its share is used up."""
        cut = self.withheld.get(queue)
        if cut is not None:
            early = before(rows, *cut)
            rows = rows.select(np.flatnonzero(~early if reload else early))
        rows = self._set_aside(rows)
        if not len(rows):
            return
        self.waiting.add(rows)
        self._count()
        self._withhold(queue, reload=reload)

    def _withhold(self, queue: QueueKey, *, reload: bool) -> None:
        share = self._memory.share_bytes(queue, self.waiting.lane_bytes(queue))
        if self.waiting.lane_bytes(queue) <= share:
            return
        place = self.waiting.lowest(queue, share * 3 // 4)
        self.waiting.cut(queue, *place)
        self.withheld[queue] = place if reload else min(place, self.withheld.get(queue, place))
        self._count()

    def _set_aside(self, rows: RowGroup) -> RowGroup:
        """Drops what has ended; rows that `moves` must speak for do not wait with the others."""
        if len(self._settled):
            rows = rows.select(np.flatnonzero(~self._settled.known(rows)))
        flagged = rows.columns["flags"] & FLAG_MOVED_IN
        if not self.suspended and not bool(flagged.any()):
            return rows
        keep = []
        for n, key in enumerate(rows.keys()):
            if flagged[n] or key.digest in self.suspended:
                self.aside.setdefault(key, rows.select(slice(n, n + 1)).compact())
            else:
                keep.append(n)
        return rows.select(np.array(keep, dtype=np.intp))

    def _sieve(self, rows: RowGroup, digests: list[bytes], now_ms: int) -> dict[int, Ending | None]:
        """Row -> how it ended; None: it is aside and has not."""
        over: dict[int, Ending | None] = {}
        if self.verdicts or self.row_verdicts or self.suspended or self.alive:
            for n, digest in enumerate(digests):
                key = RowKey(int(rows.columns["position_ms"][n]), digest, int(rows.columns["version"][n]))
                if (verdict := self.verdict(key)) is not None:
                    over[n] = (key, verdict)
                elif digest in self.suspended:
                    self.aside[key] = rows.select(slice(n, n + 1)).compact()
                    over[n] = None
        if any(t.expire_at_ms and t.expire_at_ms <= now_ms for t in rows.templates):
            for n, key in enumerate(rows.keys()):
                expire_at_ms = rows.template_of(n).expire_at_ms
                if n not in over and expire_at_ms and expire_at_ms <= now_ms:
                    over[n] = (key, Outcome.EXPIRED)
        return over

    def verdict(self, key: RowKey) -> Outcome | None:
        """How a row that is not open will end when it is met, where that is settled already."""
        found = self.verdicts.get(key.digest)
        if found is not None:
            return found[0]
        alive = self.alive.get(key.digest)
        if alive is not None and alive[0] != generation_of(key.version):
            return Outcome.MOVED
        return self.row_verdicts.get(key)

    def _count(self) -> None:
        now_bytes = self.waiting.size_bytes + len(self.aside) * (ROW.itemsize + 400)
        self._memory.used_bytes += now_bytes - self._counted_bytes
        self._counted_bytes = now_bytes
