"""The rows of one partition in memory: waiting, blocked by a move, open; and which of them may still fire.

Every row comes through `merge` (a page) or `hint`; both may bring a row again, so what was met is skipped. Pending
outcomes (cancelled, moved away, written again) are checked in the step that starts each send (protocol sections 4, 5).
Which of these holds what of a row is drawn in docs/understand/row-states.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from timerd.core.due_queue import (
    MOST_KEYS,
    NOWHERE,
    SAMPLE_ROWS,
    CutPlace,
    DueQueue,
    before,
    bytes_of,
    cuts_of,
    is_kept,
    split,
)
from timerd.core.fairness import KeyedRows, RowChoice, keys_of
from timerd.core.gates import Gate
from timerd.core.ordering import OrderedRows
from timerd.core.partition.copies import CopyGate
from timerd.core.partition.left_in_store import LeftInStore
from timerd.core.partition.memory import Memory
from timerd.core.partition.met_rows import MetRows
from timerd.core.partition.move_blocks import Live, MoveBlocks
from timerd.core.partition.open_rows import OpenRows
from timerd.core.partition.pending_outcomes import PendingOutcomes
from timerd.core.partition.reload import Reload, one_run
from timerd.core.partition.row_gates import ExpiryGate, MoveGate, OutcomeGate
from timerd.core.partition.settled_index import SettledIndex
from timerd.core.partition.told_ends import ToldEnds
from timerd.core.taken import CANARY, LAST, QueueKey, Taken
from timerd.model.identity import RowKey
from timerd.model.outcomes import outcome_of
from timerd.model.partition import Partition
from timerd.model.rows import FLAG_MOVED_IN, FLAG_ORDERED, ROW, RowGroup, empty_group
from timerd.model.settle import Outcome
from timerd.model.storage import MARK_KINDS, Mark, MarkKind

RowEnd = tuple[RowKey, Outcome]
_NONE = empty_group()


class RowsInHand:
    """`settled` is the settle log's: rows in it are over. So is `told`: which of them make a task then."""

    def __init__(
        self,
        partition: Partition,
        memory: Memory,
        settled: SettledIndex,
        outcomes: PendingOutcomes | None = None,
        told: ToldEnds | None = None,
    ) -> None:
        self.waiting = DueQueue(memory.touched)
        self.open = OpenRows()
        self.ordered = OrderedRows(partition, memory.order_keys, self._give, self.open.is_open)
        self.keyed = KeyedRows(partition, memory.limit_keys, self._release_all)
        self.outcomes = PendingOutcomes() if outcomes is None else outcomes
        self.moves = MoveBlocks(partition)
        self.met = MetRows()
        self.left = LeftInStore()
        self.canaries = 0
        self._memory, self._settled = memory, settled
        self._told = ToldEnds(partition) if told is None else told
        self._counted_bytes = 0

    def mark(self, marks: Sequence[Mark]) -> None:
        """Before the rows they speak of are merged."""
        for m in marks:
            if (outcome := outcome_of(m)) is not None:
                self.outcomes.give(m.key, outcome, m.value)
            elif m.kind == MarkKind.FORWARD:
                self.outcomes.refuse([m.key])
            elif m.kind == MarkKind.MOVED:
                self.moves.mark(m.key.digest, int(m.value))
                self.outcomes.early.note(m.key)
            elif m.kind not in MARK_KINDS:
                self.left.foreign.mark(m)

    def merge(self, *groups: RowGroup) -> None:
        """Takes in a page."""
        self._told.meet(groups)
        if self.left.reload is not None:
            self._merge_again(groups, self.left.reload)
            return
        for rows in groups:
            for queue, _, part in split(self.met.unseen(rows)):
                self._admit(queue, part)

    def hint(self, rows: RowGroup, source: int) -> None:
        """Rows that were just written. They may be on a page as well. None of a queue that is reloaded."""
        if self.met.has_read(source):
            return
        self._told.meet([rows])
        for queue, _, part in split(self.met.hint(rows, source)):
            self._admit(queue, part)

    def adopt(self, rows: RowGroup, source: int) -> None:
        """As `hint`, of rows that may have been hinted before: a repeat offers them again."""
        fresh = self.met.not_hinted(rows, source)
        if self.left.reload is not None:
            fresh = fresh.select(np.flatnonzero(~self._settled.known_apart(fresh)))
        if len(fresh):
            self.hint(fresh, source)

    def thin_queue(self) -> QueueKey | None:
        """A queue that was cut, and most of what it had in memory is gone, or of one of its limit keys."""
        return next(filter(self._is_thin, self.left.queues()), None)

    def _is_thin(self, queue: QueueKey) -> bool:
        first_ms = self.left.first_ms(queue)
        if self._memory.wants_more(queue, self.lane_bytes(queue), first_ms):
            return True
        return bool(self._dry(queue)) and self._memory.may_reload(queue, first_ms)

    def _dry(self, queue: QueueKey) -> Collection[str]:
        """Limit keys of which the queue has little left, where they were cut at places of their own."""
        if queue not in self.left.keys:
            return ()
        counts = self.keyed.counts[queue]
        if helds := self.waiting.held(queue):
            counts = counts.copy()
            for held in helds:
                counts.update(keys_of(held))
        return self.left.dry(queue, self.waiting.next_ms(queue), counts)

    def begin_reload(self, queue: QueueKey) -> int:
        """The queue's rows at or after the returned position are read from the store again. A cut of it is finished in
        this step, for nobody else need go on with it."""
        is_thin = self._memory.wants_more(queue, self.lane_bytes(queue), self.left.first_ms(queue))
        self.waiting.cut_on(queue, LAST)
        reload = self.left.taken_out(queue, () if is_thin else self._dry(queue))
        is_plain = not (self.open.copies or self.moves.rows or self.open.has_any(reload))
        self.left.reload = reload._replace(is_plain=is_plain)
        self._memory.reloads.append(self.left.reload)
        if is_plain:
            self._settled.set_apart()
        return reload.first_ms

    def end_reload(self) -> None:
        self._memory.reloads = [each for each in self._memory.reloads if each is not self.left.reload]
        self.left.reload = None
        self._settled.join()

    def prepare(self, queue: QueueKey, until_ms: int) -> bool:
        """What a take until then would put together is put together now; whether anything was."""
        is_prepared = self.waiting.prepare(queue, until_ms)
        self._count()
        return is_prepared

    def tidy(self) -> bool:
        """Makes room, a run or a few at a time; whether there is more to do."""
        has_more = self.waiting.tidy()
        self._count()
        return has_more

    def gates(self, *repeats: Gate) -> tuple[Gate, ...]:
        """Those of the partition's own rows, in their order; `repeats` know what has ended."""
        outcomes = OutcomeGate(self.outcomes, self.moves, self.pending)
        copies = CopyGate(self.open.copies, self.open.keys, self.open.key_of)
        return outcomes, MoveGate(self.moves), ExpiryGate(), *repeats, copies

    def pull(self, queue: QueueKey, limit: int, until_ms: int, upto: int = LAST) -> RowGroup | None:
        """Due rows, in order, which no longer wait: they are to be judged."""
        rows = self.waiting.take(queue, limit, until_ms, upto)
        self._count()
        return rows if rows is not None and len(rows) else None

    def pull_early(self, until_ms: int) -> list[RowGroup]:
        """As `pull`, of those due rows of which something was said before, each group of one queue. What waits for its
        turn behind an ordering key, or is the next of one, stays: that is for the gates of the instance."""
        wanted = self.outcomes.early.due(until_ms) if self.left.reload is None else None
        if wanted is None:
            return []
        pulled = [*self.waiting.pull_at(wanted, until_ms), *self.keyed.pull(wanted.among)]
        if self.ordered:
            pulled = list(filter(len, map(self._but_in_turn, pulled)))
        self._count()
        return pulled

    def _but_in_turn(self, rows: RowGroup) -> RowGroup:
        is_filed = np.array([key in self.ordered for key in rows.keys()], np.bool_)
        if is_filed.any():
            self.waiting.add(rows.select(np.flatnonzero(is_filed)))
        return rows.select(np.flatnonzero(~is_filed))

    def back(self, pulled: Taken | None) -> None:
        """Rows that were pulled wait again."""
        if pulled is not None:
            self._release(pulled.rows)
            self._count()

    def file_due(self, queue: QueueKey, limit: int, until_ms: int) -> bool:
        """Due rows of a queue that has limit keys wait for the turn of these. Whether there may be more."""
        lane_bytes, is_cut = self.waiting.lane_bytes(queue), self.waiting.is_being_cut(queue)
        rows = self.waiting.take(queue, limit, until_ms)
        if rows is not None and len(rows):
            # What is left of a lean run may take more than all of it did.
            size_bytes = max(0, lane_bytes - self.waiting.lane_bytes(queue))
            self.keyed.file(queue, rows, min(size_bytes, bytes_of(rows)) if is_cut else size_bytes)
        self.keyed.tidy()
        self._count()
        return rows is not None and (len(rows) == limit or self.waiting.is_being_cut(queue))

    def lane_bytes(self, queue: QueueKey) -> int:
        """What rows of the queue take that wait, filed or not."""
        return self.waiting.lane_bytes(queue) + (self.keyed.bytes_of(queue) if self.keyed.rows else 0)

    def hold(self, rows: RowGroup, until_ms: int) -> None:
        """Rows that were pulled wait again, and do not come before that instant. Their copies do so too."""
        copies = [copy for digest in rows.digests() for copy in self.copies_of(digest).values()]
        for each in (rows, *copies):
            plain, ordered = parted(each)
            if len(plain):
                self.waiting.hold(plain, until_ms)
            self.ordered.file(ordered, until_ms)
        self._count()

    def copies_of(self, digest: bytes) -> dict[RowKey, RowGroup]:
        """Takes out what waits for a row that was pulled and is not opened."""
        return {} if digest in self.open else self.open.copies.pop(digest)

    def part(self, digests: Iterable[bytes]) -> bool:
        """Of rows that leave unsent: what would have waited with them waits by itself. False: there is none."""
        apart = [row for d in digests for row in self.copies_of(d).values()]
        for each in apart:
            self._release(each)
        self._count()
        return bool(apart)

    def send(self, taken: Taken, now_ms: int) -> None:
        """From here on they are open."""
        self._told.tick(now_ms)
        self.open.add(taken, now_ms)
        self.canaries += len(taken) if taken.rows.template_of(0).namespace == CANARY.namespace else 0

    def put_back(self, key: RowKey) -> bool:
        """The open row waits again, as if it had not been sent. False: it is not open, or its queue is being reloaded,
        which brings whatever is not open."""
        found = self.open.pop(key.digest) if self.left.reload is None and self.open.is_open(key) else None
        if found is None:
            return False
        batch, row = found
        self._release(batch.taken.rows.one(row))
        self.part([key.digest])
        return True

    def open_first(self, sent_ms: int) -> Iterator[RowKey]:
        """Of those the ones that are older than all that waits: without them the mark could move."""
        waiting_ms = self.waiting_ms()
        return (key for key in self.open.since(sent_ms) if waiting_ms is None or key.position_ms < waiting_ms)

    def give(self, key: RowKey, outcome: Outcome, request: bytes) -> bytes:
        """The task ends so when its row is met. Returns the request that gave it its outcome first."""
        self.ordered.said_over([key])
        return self.outcomes.give(key, outcome, request)

    def give_all(self, keys: Sequence[RowKey], outcome: Outcome, request: bytes) -> None:
        """As `give`, of tasks that have no outcome."""
        self.ordered.said_over(keys)
        self.outcomes.give_all(keys, outcome, request)

    def settle_move(self, digest: bytes, live: Live | None) -> list[RowEnd]:
        """The rows of the generation that lives may fire. Returns those of the task that are over."""
        ended: list[RowEnd] = []
        for key, row in self.moves.release(digest, live):
            if (outcome := self.pending(key)) is not None:
                ended.append((key, outcome))
            else:
                self._release(row)
        self._count()
        return ended

    def waiting_ms(self) -> int | None:
        """Position of the oldest row that waits."""
        found = self.waiting.oldest_ms(), self.ordered.oldest_ms(), self.keyed.oldest_ms()
        return min((ms for ms in found if ms is not None), default=None)

    def take_out(self, until_ms: int) -> None:
        """Rows of limit keys and of ordering keys up to that instant are pulled with the others: they are not sent from
        here."""
        self.keyed.take_out(until_ms)
        self.ordered.take_out(until_ms)
        self._count()

    def oldest_ms(self) -> int | None:
        """Position of the oldest row that is not over."""
        return self._oldest_with(self.waiting_ms())

    def all_due(self, queue: QueueKey, until_ms: int, now_ms: int) -> int:
        """Rows of the queue that are due and not over, those too that wait behind their keys."""
        filed = self.keyed.standing(queue, now_ms)[0] if self.keyed.rows else 0
        return self.waiting.standing(queue, until_ms, now_ms)[0] + filed + self.ordered.behind.rows(queue, now_ms)

    def oldest_waiting_of(self, queue: QueueKey, now_ms: int) -> int | None:
        """Position of the oldest row of the queue that waits and has not expired, but behind no ordering key."""
        found = self.waiting.standing(queue, now_ms, now_ms)[1], self.keyed.standing(queue, now_ms)[1]
        return min((ms for ms in found if ms is not None), default=None)

    def oldest_standing_ms(self, now_ms: int) -> int | None:
        """As `oldest_ms`, without what has expired while it waits."""
        plain = [self.waiting.standing(queue, now_ms, now_ms)[1] for queue in self.waiting.queues()]
        filed = [self.keyed.standing(queue, now_ms)[1] for queue in self.keyed.queues()]
        found = (*plain, *filed, self.ordered.behind.oldest_ms(now_ms))
        return self._oldest_with(min((ms for ms in found if ms is not None), default=None))

    def _oldest_with(self, waiting_ms: int | None) -> int | None:
        found = (waiting_ms, self.open.oldest_ms(), self.left.oldest_ms())
        return min([*(ms for ms in found if ms is not None), *self.moves.positions_ms()], default=None)

    def drop_all(self) -> None:
        """The partition is no longer held."""
        self.end_reload()
        self.waiting = DueQueue(self._memory.touched)
        self.keyed.drop_all()
        self.ordered.drop_all()
        self.open.clear()
        self.moves.rows.clear()
        self._count()

    def _merge_again(self, groups: Iterable[RowGroup], reload: Reload) -> None:
        """What was left in the store, but not what no sweep has met: the next one will."""
        rows = parted(one_run(reload, map(self.met.seen, groups)))[0]
        self._admit(reload.queue, rows if reload.is_plain else self._not_open(rows))

    def _not_open(self, rows: RowGroup) -> RowGroup:
        """Rows of high priority are sent before the older ones of their queue, so they may lie behind the cut."""
        latest_ms = self.open.latest_ms()
        if latest_ms is None or not len(rows):
            return rows
        positions = rows.columns["position_ms"]
        near = np.flatnonzero(positions <= latest_ms)
        some = rows.select(near)
        met = [n for n, digest in enumerate(some.digests()) if digest in self.open]
        keys = ((n, some.select(slice(n, n + 1)).keys()[0]) for n in met)
        met = [n for n, key in keys if key in self.open.copies or key == self.open.key_of(key.digest)]
        return rows.select(np.delete(np.arange(len(rows)), near[met])) if met else rows

    def _admit(self, queue: QueueKey, rows: RowGroup) -> None:
        """Keeps the rows, or leaves the end of the queue in the store when its share is used up. Those of ordering keys
        stay: which one is next is known of rows in memory only."""
        if queue not in self._memory.limit_keys.queues and any(template.limit_key for template in rows.templates):
            self._memory.limit_keys.queues.add(queue)
        rows, ordered = parted(rows)
        if len(ordered):
            self.ordered.file(self._set_apart(ordered))
            if self.outcomes:
                self.ordered.said_over([key for key in ordered.keys() if self.pending(key) is not None])
            self._count()
        rows = self._set_apart(self.left.kept(queue, rows))
        if not len(rows):
            return
        self.waiting.add(rows, for_now=self.left.reload is not None)
        self._count()
        self._withhold(queue)

    def _withhold(self, queue: QueueKey) -> None:
        """One row is kept whatever its size, so that the queue goes on."""
        if self.waiting.cut_on(queue):
            self._count()
            return
        lane_bytes = self.lane_bytes(queue)
        share = self._memory.share_bytes(queue, lane_bytes)
        if lane_bytes <= share:
            return
        if self._memory.limit_keys.has_turns(queue):
            self._cut_keys(queue, share * 3 / 4 / lane_bytes)
        elif self.waiting.lane_rows(queue) > 1:
            filed_bytes = lane_bytes - self.waiting.lane_bytes(queue)
            self._cut(queue, self.waiting.lowest(queue, max(0, share * 3 // 4 - filed_bytes)))
        self._count()

    def _cut(self, queue: QueueKey, place: CutPlace) -> None:
        self.waiting.cut(queue, *place)
        self.left.leave(queue, place)
        self._were_cut(queue, lambda rows: ~before(rows, *place))

    def _cut_keys(self, queue: QueueKey, share: float) -> None:
        """The longest keys first; all, where that is not enough."""
        step = -(-(self.waiting.lane_rows(queue) + self.keyed.counts[queue].total()) // SAMPLE_ROWS)
        parts = [*self.waiting.sample(queue, step), *self.keyed.sample(queue, step)]
        own = self.left.keys.get(queue, {})
        places, place = cuts_of(parts, step, share, max(0, MOST_KEYS - len(own)), own)
        if places:
            self.waiting.cut_keys(queue, places)
            self.left.leave_of_keys(queue, places)
            self.keyed.leave_in_store(queue, lambda rows: ~is_kept(rows, slice(0, len(rows)), places))
        if place != NOWHERE:
            self._cut(queue, place)

    def _were_cut(self, queue: QueueKey, which: RowChoice) -> None:
        """These rows of the queue. What is next of its key is not left in the store."""
        self.keyed.leave_in_store(queue, which)
        for filed in self.ordered.given():
            row = filed.rows.one(filed.row)
            if filed.line.queue == queue and which(row)[0]:
                self._give(row, filed.until_ms)

    def _give(self, rows: RowGroup, until_ms: int) -> None:
        """They are the next of their ordering keys."""
        if until_ms > int(rows.columns["position_ms"].max()):
            self.waiting.hold(rows, until_ms)
        else:
            self.waiting.add(rows)
        self._count()

    def _set_apart(self, rows: RowGroup) -> RowGroup:
        """Drops what has ended; rows that `moves` must speak for do not wait with the others."""
        if len(self._settled) and (over := self._settled.known(rows)).any():
            rows = rows.select(np.flatnonzero(~over))
        rows = self.left.foreign.admitted(rows)
        flagged = rows.columns["flags"] & FLAG_MOVED_IN
        moves = self.moves
        if not moves.asked and not bool(flagged.any()):
            return rows
        keep = []
        for n, key in enumerate(rows.keys()):
            if not flagged[n] and key.digest not in moves:
                keep.append(n)
            elif not moves.has(key):
                moves.keep(key, rows.one(n))
        return rows.select(np.array(keep, dtype=np.intp))

    def _release(self, row: RowGroup) -> None:
        """Waits with the others, or stays in the store with them."""
        plain, ordered = parted(row)
        self.ordered.file(ordered)
        for queue, _, part in split(plain):
            self.waiting.add(self.left.kept(queue, part))

    def _release_all(self, rows: RowGroup) -> None:
        """Rows that were filed by their limit keys wait with the others."""
        self.waiting.add(rows)

    def pending(self, key: RowKey) -> Outcome | None:
        """How a row that is not open will end when it is met, where that is settled already."""
        if (found := self.outcomes.of_task(key)) is not None:
            return found[0]
        return Outcome.MOVED if self.moves.is_outlived(key) else self.outcomes.of_row(key)

    def _count(self) -> None:
        filed_bytes = self.ordered.size_bytes + int(self.keyed.size_bytes) + self._told.size_bytes
        now_bytes = self.waiting.size_bytes + filed_bytes + len(self.moves.rows) * (ROW.itemsize + 400)
        self._memory.used_bytes += now_bytes - self._counted_bytes
        self._counted_bytes = now_bytes


def parted(rows: RowGroup) -> tuple[RowGroup, RowGroup]:
    """(those without, those with an ordering key)."""
    if not rows.extras:
        return rows, _NONE
    is_ordered = rows.columns["flags"] & FLAG_ORDERED != 0
    if not is_ordered.any():
        return rows, _NONE
    return rows.select(np.flatnonzero(~is_ordered)), rows.select(np.flatnonzero(is_ordered))
