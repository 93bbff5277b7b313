"""Every transition of a row of one held partition: in memory, and in the record that says so, in one step.

A row comes in with a page or a hint, is opened when it is sent, and leaves in one of four ways: it ends, it is requeued
(its task goes on at another place: the next attempt, or the end of a lease), it is offloaded to its queue's backlog, or
it is put back as if it had not been sent. The partition machine decides when; what becomes of a row is decided here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from timerd.core.gates import DueBatch, End, Follow, Gate, Hold, Requeue, judge
from timerd.core.ordering import OrderedRows
from timerd.core.partition.carry import backlog_of, carried_row, carried_rows, guard_carry, in_place, retry_carry
from timerd.core.partition.effects import Effects
from timerd.core.partition.foreign_rows import ForeignRows
from timerd.core.partition.holding import Asked
from timerd.core.partition.memory import Memory
from timerd.core.partition.open_rows import OpenBatch
from timerd.core.partition.pending_outcomes import PendingOutcomes
from timerd.core.partition.reload import Reload, answers_beside, beside
from timerd.core.partition.repeats import RepeatGate, WrittenTwiceGate
from timerd.core.partition.row_state import RowState
from timerd.core.partition.rows_in_hand import RowEnd, RowsInHand
from timerd.core.partition.settle_log import SettleLog
from timerd.core.partition.settled_index import entries_of
from timerd.core.taken import CANARY, LAST, AckedRows, Again, Ended, QueueKey, Taken
from timerd.model.identity import RowKey, generation_of, next_attempt
from timerd.model.partition import Partition
from timerd.model.registers import Control, Move, Place
from timerd.model.row_keys import RowKeys, digests_of, span_of
from timerd.model.rows import FLAG_CARRIED, FLAG_ORDERED, WRITTEN_BY_HOLDERS, RowGroup
from timerd.model.settle import Carry, CarryReason, Outcome, SettleRecord, entries_with
from timerd.model.storage import DeadLetter, Mark, Page

# Ends that come while a worker has the task: its attempt, should it fail, is the last one.
_GIVEN_UP = frozenset({Outcome.CANCELLED, Outcome.PURGED, Outcome.EXPIRED})
# Rows of one batch that go on at one place.
_Part = list[tuple[OpenBatch, int, Carry]]


class RowTable:
    """The rows of one holder of one partition. `token` names it in each record, `remembered` is how many endings it
    knows a task by that is written once more at another position. `outcomes`: what was known before it was acquired."""

    def __init__(
        self,
        partition: Partition,
        memory: Memory,
        token: int,
        remembered: int,
        outcomes: PendingOutcomes | None = None,
    ) -> None:
        self.partition = partition
        self._remembered = remembered
        self._memory = memory
        self._log = SettleLog(partition, token, remembered)
        self._rows = RowsInHand(partition, memory, self._log.settled, outcomes, self._log.told)
        self._gates: tuple[Gate, ...] = ()

    def of_token(self, token: int) -> RowTable:
        """An empty one for a holder that has just acquired the partition. What was refused until then stays refused."""
        outcomes = PendingOutcomes.after(self._rows.outcomes)
        return RowTable(self.partition, self._memory, token, self._remembered, outcomes)

    def recover(self, records: Sequence[SettleRecord], control: Control) -> None:
        """Takes in what earlier holders settled at or above `verified`."""
        self._log.recover(records, control.verified_ms, control.counts)

    # -- coming in ------------------------------------------------------------------------------------------------

    @property
    def reload(self) -> Reload | None:
        """The queue whose end is being read from the store again, if any."""
        return self._rows.left.reload

    @property
    def cursor(self) -> int:
        """How far the commits of the store have been read."""
        return self._rows.met.cursor

    @property
    def has_unfinished(self) -> bool:
        """Whether rows that an earlier holder requeued are perhaps still to be met or written."""
        return self._log.has_unfinished

    @property
    def has_unmet(self) -> bool:
        """Whether rows that an earlier holder requeued are still to be met."""
        return self._log.requeues.has_incomplete

    def mark(self, marks: Sequence[Mark]) -> None:
        """Takes in marks, before the rows that they speak of."""
        self._rows.mark(marks)

    def read(self, page: Page, groups: Sequence[RowGroup]) -> None:
        """Takes in a page, of which `groups` counts. It may bring rows again."""
        self._rows.merge(*groups)
        if self._rows.left.reload is None:
            self._rows.met.read(page.cursor)

    def complete(self, rows: RowGroup) -> None:
        """Of rows that are read for the first time those that an earlier holder requeued are written again."""
        self._log.complete(rows)

    def redo(self) -> Effects:
        """What earlier holders requeued, once all of it is known."""
        return self._log.redo_requeues(self._rows.outcomes, self._rows.moves.asked)

    def lacking(self, rows: RowGroup) -> RowGroup:
        """Of a page of keys, in a store without cursors, what has not been met."""
        return self._rows.met.lacking(rows)

    def besides_reload(self, rows: RowGroup) -> RowGroup:
        """Those of the rows that are no matter of a reload."""
        return beside(self._rows.left.reload, rows)

    def hint(self, rows: RowGroup, source: int, *, may_repeat: bool) -> None:
        """Takes in rows that were just written."""
        (self._rows.adopt if may_repeat else self._rows.hint)(rows, source)

    def has_read(self, source: int) -> bool:
        """Whether what was written by this commit was on a page."""
        return self._rows.met.has_read(source)

    def any_refused(self, keys: Sequence[RowKey]) -> bool:
        """Whether one of the rows was refused, by this holder or an earlier one: its writer writes it again."""
        settled = self._log.settled
        if any(map(self._rows.outcomes.is_refused, keys)):
            return True
        return settled.knows_any(keys) and any(settled.get(key) is Outcome.FORWARDED for key in keys)

    def refuse(self, keys: Iterable[RowKey]) -> None:
        """These rows are never sent from where they are."""
        self._rows.outcomes.refuse(keys)

    def begin_reload(self) -> int | None:
        """Brings in more of a queue that was cut, once most of what it had is gone. Returns from which position on."""
        queue = self._rows.thin_queue()
        return None if queue is None else self._rows.begin_reload(queue)

    def end_reload(self) -> None:
        if self._rows.left.reload is not None:
            self._rows.end_reload()

    @property
    def wants_more(self) -> bool:
        """Whether a queue was cut, and most of what it had in memory is gone."""
        return self._rows.thin_queue() is not None

    # -- what is known of a row -----------------------------------------------------------------------------------

    def ask(self, key: RowKey, floor_ms: int, loaded_ms: int) -> tuple[Asked, Outcome | None]:
        """The answer to a cancel or a move of a task, by a holder that has read what is between `floor_ms` and
        `loaded_ms`; the version of `key` is that of the row found in the store. What has not been read may have marks:
        of that it says what one that still loads says."""
        # First, for what is open may be a later row of the same attempt.
        if (outcome := self._log.settled.get(key)) is None and self._rows.open.is_open(key):
            return Asked.OPEN, None
        if outcome is None and not floor_ms <= key.position_ms < loaded_ms:
            # Over and forgotten, or to be read: an outcome that came since says nothing about how.
            return Asked.UNKNOWN, None
        if outcome is None and self._is_said_by_open(key):
            return Asked.OPEN, None
        outcome = outcome or self._rows.pending(key)
        return (Asked.WAITING, None) if outcome is None else (Asked.ENDED, outcome)

    def _is_said_by_open(self, key: RowKey) -> bool:
        """Whether a worker has the task of a row that is not sent, by another row that says the same."""
        found = self._rows.open.key_of(key.digest)
        return found is not None and generation_of(found.version) == generation_of(key.version)

    def state_of(self, key: RowKey) -> RowState:
        """The state of the row, for tests and for people: runs of waiting rows are searched."""
        rows, log = self._rows, self._log
        if log.settled.get(key) is not None:
            return RowState.LEAVING if key in log.records.leaving else RowState.ENDED
        if rows.open.key_of(key.digest) == key:
            return RowState.OPEN
        if key in rows.open.copies:
            return RowState.COPY
        if key in rows.left.foreign:
            return RowState.FOREIGN
        if not (rows.moves.has(key) or rows.waiting.has(key) or rows.keyed.has(key) or key in rows.ordered):
            return RowState.ABSENT
        if rows.pending(key) is not None:
            return RowState.PENDING
        return RowState.BLOCKED if key.digest in rows.moves else RowState.WAITING

    def all_wait(self, keys: Sequence[RowKey], floor_ms: int, loaded_ms: int) -> bool:
        """Whether `ask` says of each that it waits. False: of one it does not, or may not."""
        first_ms, last_ms = span_of(keys)
        if not (floor_ms <= first_ms and last_ms < loaded_ms):
            return False
        rows, digests = self._rows, digests_of(keys)
        if rows.moves.knows_any(digests) or not rows.open.keys().isdisjoint(digests):
            return False
        return not rows.outcomes.knows_any(keys, digests) and not self._log.settled.knows_any(keys)

    def is_open(self, key: RowKey) -> bool:
        return self._rows.open.is_open(key)

    def is_blocked(self, digest: bytes) -> bool:
        """Whether the task's rows fire only after `moves` has been read again."""
        return digest in self._rows.moves

    def recorded(self, key: RowKey) -> Outcome | None:
        """How the row ended, by a record that is written or will be."""
        return self._log.settled.get(key)

    def carry_of(self, key: RowKey) -> Carry | None:
        """Where the row was requeued to."""
        return self._log.requeues.to(key)

    def has_left(self, key: RowKey) -> bool:
        """Of a row that went on elsewhere: whether that is durable. Until then a crash leaves it here."""
        return key not in self._log.records.leaving

    @property
    def leaving(self) -> Set[RowKey]:
        """Rows that went on elsewhere, which is not durable yet."""
        return self._log.records.leaving

    def is_copy_of_ended(self, key: RowKey, flags: int) -> bool:
        """Whether another row of the task is over for good, by which this one ends when it is met
        (core/partition/repeats.py). What a holder wrote is no copy."""
        return not flags & WRITTEN_BY_HOLDERS and isinstance(self._log.recent_ends.otherwise(key), Outcome)

    # -- outcomes that wait, and moves -----------------------------------------------------------------------------

    def cancel(self, key: RowKey, outcome: Outcome, request: bytes, *, in_hand: bool) -> bytes:
        """Remembers the outcome, for rows not yet known as well. Returns the request that gave it first. `in_hand`: a
        worker has the task, and may finish it all the same."""
        outcomes = self._rows.outcomes
        if in_hand and outcomes.of_task(key) is None:
            outcomes.in_hand[key.digest] = request
        return self._rows.give(key, outcome, request)

    def is_stopped(self, key: RowKey) -> bool:
        """Whether the retries of a task were stopped that a worker had, and that is not known to have ended."""
        outcomes = self._rows.outcomes
        is_given = key.digest in outcomes.in_hand and outcomes.of_task(key) is not None
        return is_given and self._log.settled.get(key) is None

    def stopped_by(self, key: RowKey) -> bytes | None:
        """The request that gave the task its outcome while a worker had it; also after its end. None: it was not so."""
        return self._rows.outcomes.in_hand.get(key.digest)

    def cancel_all(self, keys: Sequence[RowKey], outcome: Outcome, request: bytes) -> bool:
        """As `cancel` of each. False: one has an outcome, and nothing was done."""
        digests = digests_of(keys)
        if self._rows.outcomes.knows_any_task(keys, digests):
            return False
        self._rows.give_all(keys, outcome, request)
        return True

    def end_all(self, keys: Sequence[RowKey], outcome: Outcome, request: bytes) -> None:
        """These rows wait and have no outcome: they get one, and are over."""
        self._rows.outcomes.give_all(keys, outcome, request)
        if isinstance(keys, RowKeys):
            self._log.end_together(entries_with(keys, outcome))
        else:
            self._log.end([(key, outcome) for key in keys])
        self._rows.ordered.over(keys)

    def end_met(self, key: RowKey, outcome: Outcome) -> None:
        """The row waits and its outcome is durable: it is over now, not when its instant comes."""
        self._log.end_met([(key, outcome)])
        self._rows.ordered.over([key])

    def suspend(self, digest: bytes, position_ms: int | None = None) -> None:
        """A mover asks: the task's rows fire only after a read of `moves` that begins later than this."""
        if position_ms is not None:
            self._rows.outcomes.early.note(RowKey(position_ms, digest, 0))
        self._rows.moves.block(digest)
        self._rows.moves.watch.forget(digest)

    def asked(self, digest: bytes) -> int:
        """The number of the last `suspend`; 0: there is none."""
        return self._rows.moves.asked.get(digest, 0)

    def ask_moves(self) -> Effects:
        """Reads `moves` for the rows that wait for its answer, where no read is on its way."""
        return self._rows.moves.watch.ask(self._rows.moves.rows)

    def ask_again(self, digests: Sequence[bytes]) -> Effects:
        """Reads `moves` now, whatever is on its way."""
        return self._rows.moves.watch.ask_again(list(digests))

    def moves_read(self, answers: Mapping[bytes, Move | None], asked: Mapping[bytes, int]) -> Effects:
        """Hears what `moves` says, by a read that began when `asked` were the numbers of the last `suspend`. Returns
        what to ask or to change. Of a queue that is reloaded the answers are asked for again after that."""
        moves = self._rows.moves
        moves.watch.answered(answers)
        answers = answers_beside(self._rows.left.reload, moves.rows, answers)
        effects, live = moves.decided(answers, asked)
        for digest, generation in live.items():
            self._log.end_met(self._rows.settle_move(digest, generation))
        return effects

    # -- sending --------------------------------------------------------------------------------------------------

    def queues(self) -> Iterable[QueueKey]:
        rows = self._rows
        if not rows.keyed.rows and not rows.ordered:
            return rows.waiting.queues()
        return {*rows.waiting.queues(), *rows.keyed.queues(), *rows.ordered.behind.queues()}

    @property
    def waiting_rows(self) -> int:
        return self._rows.waiting.rows + self._rows.keyed.rows + self._rows.ordered.behind.waiting

    @property
    def open_rows(self) -> int:
        return len(self._rows.open)

    def next_ms(self, queue: QueueKey) -> int | None:
        return self._rows.waiting.next_ms(queue)

    def due_rows(self, queue: QueueKey, until_ms: int, most: int) -> int:
        due = self._rows.waiting.due_rows(queue, until_ms, most)
        return due if due >= most or not self._rows.keyed.rows else min(most, due + self._rows.keyed.rows_of(queue))

    def all_due(self, queue: QueueKey, until_ms: int, now_ms: int) -> int:
        """See RowsInHand.all_due."""
        return self._rows.all_due(queue, until_ms, now_ms)

    def oldest_waiting_of(self, queue: QueueKey, now_ms: int) -> int | None:
        """Position of the oldest row of the queue that waits and has not expired, but behind no ordering key."""
        return self._rows.oldest_waiting_of(queue, now_ms)

    def head_key(self, queue: QueueKey, until_ms: int) -> int | None:
        return self._rows.waiting.head_key(queue, until_ms)

    def lane_bytes(self, queue: QueueKey) -> int:
        return self._rows.lane_bytes(queue)

    def prepare(self, queue: QueueKey, until_ms: int) -> bool:
        """What a take until then would put together is put together now. Returns whether anything was."""
        return self._rows.prepare(queue, until_ms)

    def tidy(self) -> bool:
        """Makes room, one run at a time. Returns whether there is more to do."""
        return self._rows.tidy()

    def take(
        self,
        queue: QueueKey,
        limit: int,
        until_ms: int,
        now_ms: int,
        *,
        since_ms: int = 0,
        past_ms: int = 0,
        upto: int = LAST,
        gates: Sequence[Gate] = (),
    ) -> Taken | None:
        """Opens due rows that may be sent, in order. `gates` are asked after the partition's own ones, and what must
        not be sent becomes what they say. `since_ms`: when the partition was taken over."""
        due = self._pull(queue, limit, until_ms, upto)
        return None if due is None else self._open(DueBatch(due, since_ms, past_ms), gates, now_ms)

    def file_due(self, queue: QueueKey, limit: int, until_ms: int) -> bool:
        """Due rows of the queue wait for the turn of their limit keys. Whether there may be more."""
        return self._rows.file_due(queue, limit, until_ms)

    def take_filed(
        self, rows: RowGroup, now_ms: int, *, since_ms: int = 0, past_ms: int = 0, gates: Sequence[Gate] = ()
    ) -> Taken | None:
        """As `take`, of rows whose turn it is."""
        return self._open(DueBatch(self._taken(rows), since_ms, past_ms), gates, now_ms)

    def _open(self, due: DueBatch, gates: Sequence[Gate], now_ms: int) -> Taken | None:
        taken = self._judged(due, gates, now_ms)
        if taken is not None:
            if self.partition.is_of_keys:
                taken.fences = self._rows.ordered.order_keys.fences
            self._rows.send(taken, now_ms)
        return taken

    def _pull(self, queue: QueueKey, limit: int, until_ms: int, upto: int = LAST) -> Taken | None:
        rows = self._rows.pull(queue, limit, until_ms, upto)
        return None if rows is None else self._taken(rows)

    def _taken(self, rows: RowGroup) -> Taken:
        return Taken.of(self.partition, self._log.token, rows)

    def _judged(self, batch: DueBatch, gates: Sequence[Gate], now_ms: int) -> Taken | None:
        """The rows that may be sent; the others have become what the gates said."""
        judge((*self._own_gates(), *gates), batch, now_ms)
        due, fates = batch.due, batch.fates
        if not fates:
            return due
        self._end_judged({n: fate for n, fate in fates.items() if isinstance(fate, End)}, batch)
        self._follow_judged({n: fate.carry for n, fate in fates.items() if isinstance(fate, Follow)}, batch)
        self._requeue_judged({n: fate.until_ms for n, fate in fates.items() if isinstance(fate, Requeue)}, due, now_ms)
        self._hold_judged({n: fate.until_ms for n, fate in fates.items() if isinstance(fate, Hold)}, due.rows, now_ms)
        left = list(batch.left())
        return due.part(np.array(left, dtype=np.intp)) if left else None

    def _own_gates(self) -> tuple[Gate, ...]:
        if not self._gates:
            repeats = (RepeatGate(self._log),) if self._remembered else ()
            self._gates = self._rows.gates(WrittenTwiceGate(self._log), *repeats)
        return self._gates

    def _end_judged(self, ends: Mapping[int, End], batch: DueBatch) -> None:
        ended: list[RowEnd] = []
        for n, (outcome, _) in ends.items():
            key = batch.key(n)
            ended += [(each, outcome) for each in (key, *self._rows.copies_of(key.digest))]
        self._log.end_met(ended)
        self._log.put_dead_letters(end.letter for end in ends.values() if end.letter is not None)

    def _follow_judged(self, carries: Mapping[int, Carry], batch: DueBatch) -> None:
        for n, carry in carries.items():
            key = batch.key(n)
            self._log.follow([carry._replace(source=each) for each in (key, *self._rows.copies_of(key.digest))])

    def _requeue_judged(self, which: Mapping[int, int], due: Taken, now_ms: int) -> None:
        for carry in self._carry_waiting(due.rows, which, now_ms, CarryReason.GUARD) if which else ():
            copies = self._rows.copies_of(carry.source.digest)
            self._log.follow([carry._replace(source=each) for each in copies])

    def _hold_judged(self, which: Mapping[int, int], rows: RowGroup, now_ms: int) -> None:
        """Rows that wait for the same instant wait as one run."""
        for until_ms in sorted(set(which.values())):
            numbers = [n for n, at_ms in which.items() if at_ms == until_ms]
            self._rows.hold(rows.select(np.array(sorted(numbers), dtype=np.intp)), max(until_ms, now_ms + 1))

    def end_early(self, until_ms: int, now_ms: int, since_ms: int) -> None:
        """Due rows of which something was said before end now, although nobody asks for them."""
        for rows in self._rows.pull_early(until_ms):
            self._rows.back(self._judged(DueBatch(self._taken(rows), since_ms, 0), (), now_ms))

    def put_back(self, key: RowKey) -> bool:
        """The open row waits again, as if it had not been sent. False: see RowsInHand.put_back."""
        return self._rows.put_back(key)

    def open_keys(self) -> list[RowKey]:
        return list(self._rows.open.before(1 << 62))

    def open_since(self, sent_ms: int) -> list[RowKey]:
        """Rows sent before `sent_ms` that are still open."""
        return list(self._rows.open.since(sent_ms))

    def laggards(self, sent_ms: int, most_settled: int, stuck_since_ms: int) -> list[RowKey]:
        """Open rows that hold the marks back too long: those sent before `sent_ms`; where more than `most_settled`
        endings wait for the marks, the oldest ones sent before `stuck_since_ms`."""
        if len(self._log.settled) > most_settled:
            return list(self._rows.open_first(stuck_since_ms))
        return self.open_since(sent_ms)

    # -- ending ---------------------------------------------------------------------------------------------------

    def end(self, ended: Iterable[Ended]) -> tuple[int, list[Ended]]:
        """Ends open rows, with the copies that wait for them. Returns (lsn that is done when this is durable, those
        that are not open, or that end by the ack of another attempt). Nearly all speak of the very row that was sent,
        which has no copies: these are closed here, the others by the way that is for all."""
        rows = self._rows
        endings: list[RowEnd] = []
        missing: list[Ended] = []
        is_plain, end = not rows.open.copies, rows.open.end
        for item in ended:
            _, key, outcome = item
            if outcome is Outcome.EXPIRED:
                outcome = self._expired_as(key)
            if outcome is Outcome.DEAD and rows.pending(key) is Outcome.ACKED:
                # That ack came first, and is confirmed: no failure takes it back.
                if (closed := rows.open.close(key)) is not None:
                    endings += [(each, Outcome.ACKED) for each in rows.open.all_of(closed)]
                missing.append(item)
            elif is_plain and end(key):
                endings.append((key, outcome))
            elif (closed := rows.open.close(key)) is not None:
                endings += [(each, outcome) for each in rows.open.all_of(closed)]
            else:
                missing.append(item)
        self._log.end(endings)
        records = self._log.records
        return records.lsn if endings else records.done_through, missing

    def expire(self, failed: Iterable[Again]) -> tuple[int, list[Again]]:
        """As `end`, of attempts that have failed too late for another one, and are told of."""
        items = {Ended(item.partition, item.key, Outcome.EXPIRED): item for item in failed}
        lsn, missing = self.end(items)
        others = [items.pop(each) for each in missing]
        ended = (item for item in items.values() if self._log.settled.get(item.key) is not Outcome.ACKED)
        self._log.note_attempts(retry_carry(self.partition, item) for item in ended)
        return lsn, others

    def expire_waiting(self, key: RowKey, failed: Again) -> int:
        """As `end_waiting`, of a row that waits for the end of a delivery which failed too late for another one."""
        lsn = self.end_waiting([key], Outcome.EXPIRED)
        self._log.note_attempts([retry_carry(self.partition, failed)._replace(source=key)])
        return lsn

    def _expired_as(self, key: RowKey) -> Outcome:
        """Of a row that expires in a worker's hands: an ack of another attempt or a cancel may have come first."""
        said = self._rows.pending(key)
        return said if said in (Outcome.ACKED, Outcome.CANCELLED, Outcome.PURGED) else Outcome.EXPIRED

    def end_acked(self, acked: Iterable[AckedRows]) -> tuple[list[AckedRows], list[Ended]]:
        """As `end`, without an object for each, where all that were sent together are open still and have no copies.
        Returns (what was ended, the others one by one: nothing was done with those)."""
        together: list[AckedRows] = []
        others: list[Ended] = []
        for part in acked:
            closed = self._rows.open.take_out(part) if not self._rows.open.copies else None
            if closed is None:
                others += part.each()
            else:
                self._log.end_together(entries_of(closed, Outcome.ACKED))
                together.append(part)
        return together, others

    def put_dead_letters(self, dead_letters: Iterable[DeadLetter]) -> None:
        """Dead letters of what has just ended: they become durable with its record."""
        self._log.put_dead_letters(dead_letters)

    def end_waiting(self, keys: Iterable[RowKey], outcome: Outcome, unsent: Iterable[RowKey] = ()) -> int:
        """Ends these rows, which wait, and no other of their tasks, which may live again. `unsent`: those that an
        earlier attempt has acked. Returns the lsn."""
        ended = [(key, outcome) for key in dict.fromkeys(keys)]
        for key, _ in ended:
            self._rows.outcomes.end_unmet(key, outcome)
        settled = self._log.settled
        self._log.end_unsent([key for key in dict.fromkeys(unsent) if settled.get(key) is None])
        self._log.end_met(ended)
        self._rows.ordered.over([key for key, _ in ended])
        return self._log.records.last_lsn

    # -- requeueing -----------------------------------------------------------------------------------------------

    def retry(self, failed: Iterable[Again]) -> int:
        """Open rows go on as their next attempts, unless they were cancelled meanwhile. Returns the lsn."""
        self._requeue(retry_carry(self.partition, item) for item in failed)
        return self._log.records.newest_lsn

    def guard(self, leases: Mapping[RowKey, int], now_ms: int, reason: CarryReason, *, was_sent: bool) -> int:
        """Open rows go on at the end of their lease: at the lag limit, or at a graceful stop. Returns the lsn."""
        self._requeue(
            self._guarded(key, until_ms, now_ms, reason, was_sent=was_sent) for key, until_ms in leases.items()
        )
        return self._log.records.newest_lsn

    def retry_waiting(self, key: RowKey, rows: RowGroup, again: Again) -> int:
        """A row that waits for the end of a lease goes on as the next attempt of the delivery that failed. `rows`: the
        row as the store has it. Returns the lsn."""
        carry = retry_carry(self.partition, again)._replace(source=key)
        carry = in_place(rows, 0, self.partition, carry, self._rows.ordered.order_keys.on_failure)
        if (carry.target, carry.position_ms, carry.version) == (self.partition, key.position_ms, key.version):
            # It has waited here as that attempt already, and its way would be a circle.
            carry = carry._replace(version=next_attempt(key.version))
        self._rows.ordered.over([key])
        self._rows.outcomes.end_unmet(key, Outcome.CARRIED)
        self._log.carry([carry], (carry.target, carried_row(rows, 0, self.partition, carry)))
        return self._log.records.lsn

    def join(self, key: RowKey, place: Place) -> None:
        """An open row says what the one at `place` says: it ends as requeued there."""
        found = self._rows.open.close(key)
        keys: Sequence[RowKey] = self._rows.open.all_of(found) if found is not None else ()
        to = place.partition, place.key.position_ms, place.key.version
        self._log.follow([Carry(each, CarryReason.GUARD, *to) for each in keys])

    def leased_rows(self) -> list[RowKey]:
        """Rows that wait for the end of a lease, of those in memory, whichever holder requeued them."""
        found: list[RowKey] = []
        for rows in [*self._rows.waiting.flagged(FLAG_CARRIED), *self._rows.keyed.groups()]:
            leased = [at for at, extra in enumerate(rows.extras, start=1) if extra.lease_until_ms]
            found += rows.select(np.flatnonzero(np.isin(rows.columns["extra"], leased))).keys()
        return found

    def prolong(self, rows: RowGroup, which: Mapping[int, int], now_ms: int) -> list[RowKey]:
        """Rows that wait for the end of a lease which was extended since go on at its new end. `rows`: as the store has
        them; `which`: row -> end of its lease. Returns their keys."""
        carries = self._carry_waiting(rows, which, now_ms, CarryReason.HAND_OVER)
        for carry in carries:
            self._rows.outcomes.end_unmet(carry.source, Outcome.CARRIED)
        return [carry.source for carry in carries]

    def _carry_waiting(self, rows: RowGroup, which: Mapping[int, int], now_ms: int, reason: CarryReason) -> list[Carry]:
        """Rows that are not open go on at the end of a lease. `which`: row -> when that is."""
        parts: dict[Partition, list[tuple[int, Carry]]] = defaultdict(list)
        keys, flags = rows.keys(), rows.columns["flags"].tolist()
        for n, until_ms in which.items():
            if flags[n] & FLAG_ORDERED:
                # It waits where it is: as the same attempt it could go nowhere but there.
                continue
            carry = self._guarded(keys[n], until_ms, now_ms, reason, was_sent=False)
            parts[carry.target].append((n, carry))
        for target, part in parts.items():
            numbers, carries = np.array([n for n, _ in part], dtype=np.intp), [carry for _, carry in part]
            self._log.carry(carries, (target, carried_rows(rows.select(numbers), self.partition, carries)))
        return [carry for part in parts.values() for _, carry in part]

    def _guarded(self, key: RowKey, lease_until_ms: int, now_ms: int, reason: CarryReason, *, was_sent: bool) -> Carry:
        """To the end of the lease. Where the same attempt has waited at that very instant before it has ended there,
        and its way would be a circle: a failure takes it to an earlier instant than that of a lease which others still
        know."""
        carry = guard_carry(self.partition, key, lease_until_ms, now_ms, reason, was_sent=was_sent)
        while not was_sent and self._log.settled.get(key._replace(position_ms=carry.position_ms)) is not None:
            later_ms = carry.position_ms + 1
            carry = guard_carry(self.partition, key, later_ms, now_ms, reason, was_sent=was_sent)
        return carry

    def _requeue(self, carries: Iterable[Carry]) -> None:
        """Open rows of tasks go on elsewhere, unless those were ended meanwhile. What was sent together, and goes to
        the same partition, is written together. The records are of these rows: who asks may know the same attempt by
        another position."""
        rows, log = self._rows, self._log
        parts: dict[tuple[int, Partition], _Part] = {}
        copies: list[Carry] = []
        on_failure = rows.ordered.order_keys.on_failure
        for asked in carries:
            key, carry = asked.source, asked
            # An earlier one of them may have been of the same row.
            found = rows.open.pop(key.digest) if rows.open.is_open(key) else None
            if found is None:
                continue
            batch, row = found
            others = rows.open.copies.pop(key.digest)
            if batch.taken.positions[row] != key.position_ms:
                carry = asked._replace(source=key._replace(position_ms=batch.taken.positions[row]))
            carry = in_place(batch.taken.rows, row, self.partition, carry, on_failure)
            outcome = rows.pending(key)
            # The row that it was written again as is among those that go on with it: it is the task, and has not ended.
            if outcome is not None and not (outcome is Outcome.FORWARDED and others):
                log.end((each, outcome) for each in (carry.source, *others))
                log.note_attempts([carry] if carry.reason is CarryReason.RETRY and outcome in _GIVEN_UP else [])
                continue
            parts.setdefault((batch.number, carry.target), []).append((batch, row, carry))
            copies += [carry._replace(source=other) for other in others]
        for (_, target), part in parts.items():
            self._requeue_part(target, part)
        log.follow(copies)

    def _requeue_part(self, target: Partition, part: _Part) -> None:
        carries = [carry for _, _, carry in part]
        which = np.array([row for _, row, _ in part], dtype=np.intp)
        self._log.carry(carries, (target, carried_rows(part[0][0].taken.rows.select(which), self.partition, carries)))

    # -- offloading -----------------------------------------------------------------------------------------------

    def offload(
        self, limit_ms: int, batch_rows: int, now_ms: int, *, since_ms: int = 0, gates: Sequence[Gate] = ()
    ) -> None:
        """What waits since before `limit_ms` goes to its queue's backlog, but for what the gates say; they are asked as
        in `take`."""
        self._rows.waiting.end_holds(limit_ms)
        self._rows.take_out(limit_ms)
        for queue in list(self._rows.waiting.queues()):
            while (due := self._pull(queue, batch_rows, limit_ms)) is not None:
                left = self._judged(DueBatch(due, since_ms, limit_ms), gates, now_ms)
                if not self._offload(left):
                    break

    def _offload(self, left: Taken | None) -> bool:
        """Whether there are copies of what has left, which go as well."""
        if left is None:
            return False
        self._log.offload(left.rows.keys(), (backlog_of(left.rows, self.partition), left.rows.compact()))
        return self._rows.part(left.digests)

    # -- records --------------------------------------------------------------------------------------------------

    def flush(self, now_ms: int = 0) -> Effects:
        """The record of what ended since the last one, unless one is on its way."""
        return self._log.flush(now_ms)

    def settled_written(self, sequence: int) -> Effects:
        keys = self._rows.ordered.order_keys
        ended = self._log.records.rows_ended(sequence, keys.watched) if keys else ()
        effects = self._log.settled_written(sequence)
        keys.end(ended)
        return effects

    def carried_written(self, sequence: int) -> None:
        keys = self._rows.ordered.order_keys
        went_on = self._log.records.keys_gone(sequence) if keys else ()
        self._log.records.finish(sequence)
        keys.free(went_on)

    def carried_waits(self, sequence: int) -> None:
        """Rows of the record wait for another holder, who is silent."""
        self._log.records.delay(sequence)

    @property
    def lsn(self) -> int:
        """The number of the record that will say what ended last."""
        return self._log.records.lsn

    @property
    def last_lsn(self) -> int:
        """Done when all that has ended so far is durable."""
        return self._log.records.last_lsn

    @property
    def done_through(self) -> int:
        """Log sequence numbers up to this one are done."""
        return self._log.records.done_through

    @property
    def is_idle(self) -> bool:
        """Whether all that has ended is durable, and what was requeued is written."""
        return self._log.records.is_idle

    @property
    def may_be_left(self) -> bool:
        """Whether another holder may go on: nothing is open, and all that has ended is durable."""
        return not self._rows.open and self._log.records.may_be_left

    @property
    def rests(self) -> bool:
        """Whether no row is here, nor on its way from here to the store."""
        rows = self._rows
        has_rows = rows.waiting.rows or rows.keyed.rows or rows.ordered or rows.open or rows.moves.rows
        return self.is_idle and not (has_rows or rows.left.queues() or self.reload)

    # -- marks ----------------------------------------------------------------------------------------------------

    def oldest_ms(self, past_ms: int | None = None) -> int | None:
        """Position of the oldest row that is not over. `past_ms`: and has not expired by then while it waits."""
        return self._rows.oldest_ms() if past_ms is None else self._rows.oldest_standing_ms(past_ms)

    def unsettled_ms(self) -> int | None:
        """Position of the oldest row that is not over, or whose end is not durable."""
        found = [ms for ms in (self._rows.oldest_ms(), self._log.records.oldest_ms()) if ms is not None]
        return min(found, default=None)

    def oldest_waiting_ms(self) -> int | None:
        return self._rows.waiting_ms()

    @property
    def ordered(self) -> OrderedRows:
        """What waits here of ordering keys."""
        return self._rows.ordered

    def ordered_from_ms(self, scope: int) -> int:
        """From which position on rows of ordering keys may be missing in memory: what waits for `moves`, and what is on
        its way to the backlog of `scope`."""
        leaving_ms = self._log.records.leaving_ms(scope)
        return min([leaving_ms, *self._rows.moves.positions_ms()])

    @property
    def is_redoing(self) -> bool:
        """Whether rows requeued by an earlier holder are still being written again: the marks stay."""
        return self._log.records.redoes

    @property
    def has_open_records(self) -> bool:
        """Whether an ending is not wholly durable."""
        return self._log.records.has_endings

    @property
    def is_stirred(self) -> bool:
        """Whether anything but canaries is open or has ended since the marks moved. For canaries alone they do not move
        before the bucket is over: an idle instance would make a transaction every few seconds."""
        return len(self._rows.open) + len(self._log.settled) > self._rows.canaries

    @property
    def others_wait(self) -> bool:
        """Whether anything but a canary waits."""
        return self._rows.waiting.rows > self._rows.waiting.lane_rows(CANARY) or self._rows.keyed.rows > 0

    @property
    def settled_rows(self) -> int:
        """Rows that have ended and that the marks have not passed."""
        return len(self._log.settled)

    def moved_marks(self, verified_ms: int) -> None:
        """The marks have moved."""
        self.forget_below(verified_ms)
        self._rows.canaries = 0

    def forget_below(self, verified_ms: int) -> None:
        self._log.forget_below(verified_ms)

    def counts_below(self, verified_ms: int) -> tuple[tuple[int, int], ...]:
        return self._log.counts_below(verified_ms)

    def count_forwards(self, rows: int, forwards: int) -> None:
        self._log.count_forwards(rows, forwards)

    def totals(self) -> Counter[int]:
        """Outcome -> how many rows of the partition ended so."""
        return self._log.totals()

    @property
    def foreign(self) -> ForeignRows:
        """Rows that this release must not deliver."""
        return self._rows.left.foreign

    def drop_all(self) -> None:
        """The partition is no longer held."""
        self._rows.drop_all()
