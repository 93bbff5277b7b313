"""The rows of one partition in memory: waiting, aside, open; and which of them may still fire.

Every row comes through `merge` (a page) or `hint`; both may bring a row again, so what is known is skipped: by its
commit and key where the store has cursors, else by its key. A verdict (cancelled, moved away, written again) is
remembered for rows not yet known as well, and is checked in the step that starts each send (protocol sections 4 and 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count

import numpy as np

from timerd.core.copies import Copies, Met, Over
from timerd.core.due_queue import DueQueue, split
from timerd.core.known_keys import KnownKeys
from timerd.core.memory import Memory
from timerd.core.open_rows import Closed, OpenRows
from timerd.core.reload import Reload, one_run
from timerd.core.settled_index import SettledIndex, keys_in
from timerd.core.taken import CANARY, LAST, QueueKey
from timerd.core.tie_order import before
from timerd.core.verdicts import Verdicts
from timerd.model.identity import RowKey, generation_of
from timerd.model.rows import FLAG_MOVED_IN, ROW, RowGroup
from timerd.model.settle import Outcome
from timerd.model.storage import Mark, MarkKind

VERDICTS = {MarkKind.CANCELLED: Outcome.CANCELLED, MarkKind.PURGED: Outcome.PURGED, MarkKind.ACKED: Outcome.ACKED}
Ending = tuple[RowKey, Outcome]


class RowsInHand:
    """`settled` is the settle log's: rows in it are over."""

    def __init__(self, memory: Memory, settled: SettledIndex) -> None:
        self.waiting = DueQueue(memory.touched)
        self.open = OpenRows()
        self.copies = Copies()
        self.verdicts = Verdicts()
        self.row_verdicts: dict[RowKey, Outcome] = {}
        # Rows that ended while they waited, until they are met. Not verdicts: those refuse what is offered.
        self.left: dict[RowKey, Outcome] = {}
        # Rows that fire only after `moves` says that the task lives here, by digest; and digests that were asked for,
        # with the number of the last ask. No number comes twice: an answer is never taken for that of a later ask.
        self.aside: dict[bytes, dict[RowKey, RowGroup]] = {}
        self.suspended: dict[bytes, int] = {}
        self._asks = count(1)
        # Of tasks that moved: the generation whose rows may fire, and the move that said so.
        self.alive: dict[bytes, tuple[int, int]] = {}
        # Queues whose rows at or after (position, tie) are left in the store.
        self.withheld: dict[QueueKey, tuple[int, int]] = {}
        self.reloading: Reload | None = None
        self.cursor = self.canaries = 0
        # By the name of their commit; its other rows come with a page.
        self._hinted: dict[int, list[RowGroup]] = {}
        self._known = KnownKeys()
        self._memory = memory
        self._settled = settled
        self._counted_bytes = 0

    def mark(self, marks: Sequence[Mark]) -> None:
        """Before the rows they speak of are merged."""
        for m in marks:
            if (outcome := VERDICTS.get(m.kind)) is not None:
                self.verdicts.give(m.key, outcome, m.value)
            elif m.kind == MarkKind.FORWARD:
                self.row_verdicts.setdefault(m.key, Outcome.FORWARDED)
            elif m.kind == MarkKind.MOVED and self.alive.get(m.key.digest, (0, 0))[1] < int(m.value):
                self.suspended.setdefault(m.key.digest, next(self._asks))

    def suspend(self, digest: bytes) -> None:
        """The digest's rows fire only after a read of `moves` that begins later than this."""
        self.suspended[digest] = next(self._asks)

    def merge(self, *groups: RowGroup) -> None:
        """Those of a page."""
        if self.reloading is not None:
            self._merge_again(groups, self.reloading)
            return
        for rows in groups:
            for queue, _, part in split(self._unseen(rows)):
                self._admit(queue, part)

    def lacking(self, rows: RowGroup) -> RowGroup:
        """Of a page of keys, in a store without cursors, what has not been met."""
        return self._known.new(rows)

    def hint(self, rows: RowGroup, source: int) -> None:
        """Rows that were just written. They may be on a page as well. None of a queue that is reloaded."""
        if source and source <= self.cursor:
            return
        if source:
            self._hinted.setdefault(source, []).append(rows)
        else:
            rows = self._unknown(rows)
        for queue, _, part in split(rows):
            self._admit(queue, part)

    def adopt(self, rows: RowGroup, source: int) -> None:
        """As `hint`, of rows that may have been hinted before: a repeat offers them again."""
        hinted = self._hinted.get(source)
        fresh = rows.select(np.flatnonzero(~keys_in(rows, hinted))) if hinted else rows
        if self.reloading is not None:
            fresh = fresh.select(np.flatnonzero(~self._settled.known_apart(fresh)))
        if len(fresh):
            self.hint(fresh, source)

    def thin_queue(self) -> QueueKey | None:
        """A queue that was cut, and most of what it had in memory is gone."""
        cut = ((queue, self.waiting.lane_bytes(queue), place[0]) for queue, place in self.withheld.items())
        return next((each[0] for each in cut if self._memory.wants_more(*each)), None)

    def begin_reload(self, queue: QueueKey) -> int:
        """The queue's rows at or after the returned position are read from the store again."""
        place = self.withheld.pop(queue)
        is_plain = not (self.copies or self.aside or self.open.has_behind(queue, *place))
        self.reloading = Reload(queue, place, is_plain)
        self._memory.reloads.append(self.reloading)
        if is_plain:
            self._settled.set_apart()
        return place[0]

    def end_reload(self) -> None:
        self._memory.reloads = [each for each in self._memory.reloads if each is not self.reloading]
        self.reloading = None
        self._settled.join()

    def forget_hints(self, cursor: int) -> None:
        """Everything up to `cursor` has been merged."""
        self.cursor = max(self.cursor, cursor)
        for source in [s for s in self._hinted if s <= cursor]:
            del self._hinted[source]

    def prepare(self, queue: QueueKey, until_ms: int) -> bool:
        """What a take until then would put together is put together now; whether anything was."""
        is_prepared = self.waiting.prepare(queue, until_ms)
        self._count()
        return is_prepared

    def take(
        self,
        queue: QueueKey,
        limit: int,
        until_ms: int,
        *,
        past_ms: int = 0,
        upto: int = LAST,
        met: Met | None = None,
    ) -> tuple[RowGroup | None, list[bytes], list[Ending]]:
        """Due rows that may be sent (no longer waiting, not yet open), their digests, and rows that turned out to be
        over: what expires by `past_ms` too, but not what has been with a worker, who may have it still.
        `met` adds what else is over."""
        rows = self.waiting.take(queue, limit, until_ms, upto)
        self._count()
        if rows is None:
            return None, [], []
        digests = rows.digests()
        over = self._sieve(rows, digests, past_ms)
        if met is not None:
            met(rows, digests, over)
        if len(set(digests)) < len(digests) or not self.open.keys().isdisjoint(digests):
            self.copies.keep(rows, digests, over, self.open_key)
        if not over:
            return rows, digests, []
        keep = [n for n in range(len(rows)) if n not in over]
        ended = [ending for ending in over.values() if ending is not None]
        return rows.select(np.array(keep, dtype=np.intp)), [digests[n] for n in keep], ended

    def part(self, digests: Iterable[bytes]) -> bool:
        """Of rows that leave unsent: what would have waited with them waits by itself. False: there is none."""
        apart = [row for d in digests if d not in self.open for row in self.copies.pop(d).values()]
        for each in apart:
            self._release(each)
        self._count()
        return bool(apart)

    def send(self, rows: RowGroup, digests: Sequence[bytes], now_ms: int) -> None:
        """From here on they are open."""
        self.open.add(rows, digests, now_ms)
        self.canaries += len(digests) if rows.template_of(0).namespace == CANARY.namespace else 0

    def leave(self, key: RowKey, outcome: Outcome) -> None:
        """The row waits and is over; the settle log knows."""
        self.left[key] = outcome

    def close(self, key: RowKey) -> Closed | None:
        """The open row of the same generation, which is no longer open; None: there is none."""
        found = self.open.get(key.digest)
        if found is None:
            return None
        batch, row = found
        version = batch.versions[row]
        if version != key.version and generation_of(version) != generation_of(key.version):
            return None
        key = RowKey(batch.positions[row], key.digest, version)
        self.open.pop(key.digest)
        return Closed(batch.rows, row, key)

    def put_back(self, key: RowKey) -> bool:
        """The open row waits again, as if it had not been sent. False: it is not open, or its queue is being reloaded,
        which brings whatever is not open."""
        found = self.open.pop(key.digest) if self.reloading is None and self.is_open(key) else None
        if found is None:
            return False
        batch, row = found
        self._release(batch.rows.one(row))
        self.part([key.digest])
        return True

    def open_before(self, position_ms: int) -> Iterator[RowKey]:
        """Open rows older than `position_ms`."""
        for batch in self.open.batches():
            if batch.oldest_ms < position_ms:
                yield from (key for key in self.open.keys_of(batch) if key.position_ms < position_ms)

    def open_since(self, sent_ms: int) -> Iterator[RowKey]:
        """Rows sent before `sent_ms` that are still open: what was due long ago is not late because of its worker."""
        for batch in self.open.batches():
            if batch.sent_ms < sent_ms:
                yield from self.open.keys_of(batch)

    def open_first(self, sent_ms: int) -> Iterator[RowKey]:
        """Of those the ones that are older than all that waits: without them the mark could move."""
        waiting_ms = self.waiting.oldest_ms()
        return (key for key in self.open_since(sent_ms) if waiting_ms is None or key.position_ms < waiting_ms)

    def all_of(self, closed: Closed) -> list[RowKey]:
        """The row and those that ended with it."""
        return [closed.key, *self.copies.pop(closed.key.digest)]

    def open_key(self, digest: bytes) -> RowKey | None:
        found = self.open.get(digest)
        return RowKey(found[0].positions[found[1]], digest, found[0].versions[found[1]]) if found is not None else None

    def is_open(self, key: RowKey) -> bool:
        return self.open.version_of(key.digest) == key.version

    def settle_aside(self, digest: bytes, alive: tuple[int, int] | None) -> list[Ending]:
        """`alive`: (generation that lives, number of the move that said so). Its rows may fire, those of other
        generations up to that move are over, and what a later move brought waits for the next answer. None: `moves` has
        forgotten the task, which it does long after all its rows were due, so whatever is left of it fires."""
        self.suspended.pop(digest, None)
        if alive is not None:
            # Two reads may be under way, and the one that began first be answered last.
            alive = self.alive[digest] = max(alive, self.alive.get(digest, alive), key=lambda each: each[1])
        ended: list[Ending] = []
        for key, row in self.aside.pop(digest, {}).items():
            if alive is not None and generation_of(key.version) > alive[1]:
                self._put_aside(key, row)
            elif (verdict := self.verdict(key)) is not None:
                ended.append((key, verdict))
            else:
                self._release(row)
        self._count()
        return ended

    def oldest_ms(self) -> int | None:
        """Position of the oldest row that is not over."""
        found = [b.oldest_ms for b in self.open.batches()]
        found += [key.position_ms for rows in self.aside.values() for key in rows]
        found += [*(position for position, _ in self.withheld.values()), *self.copies.positions_ms()]
        found += [self.reloading.place[0]] if self.reloading is not None else []
        waiting = self.waiting.oldest_ms()
        return min(found if waiting is None else [*found, waiting], default=None)

    def drop_all(self) -> None:
        """The partition is no longer held."""
        self.end_reload()
        self.waiting = DueQueue(self._memory.touched)
        self.open.clear()
        self.copies.clear()
        self.aside.clear()
        self._count()

    def _merge_again(self, groups: Iterable[RowGroup], reload: Reload) -> None:
        """What was left in the store, but not what no sweep has met: the next one will."""
        rows = one_run(reload, map(self._seen, groups))
        self._admit(reload.queue, rows if reload.is_plain else self._not_open(rows))

    def _unseen(self, rows: RowGroup) -> RowGroup:
        """Without what came as a hint."""
        if rows.source == 0:
            return self._unknown(rows)
        hinted = self._hinted.get(rows.source)
        return rows.select(np.flatnonzero(~keys_in(rows, hinted))) if hinted else rows

    def _seen(self, rows: RowGroup) -> RowGroup:
        """Only what came before, on a page or as a hint."""
        if rows.source == 0:
            return self._known.among(rows)
        if rows.source <= self.cursor:
            return rows
        hinted = self._hinted.get(rows.source, [])
        return rows.select(np.flatnonzero(keys_in(rows, hinted))) if hinted else rows.select(slice(0))

    def _unknown(self, rows: RowGroup) -> RowGroup:
        """Of a store without cursors: by key."""
        fresh = self._known.new(rows)
        self._known.add(fresh)
        return fresh

    def _not_open(self, rows: RowGroup) -> RowGroup:
        """Rows of high priority are sent before the older ones of their queue, so they may lie behind the cut."""
        latest_ms = max((b.latest_ms for b in self.open.batches()), default=None)
        if latest_ms is None or not len(rows):
            return rows
        positions = rows.columns["position_ms"]
        near = np.flatnonzero(positions <= latest_ms)
        some = rows.select(near)
        met = [n for n, digest in enumerate(some.digests()) if digest in self.open]
        met = [n for n in met if self._is_met(some.select(slice(n, n + 1)).keys()[0])]
        return rows.select(np.delete(np.arange(len(rows)), near[met])) if met else rows

    def _is_met(self, key: RowKey) -> bool:
        return key in self.copies or key == self.open_key(key.digest)

    def _admit(self, queue: QueueKey, rows: RowGroup) -> None:
        """Keeps the rows, or leaves the end of the queue in the store when its share is used up."""
        cut = self.withheld.get(queue)
        if cut is not None:
            rows = rows.select(np.flatnonzero(before(rows, *cut)))
        rows = self._set_aside(rows)
        if not len(rows):
            return
        self.waiting.add(rows, for_now=self.reloading is not None)
        self._count()
        self._withhold(queue)

    def _withhold(self, queue: QueueKey) -> None:
        """One row is kept whatever its size, so that the queue goes on."""
        share = self._memory.share_bytes(queue, self.waiting.lane_bytes(queue))
        if self.waiting.lane_bytes(queue) <= share or self.waiting.lane_rows(queue) == 1:
            return
        place = self.waiting.lowest(queue, share * 3 // 4)
        self.waiting.cut(queue, *place)
        self.withheld[queue] = min(place, self.withheld.get(queue, place))
        self._count()

    def _set_aside(self, rows: RowGroup) -> RowGroup:
        """Drops what has ended; rows that `moves` must speak for do not wait with the others."""
        if len(self._settled) and (over := self._settled.known(rows)).any():
            rows = rows.select(np.flatnonzero(~over))
        flagged = rows.columns["flags"] & FLAG_MOVED_IN
        if not self.suspended and not bool(flagged.any()):
            return rows
        keep = []
        for n, key in enumerate(rows.keys()):
            if not flagged[n] and key.digest not in self.suspended:
                keep.append(n)
            elif key not in self.aside.get(key.digest, {}):
                self._put_aside(key, rows.one(n))
        return rows.select(np.array(keep, dtype=np.intp))

    def _put_aside(self, key: RowKey, row: RowGroup) -> None:
        """Until a read of `moves` that begins after this."""
        self.aside.setdefault(key.digest, {})[key] = row
        self.suspend(key.digest)

    def _release(self, row: RowGroup) -> None:
        """Waits with the others, or stays in the store with them."""
        for queue, _, part in split(row):
            cut = self.withheld.get(queue)
            if cut is None or bool(before(part, *cut)[0]):
                self.waiting.add(part)

    def _sieve(self, rows: RowGroup, digests: list[bytes], now_ms: int) -> Over:
        """Row -> how it ended; None: it is aside and has not."""
        over: Over = {}
        if self.verdicts or self.row_verdicts or self.suspended or self.alive or self.left:
            for n, digest in enumerate(digests):
                key = RowKey(int(rows.columns["position_ms"][n]), digest, int(rows.columns["version"][n]))
                if (verdict := self.verdict(key)) is not None:
                    over[n] = (key, verdict)
                    self.left.pop(key, None)
                elif digest in self.suspended:
                    self._put_aside(key, rows.one(n))
                    over[n] = None
        if any(t.expire_at_ms and t.expire_at_ms <= now_ms for t in rows.templates):
            for n, key in enumerate(rows.keys()):
                expire_at_ms = rows.template_of(n).expire_at_ms
                if n not in over and expire_at_ms and expire_at_ms <= now_ms and not rows.extra_of(n).lease_until_ms:
                    over[n] = (key, Outcome.EXPIRED)
        return over

    def verdict(self, key: RowKey) -> Outcome | None:
        """How a row that is not open will end when it is met, where that is settled already."""
        if (found := self.verdicts.of(key)) is not None:
            return found[0]
        alive = self.alive.get(key.digest)
        if alive is not None and alive[0] != generation_of(key.version) <= alive[1]:
            return Outcome.MOVED
        return self.row_verdicts.get(key) or self.left.get(key)

    def _count(self) -> None:
        now_bytes = self.waiting.size_bytes + len(self.aside) * (ROW.itemsize + 400)
        self._memory.used_bytes += now_bytes - self._counted_bytes
        self._counted_bytes = now_bytes
