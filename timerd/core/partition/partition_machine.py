"""The life of one held partition (protocol section 4): acquire, load, fire, settle, close, verify, finish.

    ACQUIRE --cas token--> RECOVER --settle records--> LOAD --what is due soon--> HOT --all settled--> COUNT --> DONE
       |                                                   HOT --settled, carried--> RELEASE --cas--> HANDED_OVER
       '--a living holder--> REFUSED                        any --refused--> LOST

Two marks in the control row, both fenced by the token. `closing`: rows below it are no longer taken in without asking
the holder; raised first, then the partition is scanned once more, so nothing written below it can be missed.
`verified`: all below it is over; a new holder starts there. The floor rises in the step that decides to move
`verified`, before the compare-and-set is sent, so that nothing is adopted below it meanwhile.

Facts and `now_ms` in, effects out; the shell (services/holding/scheduler.py) performs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

from timerd.core.gates import Gate
from timerd.core.ordering import OrderedRows
from timerd.core.partition.effects import ChangeControl, CountRows, Effects, FlagFinishing, ReadControl, ReadSettled
from timerd.core.partition.holding import Asked, HoldingSettings, MayTake, Offered, Phase, may_take_any, taken_over
from timerd.core.partition.memory import Memory
from timerd.core.partition.reload import Reload
from timerd.core.partition.row_state import RowState
from timerd.core.partition.row_table import RowTable
from timerd.core.partition.sweep import Sweep, from_floor
from timerd.core.taken import LAST, AckedRows, Again, Ended, QueueKey, Taken
from timerd.model.identity import RowKey
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.registers import Control, Move, Place
from timerd.model.rows import FLAG_CARRIED, RowGroup
from timerd.model.settle import Carry, CarryReason, Outcome, SettleRecord
from timerd.model.storage import CasStatus, DeadLetter, Mark, Page

# Of one queue: what is more is said as so many.
MOST_DUE = 100_000_000
# What was cancelled or moved before it was due may count as due for so long. A look for it is of the due rows only.
EARLY_EVERY_MS = 1_000
# How often `closing` may move while a task of an ordering key waits for that.
AWAITED_MARK_MS = 100


class PartitionMachine:
    """One holder's view of one partition. Methods named after a fact take its result; all return effects to perform.
    `may_take`: whether the holder that a control row names may be succeeded."""

    def __init__(
        self, partition: Partition, settings: HoldingSettings, memory: Memory, may_take: MayTake = may_take_any
    ) -> None:
        self.partition = partition
        self.phase = Phase.ACQUIRE
        # When it was taken over.
        self.since_ms = 0
        self.control: Control | None = None
        self.floor_ms = partition.bucket_ms
        self._table = RowTable(partition, memory, 0, settings.endings_kept)
        self.inserted = 0
        self._settings = settings
        self._memory = memory
        self._may_take = may_take
        self.successor, self._rows_need = "", frozenset[str]()
        self._changing: ChangeControl | None = None
        self._sweep = Sweep(partition, partition.bucket_ms, settings.traits)
        self._marked_ms = self._ended_ms = 0
        self._flagged = self._flagging = False
        self._recounts = settings.recounts
        # A backlog partition closes only after the bucket that it was parked from is finished.
        self.may_close = partition.scope == TIME_SCOPE

    # -- acquiring and loading ------------------------------------------------------------------------------------

    def start(self) -> Effects:
        return [ReadControl(self.partition)]

    def control_read(self, current: Control | None, now_ms: int, *, is_finishing: bool = False) -> Effects:
        """A serial read: before the first change, and to settle an unknown outcome. `is_finishing`: the bucket's flag,
        read after it where nobody has held the partition before."""
        if self._changing is None:
            return self._acquire(current, now_ms, is_finishing) if self.phase is Phase.ACQUIRE else []
        if current == self._changing.value:
            return self.control_changed(CasStatus.APPLIED, now_ms)
        if current == self._changing.expected:
            return [self._changing]
        return self.lose()

    def control_changed(self, status: CasStatus, now_ms: int) -> Effects:
        if status is CasStatus.UNKNOWN:
            return [ReadControl(self.partition)]
        change, self._changing = self._changing, None
        if status is CasStatus.REFUSED or change is None:
            return self.lose()
        self.control = change.value
        if self.phase is Phase.ACQUIRE:
            return self._recover(change.value, had_holder=change.expected is not None)
        if self.phase in (Phase.COUNT, Phase.RELEASE):
            self.phase = Phase.DONE if self.phase is Phase.COUNT else Phase.HANDED_OVER
            self._table.drop_all()
            return []
        self._table.moved_marks(change.value.verified_ms)
        return self._read_page(now_ms)

    def settled_read(self, records: Sequence[SettleRecord], now_ms: int) -> Effects:
        if self.phase is not Phase.RECOVER or self.control is None:
            return []
        self._table.recover(records, self.control)
        self.phase, self.since_ms = Phase.LOAD, now_ms
        return self._read_page(now_ms)

    def page_read(self, page: Page, now_ms: int) -> Effects:
        """`page.groups` may bring rows again; marks come before the rows of the same page."""
        if self.phase.is_over:
            return []
        known = self.phase, self._sweep.loaded_ms
        self._table.mark(page.marks)
        for group in page.groups if self.phase is Phase.LOAD else ():
            self._table.complete(group)
        self._table.read(page, [from_floor(group, self.floor_ms) for group in page.groups])
        effects = self._sweep.turned(page)
        is_over = not effects
        if self.phase is Phase.LOAD and (is_over or (not self._table.has_unmet and self._sweep.is_ahead(now_ms))):
            self.phase = Phase.HOT
            effects += self._table.redo()
        if known != (self.phase, self._sweep.loaded_ms):
            self._memory.touched.update(self._table.queues())
        return [*effects, *self._swept(now_ms)] if is_over else effects

    def lose(self) -> Effects:
        """Somebody else holds the partition, or may."""
        self.phase = Phase.LOST
        self._table.drop_all()
        return []

    # -- what comes from outside ----------------------------------------------------------------------------------

    def hint(self, rows: RowGroup, source: int, *, may_repeat: bool = False) -> None:
        """Rows just written at or after `closing`. May be ignored: the sweep finds them. They may come again from other
        instances, and carried ones from anywhere: their writer begins anew after an error."""
        if self.phase.takes_in and len(rows := self._table.besides_reload(from_floor(rows, self.floor_ms))):
            again = may_repeat or self.partition.scope != TIME_SCOPE or (rows.columns["flags"] & FLAG_CARRIED).any()
            self._table.hint(rows, source, may_repeat=bool(again))

    def offer(self, rows: RowGroup, source: int, *, is_repeat: bool = False) -> Offered:
        """Rows just written below `closing`: whether this holder takes them in. What was refused once is never fired
        from that place: its writer writes it again."""
        table = self._table
        if is_repeat and (self.phase in (Phase.ACQUIRE, Phase.RECOVER) or table.reload is not None):
            return Offered.NOT_NOW
        keys = rows.keys()
        refused = not self.phase.takes_in or any(key.position_ms < self.floor_ms for key in keys)
        refused = refused or table.any_refused(keys)
        if not refused and table.has_read(source):
            return Offered.ALREADY_HAVE
        if refused or len(table.besides_reload(rows)) < len(rows):
            table.refuse(key for key in keys if key.position_ms >= self.floor_ms and self.ask(key)[0] is not Asked.OPEN)
            return Offered.BELOW_FLOOR
        table.hint(rows, source, may_repeat=True)
        return Offered.ADOPTED

    def ask(self, key: RowKey) -> tuple[Asked, Outcome | None]:
        """What this holder knows of a row (RowTable.ask)."""
        if not self.phase.answers:
            return Asked.UNKNOWN, None
        return self._table.ask(key, self.floor_ms, self._sweep.loaded_ms)

    def all_wait(self, keys: Sequence[RowKey]) -> bool:
        """Whether `ask` says of each that it waits. False: of one it does not, or may not."""
        return self.phase.answers and self._table.all_wait(keys, self.floor_ms, self._sweep.loaded_ms)

    def cancel(self, key: RowKey, outcome: Outcome, request: bytes, *, in_hand: bool = False) -> bytes:
        """Remembers the outcome, for rows not yet known as well. Returns the request that gave it first. `in_hand`: a
        worker has the task, and may finish it all the same."""
        return self._table.cancel(key, outcome, request, in_hand=in_hand)

    def is_stopped(self, key: RowKey) -> bool:
        """Whether the retries of a task were stopped that a worker had, and that is not known to have ended."""
        return self._table.is_stopped(key)

    def stopped_by(self, key: RowKey) -> bytes | None:
        """The request that gave the task its outcome while a worker had it; also after its end. None: it was not so."""
        return self._table.stopped_by(key)

    def cancel_all(self, keys: Sequence[RowKey], outcome: Outcome, request: bytes) -> Asked | None:
        """As `ask`, `cancel` and `end_met` for each of many rows that wait, and of which nothing else is known: the
        common case. None: nothing was done, for something is known of one of them."""
        if not self.phase.answers:
            return Asked.UNKNOWN if self._table.cancel_all(keys, outcome, request) else None
        if not self.all_wait(keys):
            return None
        self._table.end_all(keys, outcome, request)
        return Asked.WAITING

    def end_met(self, key: RowKey, outcome: Outcome) -> None:
        """The row waits and its outcome is durable: it is over now, not when its instant comes."""
        self._table.end_met(key, outcome)

    def suspend(self, digest: bytes, position_ms: int | None = None) -> None:
        """A mover asks: the row fires only after `moves` has been read again. `position_ms`: where it stands."""
        self._table.suspend(digest, position_ms)

    def recheck(self, digests: Sequence[bytes]) -> Effects:
        """The moves of suspended rows may have been decided."""
        return self._table.ask_again(digests) if self.phase is Phase.HOT else []

    def moves_read(self, moves: Mapping[bytes, Move | None], asked: Mapping[bytes, int]) -> Effects:
        """`asked`: the value of `asking` when the read began; a later ask wins over this answer."""
        return [*self._table.moves_read(moves, asked), *self._table.flush()]

    def asking(self, digest: bytes) -> int:
        """The number of the last ask; 0: there is none."""
        return self._table.asked(digest)

    # -- firing and settling --------------------------------------------------------------------------------------

    def known_ms(self, now_ms: int) -> int:
        """How far what is due may be sent: what has not been read may have marks."""
        return min(now_ms, self._sweep.loaded_ms - 1)

    def take(
        self,
        queue: QueueKey,
        limit: int,
        now_ms: int,
        *,
        expires: bool = True,
        upto: int = LAST,
        gates: Sequence[Gate] = (),
    ) -> Taken | None:
        """Due rows that may be sent, in order; they are open from here on. `gates`: those of the instance, asked after
        the partition's own. Clock and lease are trusted, or nobody asks."""
        if self.phase is not Phase.HOT:
            return None
        past_ms, until_ms = now_ms if expires else 0, self.known_ms(now_ms)
        return self._table.take(
            queue, limit, until_ms, now_ms, since_ms=self.since_ms, past_ms=past_ms, upto=upto, gates=gates
        )

    def file_due(self, queue: QueueKey, limit: int, now_ms: int) -> bool:
        """Due rows of a queue that has limit keys wait for the turn of these. Whether there may be more."""
        return self._table.file_due(queue, limit, self.known_ms(now_ms))

    def take_filed(
        self, rows: RowGroup, now_ms: int, *, expires: bool = True, gates: Sequence[Gate] = ()
    ) -> Taken | None:
        """As `take`, of rows whose turn it is."""
        past_ms = now_ms if expires else 0
        return self._table.take_filed(rows, now_ms, since_ms=self.since_ms, past_ms=past_ms, gates=gates)

    def end(self, ended: Iterable[Ended]) -> tuple[int, list[Ended]]:
        """(lsn that is done when this is durable, what was not open here: it was carried on meanwhile)."""
        return self._table.end(ended)

    def expire(self, failed: Iterable[Again]) -> tuple[int, list[Again]]:
        """As `end`, of attempts that have failed too late for another one, and are told of."""
        return self._table.expire(failed)

    def expire_waiting(self, key: RowKey, failed: Again) -> int:
        """As `end_waiting`, of a row that waits for the end of a delivery which failed too late for another one."""
        return self._table.expire_waiting(key, failed)

    def end_acked(self, acked: Iterable[AckedRows]) -> tuple[list[AckedRows], list[Ended]]:
        """As `end`, of rows that were sent together. Returns (what was ended, the others: nothing was done)."""
        return self._table.end_acked(acked)

    def end_waiting(self, keys: Iterable[RowKey], outcome: Outcome, unsent: Iterable[RowKey] = ()) -> int:
        """Ends these rows, which wait, and no other of their tasks. `unsent`: those that an earlier attempt has acked.
        Returns the lsn."""
        return self._table.end_waiting(keys, outcome, unsent)

    def put_dead_letters(self, dead_letters: Iterable[DeadLetter]) -> None:
        """Dead letters of what has just ended: they become durable with its record."""
        self._table.put_dead_letters(dead_letters)

    def put_back(self, key: RowKey) -> bool:
        """The open row waits again, as if it had not been sent. False: it is not open, or cannot."""
        return self.phase is Phase.HOT and self._table.put_back(key)

    def again(self, failed: Iterable[Again]) -> int:
        """Carries each as its next attempt, unless it was cancelled meanwhile. Returns the lsn."""
        return self._table.retry(failed)

    def again_waiting(self, key: RowKey, rows: RowGroup, again: Again) -> int:
        """Carries a row that waits for the end of a lease as the next attempt of what failed. Returns the lsn."""
        return self._table.retry_waiting(key, rows, again)

    def guard(self, leases: Mapping[RowKey, int], now_ms: int, reason: CarryReason, *, was_sent: bool = True) -> int:
        """Carries open rows to the end of their lease: at the lag limit, or at a graceful stop. Returns the lsn."""
        return self._table.guard(leases, now_ms, reason, was_sent=was_sent)

    def prolong(self, rows: RowGroup, lease_of: Callable[[RowKey], int], now_ms: int) -> list[RowKey]:
        """Carries rows that wait for the end of a lease to its new end, where it was extended. `rows`: as the store has
        them; `lease_of`: until when it lasts, 0: the row is not meant. Returns those that were carried."""
        leases = {n: (key, lease_of(key)) for n, key in enumerate(rows.keys())}
        which = {
            n: until_ms
            for n, (key, until_ms) in leases.items()
            if is_outlasted(key, until_ms, now_ms) and self.may_leave(key)
        }
        return self._table.prolong(rows, which, now_ms)

    def join(self, key: RowKey, place: Place) -> None:
        """An open row says what the one at `place` says: it ends as carried there."""
        self._table.join(key, place)

    def may_leave(self, key: RowKey) -> bool:
        """Whether the row waits here, and no move of it is undecided: otherwise both rows would fire."""
        return self.ask(key)[0] is Asked.WAITING and not self._table.is_blocked(key.digest)

    def flush(self, now_ms: int = 0) -> Effects:
        """The record of what ended since the last one, unless one is on its way."""
        return self._table.flush(now_ms)

    def settled_written(self, record: SettleRecord) -> Effects:
        return self._table.settled_written(record.sequence)

    def carried_written(self, sequence: int) -> None:
        self._table.carried_written(sequence)

    def carried_waits(self, sequence: int) -> None:
        """Rows of the record wait for another holder, who is silent."""
        self._table.carried_waits(sequence)

    # -- marks ----------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int, gates: Sequence[Gate] = ()) -> Effects:
        """Called every 100 ms or so: settles, sweeps, moves the marks, carries what is too old. `gates`: what is asked
        of that before it goes to another holder."""
        if self.phase is Phase.HAND_OVER:
            return self._release()
        if self.phase is not Phase.HOT or self.control is None:
            return []
        self._table.forget_below(self.control.verified_ms)
        if now_ms - self._ended_ms >= EARLY_EVERY_MS:
            self._ended_ms = now_ms
            self._table.end_early(self.known_ms(now_ms), now_ms, self.since_ms)
        self._offload(now_ms, gates)
        effects = [*self._table.flush(now_ms), *self._reload(), *self._table.ask_moves()]
        if self._changing is None and now_ms - self._marked_ms >= self._mark_every_ms(self.control):
            self._marked_ms = now_ms
            effects += self._mark(self.control, now_ms)
        return effects

    def hand_over(self, successor: str, rows_need: frozenset[str] = frozenset()) -> Effects:
        """Sends nothing more; what is open is to be carried. Once all is settled, nobody holds the partition. Rows that
        an earlier holder carried are written first."""
        if self.phase is Phase.HOT or (self.phase is Phase.LOAD and not self._table.has_unfinished):
            self.phase, self.successor, self._rows_need = Phase.HAND_OVER, successor, rows_need
        return self._table.flush()

    def laggards(self, now_ms: int) -> list[RowKey]:
        """Open rows that hold the mark back too long: the shell answers with `guard`."""
        settings = self._settings
        sent_ms, stuck_since_ms = now_ms - settings.max_mark_lag_ms, now_ms - settings.stuck_after_ms
        return self._table.laggards(sent_ms, settings.max_settled, stuck_since_ms)

    def flagged(self) -> Effects:
        self._flagging = False
        self._flagged = True
        return []

    def counted(self, rows: int, now_ms: int, forwards: int = 0) -> Effects:
        """The key-only scan, and how many of its rows point elsewhere: what it has more than ended is unexplained."""
        self.inserted = rows
        if self.control is None or self._changing is not None:
            return []
        self._table.count_forwards(rows, forwards)
        end_ms = self.partition.end_ms
        if rows > self._table.totals().total() and self._recounts:
            self._recounts -= 1
            return [CountRows(self.partition, again=True)]
        return self._change(self.control.with_end(end_ms, now_ms, rows, self._table.counts_below(end_ms)))

    def verifiable_ms(self) -> int:
        """How far `verified` may go: scanned, and nothing older open."""
        if self._table.is_redoing:
            return self.floor_ms
        held_ms = self._table.unsettled_ms()
        return max(self.floor_ms, min(self._sweep.scanned_ms, self._sweep.scanned_ms if held_ms is None else held_ms))

    # -- what it has, for inspection ----------------------------------------------------------------------------

    @property
    def loaded_ms(self) -> int:
        """What is below it has been read once, rows and marks."""
        return self._sweep.loaded_ms

    def queues(self) -> Iterable[QueueKey]:
        """Those of which something waits here."""
        return self._table.queues()

    @property
    def waiting_rows(self) -> int:
        return self._table.waiting_rows

    @property
    def open_rows(self) -> int:
        return self._table.open_rows

    @property
    def ordered(self) -> OrderedRows:
        """What waits here of ordering keys."""
        return self._table.ordered

    @property
    def knows_hands(self) -> bool:
        """Whether all is in memory that a worker had when the last holder let go of it."""
        is_over = self.phase in (Phase.COUNT, Phase.DONE)
        return is_over or (self.phase is Phase.HOT and not self._table.is_redoing)

    def ordered_from_ms(self, scope: int) -> int:
        """From which position on a row of an ordering key may be missing in memory, of a queue with that backlog."""
        if self.phase in (Phase.COUNT, Phase.DONE):
            return LAST
        if not self.knows_hands:
            return self.partition.bucket_ms
        from_ms = self._table.ordered_from_ms(scope)
        if (
            self.partition.is_of_keys
            and self.partition.scope == TIME_SCOPE
            and self._sweep.scanned_ms < self.partition.end_ms
        ):
            # Other instances may have written what comes before.
            return min(from_ms, self._sweep.scanned_ms)
        return from_ms

    def next_ms(self, queue: QueueKey) -> int | None:
        """When the queue's next row is due, of those that may be sent then."""
        next_ms = self._table.next_ms(queue)
        return next_ms if next_ms is not None and next_ms < self._sweep.loaded_ms else None

    def due_rows(self, queue: QueueKey, until_ms: int, most: int) -> int:
        """How many rows of the queue are due by then; `most` or more."""
        return self._table.due_rows(queue, self.known_ms(until_ms), most)

    def all_due(self, queue: QueueKey, now_ms: int) -> int:
        """How many rows of the queue are due and not sent, those too that wait behind their ordering keys."""
        return self._table.all_due(queue, self.known_ms(now_ms), now_ms)

    def oldest_waiting_of(self, queue: QueueKey, now_ms: int) -> int | None:
        """Position of the oldest row of the queue that waits and has not expired, but behind no ordering key."""
        return self._table.oldest_waiting_of(queue, now_ms)

    def oldest_standing_ms(self, now_ms: int) -> int | None:
        """As `oldest_ms`, without what has expired while nobody asked for it."""
        oldest_ms = self._table.oldest_ms()
        return oldest_ms if oldest_ms is None or oldest_ms > now_ms else self._table.oldest_ms(now_ms)

    def head_key(self, queue: QueueKey, now_ms: int) -> int | None:
        """The order of the queue's first row that is due."""
        return self._table.head_key(queue, self.known_ms(now_ms))

    def prepare(self, queue: QueueKey, until_ms: int) -> bool:
        """What a take until then would put together is put together now. Returns whether anything was."""
        return self._table.prepare(queue, self.known_ms(until_ms))

    def is_open(self, key: RowKey) -> bool:
        return self._table.is_open(key)

    def is_blocked(self, digest: bytes) -> bool:
        """Whether the task's rows fire only after `moves` has been read again."""
        return self._table.is_blocked(digest)

    def open_keys(self) -> list[RowKey]:
        return self._table.open_keys()

    def open_since(self, sent_ms: int) -> list[RowKey]:
        """Rows sent before `sent_ms` that are still open."""
        return self._table.open_since(sent_ms)

    def leased_rows(self) -> list[RowKey]:
        """Rows in memory that wait for the end of a lease."""
        return self._table.leased_rows()

    def recorded(self, key: RowKey) -> Outcome | None:
        """How the row ended, by a record that is written or will be."""
        return self._table.recorded(key)

    def is_copy_of_ended(self, key: RowKey, flags: int) -> bool:
        """Whether another row of the task is over for good, by which this one ends when it is met."""
        return self._table.is_copy_of_ended(key, flags)

    def state_of(self, key: RowKey) -> RowState:
        """The state of the row, for tests and for people (RowTable.state_of)."""
        return self._table.state_of(key)

    def carry_of(self, key: RowKey) -> Carry | None:
        """Where the row was carried to."""
        return self._table.carry_of(key)

    def has_left(self, key: RowKey) -> bool:
        """Of a row that went on elsewhere: whether that is durable. Until then a crash leaves it here."""
        return self._table.has_left(key)

    @property
    def leaving(self) -> Set[RowKey]:
        """Rows that went on elsewhere, which is not durable yet."""
        return self._table.leaving

    @property
    def lsn(self) -> int:
        """The number of the record that will say what ended last."""
        return self._table.lsn

    @property
    def last_lsn(self) -> int:
        """Done when all that has ended so far is durable."""
        return self._table.last_lsn

    @property
    def done_through(self) -> int:
        """Log sequence numbers up to this one are done."""
        return self._table.done_through

    @property
    def is_idle(self) -> bool:
        """Whether all that has ended is durable, and what was carried is written."""
        return self._table.is_idle

    @property
    def rests(self) -> bool:
        """Whether no row is here, nor on its way from here to the store."""
        return self.phase is Phase.HOT and self._table.rests

    def oldest_ms(self) -> int | None:
        """Position of the oldest row that is not over."""
        return self._table.oldest_ms()

    def unsettled_ms(self) -> int | None:
        """Position of the oldest row that is not over, or whose end is not durable."""
        return self._table.unsettled_ms()

    def totals(self) -> Counter[int]:
        """Outcome -> how many rows of the partition ended so."""
        return self._table.totals()

    @property
    def foreign_rows(self) -> int:
        """Rows that this release must not deliver."""
        return len(self._table.foreign)

    @property
    def lacks(self) -> Collection[str]:
        """What this release would have to understand to deliver them."""
        return self._table.foreign.lacks

    # -- reading, for its pacing --------------------------------------------------------------------------------

    @property
    def reload(self) -> Reload | None:
        """The queue whose end is being read from the store again, if any."""
        return self._table.reload

    @property
    def cursor(self) -> int:
        """How far the commits of the store have been read."""
        return self._table.cursor

    @property
    def wants_more(self) -> bool:
        """Whether a queue was cut, and most of what it had in memory is gone."""
        return self._table.wants_more

    @property
    def settled_rows(self) -> int:
        """Rows that have ended and that the marks have not passed."""
        return self._table.settled_rows

    def lane_bytes(self, queue: QueueKey) -> int:
        """Bytes of the queue in memory."""
        return self._table.lane_bytes(queue)

    def lacking(self, rows: RowGroup) -> RowGroup:
        """Of a page of keys, in a store without cursors, what has not been met."""
        return self._table.lacking(rows)

    def mark(self, marks: Sequence[Mark]) -> None:
        """Takes in marks of a page before the page."""
        self._table.mark(marks)

    def tidy(self) -> bool:
        """Makes room, one run at a time. Returns whether there is more to do."""
        return self._table.tidy()

    def drop_all(self) -> None:
        """The partition is let go of."""
        self._table.drop_all()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _acquire(self, current: Control | None, now_ms: int, is_finishing: bool) -> Effects:
        if current is not None and (current.finished or not self._may_take(current)):
            self.phase = Phase.DONE if current.finished else Phase.REFUSED
            self.control = current
            return []
        return self._change(taken_over(self.partition, current, self._settings, now_ms, is_finishing), current)

    def _recover(self, control: Control, *, had_holder: bool) -> Effects:
        self.phase = Phase.RECOVER
        if self.partition.is_of_keys and had_holder:
            self._memory.order_keys.kept_shards.acquired(self.partition.shard)
        self.floor_ms = control.verified_ms
        self._sweep = Sweep(self.partition, control.verified_ms, self._settings.traits)
        self._table = self._table.of_token(control.token)
        return [ReadSettled(self.partition)]

    def _change(self, value: Control, expected: Control | None = None) -> Effects:
        self._changing = ChangeControl(self.partition, expected or self.control, value)
        return [self._changing]

    def _read_page(self, now_ms: int) -> Effects:
        """One read at a time."""
        closing_ms = self.control.closing_ms if self.control is not None else self.floor_ms
        return self._sweep.start(self.floor_ms, closing_ms, self._table.cursor, now_ms)

    def _swept(self, now_ms: int) -> Effects:
        """All pages are here. What was closed while they were read is scanned at once."""
        effects: Effects = []
        self._table.end_reload()
        if self.control is not None and self.control.closing_ms > self._sweep.scanned_ms:
            effects += self._read_page(now_ms)
        return [*effects, *self._table.ask_moves()]

    def _reload(self) -> Effects:
        """Brings in more of a queue that was cut, once most of what it had is gone."""
        from_ms = None if self._sweep.is_reading else self._table.begin_reload()
        return [] if from_ms is None else self._sweep.reload(from_ms)

    def _offload(self, now_ms: int, gates: Sequence[Gate]) -> None:
        """What nobody took by the lag limit goes to its queue's backlog."""
        if self.partition.scope != TIME_SCOPE or self._table.has_open_records:
            return
        limit_ms = self.known_ms(now_ms - self._settings.max_mark_lag_ms)
        if (self._table.oldest_waiting_ms() or now_ms) <= limit_ms:
            self._table.offload(limit_ms, self._settings.carry_batch, now_ms, since_ms=self.since_ms, gates=gates)

    def _mark(self, control: Control, now_ms: int) -> Effects:
        """One compare-and-set a second moves both marks; an idle partition is only swept."""
        end_ms = self.partition.end_ms
        closing = max(control.closing_ms, min(now_ms, end_ms)) if self.may_close else control.closing_ms
        if closing == end_ms and not self._flagged:
            return self._flag()
        verified = self.verifiable_ms()
        if verified == end_ms and self._table.is_idle and not self._sweep.is_reading:
            self.phase = Phase.COUNT
            return [CountRows(self.partition)]
        # Raised for nothing, `verified` would follow it: a transaction a second, and the store never rests.
        closing = closing if self._closes(control, closing) else control.closing_ms
        if (closing, verified) == (control.closing_ms, control.verified_ms):
            return self._read_page(now_ms)
        self.floor_ms = max(self.floor_ms, verified)
        verified = max(verified, control.verified_ms)
        return self._change(control.with_mark(closing, verified, self._table.counts_below(verified)))

    def _mark_every_ms(self, control: Control) -> int:
        every_ms = self._settings.mark_every_ms
        return min(AWAITED_MARK_MS, every_ms) if self._is_awaited(control) else every_ms

    def _is_awaited(self, control: Control) -> bool:
        """Whether a task of an ordering key is sent when `closing` has passed it."""
        return self._table.ordered.awaited_ms >= control.closing_ms

    def _release(self) -> Effects:
        """What is taken in from here on is at or above the floor, where the successor's scan meets it."""
        if self.control is None or self._changing is not None or not self._table.may_be_left:
            return self._table.flush()
        self.phase = Phase.RELEASE
        self.floor_ms = verified_ms = self.verifiable_ms()
        counts = self._table.counts_below(verified_ms)
        return self._change(self.control.released(self.successor, verified_ms, counts, self._rows_need))

    def _closes(self, control: Control, closing_ms: int) -> bool:
        """Whether anything asks for `closing` to be raised: something is open or ended, or the bucket is over."""
        is_met_again = self._sweep.is_wide(control.closing_ms, closing_ms) and self._table.others_wait
        return closing_ms > control.closing_ms and bool(
            is_met_again or closing_ms == self.partition.end_ms or self._table.is_stirred or self._is_awaited(control)
        )

    def _flag(self) -> Effects:
        if self._flagging:
            return []
        self._flagging = True
        return [FlagFinishing(self.partition)]


def is_outlasted(key: RowKey, lease_until_ms: int, now_ms: int) -> bool:
    """Whether a row that waits for the end of a lease is due before that. One that is due later waits long enough, and
    carried it would stay where it is."""
    return lease_until_ms > max(now_ms, key.position_ms)
