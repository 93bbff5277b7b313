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

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from timerd.core.asking import asked_about
from timerd.core.carry import retry_carry
from timerd.core.carrying import carry_on, guarded, park
from timerd.core.closing_open import end_open
from timerd.core.effects import ChangeControl, CountRows, Effects, FlagFinishing, ReadControl, ReadSettled
from timerd.core.holding import Asked, MayTake, Offered, Phase, Settings, anybodys, taken_over
from timerd.core.memory import Memory
from timerd.core.move_watch import MoveWatch
from timerd.core.reload import answers_beside, beside
from timerd.core.repeats import pass_ended, pass_written_twice
from timerd.core.rows_in_hand import RowsInHand
from timerd.core.settle_log import SettleLog
from timerd.core.sweep import Sweep, from_floor, is_stirred, others_wait
from timerd.core.taken import LAST, Again, Ended, QueueKey, Taken
from timerd.model.identity import RowKey
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.registers import Control, Move
from timerd.model.rows import FLAG_CARRIED, RowGroup
from timerd.model.settle import CarryReason, Outcome, SettleRecord
from timerd.model.storage import CasStatus, Page


class PartitionMachine:
    """One holder's view of one partition. Methods named after a fact take its result; all return effects to perform.
    `may_take`: whether the holder that a control row names may be succeeded."""

    def __init__(self, partition: Partition, settings: Settings, memory: Memory, may_take: MayTake = anybodys) -> None:
        self.partition = partition
        self.phase = Phase.ACQUIRE
        # When it was taken over.
        self.since_ms = 0
        self.control: Control | None = None
        self.floor_ms = partition.bucket_ms
        self.log = SettleLog(partition, 0, settings.remembered)
        self.rows = RowsInHand(memory, self.log.settled)
        self.inserted = 0
        self._settings = settings
        self._memory = memory
        self._may_take = may_take
        self.successor = ""
        self._changing: ChangeControl | None = None
        self.sweep = Sweep(partition, partition.bucket_ms)
        self._moves = MoveWatch(partition)
        self._marked_ms = 0
        self._flagged = self._flagging = False
        self._recounts = settings.recounts
        # A backlog partition closes only after its home has been verified to the end.
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
            return self._recover(change.value)
        if self.phase in (Phase.COUNT, Phase.RELEASE):
            self.phase = Phase.DONE if self.phase is Phase.COUNT else Phase.HANDED_OVER
            self.rows.drop_all()
            return []
        self.log.forget_below(change.value.verified_ms)
        self.rows.canaries = 0
        return self._read_page(now_ms)

    def settled_read(self, records: Sequence[SettleRecord], now_ms: int) -> Effects:
        if self.phase is not Phase.RECOVER or self.control is None:
            return []
        self.log.recover(records, self.control.verified_ms, self.control.counts)
        self.phase, self.since_ms = Phase.LOAD, now_ms
        return self._read_page(now_ms)

    def page_read(self, page: Page, now_ms: int) -> Effects:
        """`page.groups` may bring rows again; marks come before the rows of the same page."""
        if self.phase.is_over:
            return []
        known = self.phase, self.sweep.loaded_ms
        self.rows.mark(page.marks)
        for group in page.groups if self.phase is Phase.LOAD else ():
            self.log.complete(group)
        self.rows.merge(*(from_floor(group, self.floor_ms) for group in page.groups))
        if self.rows.reloading is None:
            self.rows.forget_hints(page.cursor)
        effects = self.sweep.turned(page)
        is_over = not effects
        if self.phase is Phase.LOAD and (is_over or (not self.log.unfinished and self.sweep.is_ahead(now_ms))):
            self.phase = Phase.HOT
            effects += self.log.recarry(self.rows.verdicts, self.rows.suspended)
        if known != (self.phase, self.sweep.loaded_ms):
            self._memory.touched.update(self.rows.waiting.queues())
        return [*effects, *self._swept(now_ms)] if is_over else effects

    def lose(self) -> Effects:
        """Somebody else holds the partition, or may."""
        self.phase = Phase.LOST
        self.rows.drop_all()
        return []

    # -- what comes from outside ----------------------------------------------------------------------------------

    def hint(self, rows: RowGroup, source: int, *, may_repeat: bool = False) -> None:
        """Rows just written at or after `closing`. May be ignored: the sweep finds them. They may come again from other
        instances, and carried ones from anywhere: whoever writes those begins anew after an error."""
        if self.phase.takes_in and len(rows := beside(self.rows.reloading, from_floor(rows, self.floor_ms))):
            again = may_repeat or self.partition.scope != TIME_SCOPE or (rows.columns["flags"] & FLAG_CARRIED).any()
            (self.rows.adopt if again else self.rows.hint)(rows, source)

    def offer(self, rows: RowGroup, source: int, *, is_repeat: bool = False) -> Offered:
        """Rows just written below `closing`: whether this holder takes them in. What was refused once is never fired
        from that place: its writer writes it again."""
        if is_repeat and (self.phase in (Phase.ACQUIRE, Phase.RECOVER) or self.rows.reloading is not None):
            return Offered.NOT_NOW
        keys = rows.keys()
        refused = not self.phase.takes_in or any(
            key.position_ms < self.floor_ms or key in self.rows.row_verdicts for key in keys
        )
        refused = refused or self._were_refused(keys)
        if not refused and source and source <= self.rows.cursor:
            return Offered.ALREADY_HAVE
        if refused or len(beside(self.rows.reloading, rows)) < len(rows):
            later = [key for key in keys if key.position_ms >= self.floor_ms and self.ask(key)[0] is not Asked.OPEN]
            self.rows.row_verdicts.update(dict.fromkeys(later, Outcome.FORWARDED))
            return Offered.BELOW_FLOOR
        self.rows.adopt(rows, source)
        return Offered.ADOPTED

    def ask(self, key: RowKey) -> tuple[Asked, Outcome | None]:
        """What this holder knows of a row (core/asking.py)."""
        if not self.phase.answers:
            return Asked.UNKNOWN, None
        return asked_about(self.rows, self.log, self.floor_ms, self.sweep.loaded_ms, key)

    def cancel(self, key: RowKey, outcome: Outcome, request: bytes) -> bytes:
        """Remembers the verdict, for rows not yet known as well. Returns the request that gave it first."""
        return self.rows.verdicts.give(key, outcome, request)

    def end_waiting(self, key: RowKey, outcome: Outcome) -> None:
        """The row waits and its verdict is durable: it is over now, not when its instant comes."""
        self.log.end_met([(key, outcome)])

    def suspend(self, digest: bytes) -> None:
        """A mover asks: the row fires only after `moves` has been read again."""
        self.rows.suspend(digest)
        self._moves.forget(digest)

    def recheck(self, digest: bytes) -> Effects:
        """The move of a suspended row may have been decided."""
        return self._moves.ask_again([digest]) if self.phase is Phase.HOT else []

    def moves_read(self, moves: Mapping[bytes, Move | None], asked: Mapping[bytes, int]) -> Effects:
        """`asked`: the value of `asking` when the read began; a later ask wins over this answer."""
        self._moves.answered(moves)
        moves = answers_beside(self.rows.reloading, self.rows.aside, moves)
        stale = {digest for digest in moves if self.asking(digest) != asked.get(digest, 0)}
        effects, alive = self._moves.decided(moves, stale)
        for digest, generations in alive.items():
            self.log.end_met(self.rows.settle_aside(digest, generations))
        return [*effects, *self.log.flush()]

    def asking(self, digest: bytes) -> int:
        return self.rows.suspended.get(digest, 0)

    # -- firing and settling --------------------------------------------------------------------------------------

    def known_ms(self, now_ms: int) -> int:
        """How far what is due may be sent: what has not been read may have marks."""
        return min(now_ms, self.sweep.loaded_ms - 1)

    def take(self, queue: QueueKey, limit: int, now_ms: int, *, expires: bool = True, upto: int = LAST) -> Taken | None:
        """Due rows, in order; they are open from here on. Clock and lease are trusted, or nobody asks."""
        if self.phase is not Phase.HOT or self.control is None:
            return None
        pass_over = pass_ended if self._settings.remembered else pass_written_twice
        met, past = partial(pass_over, self.log), now_ms if expires else 0
        rows, digests, ended = self.rows.take(queue, limit, self.known_ms(now_ms), past_ms=past, upto=upto, met=met)
        self.log.end_met(ended)
        if rows is None or not digests:
            return None
        self.rows.send(rows, digests, now_ms)
        return Taken(self.partition, self.control.token, rows, digests)

    def end(self, ended: Iterable[Ended]) -> tuple[int, list[Ended]]:
        """(ticket that is done when this is durable, what was not open here: it was carried on meanwhile)."""
        endings, missing = end_open(self.rows, ended)
        self.log.end(endings)
        return self.log.ticket if endings else self.log.done_through, missing

    def again(self, failed: Iterable[Again]) -> int:
        """Carries each as its next attempt, unless it was cancelled meanwhile. Returns the ticket."""
        carry_on(self.rows, self.log, (retry_carry(self.partition, item) for item in failed))
        return self.log.newest_ticket

    def guard(self, leases: Mapping[RowKey, int], now_ms: int, reason: CarryReason, *, was_sent: bool = True) -> int:
        """Carries open rows to the end of their lease: at the lag limit, or at a graceful stop. Returns the ticket."""
        carries = (
            guarded(self.log, key, until_ms, now_ms, reason, was_sent=was_sent) for key, until_ms in leases.items()
        )
        carry_on(self.rows, self.log, carries)
        return self.log.newest_ticket

    def flush(self) -> Effects:
        """The record of what ended since the last one, unless one is on its way."""
        return self.log.flush()

    def settled_written(self, record: SettleRecord) -> Effects:
        return self.log.settled_written(record.sequence)

    def carried_written(self, sequence: int) -> None:
        self.log.carried_written(sequence)

    # -- marks ----------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> Effects:
        """Called every 100 ms or so: settles, sweeps, moves the marks, carries what is too old."""
        if self.phase is Phase.HAND_OVER:
            return self._release()
        if self.phase is not Phase.HOT or self.control is None:
            return []
        self.log.forget_below(self.control.verified_ms)
        self._park(now_ms)
        effects = [*self.log.flush(), *self._reload(), *self._ask_moves()]
        if self._changing is None and now_ms - self._marked_ms >= self._settings.mark_every_ms:
            self._marked_ms = now_ms
            effects += self._mark(self.control, now_ms)
        return effects

    def hand_over(self, successor: str) -> Effects:
        """Sends nothing more; what is open is to be carried. Once all is settled, nobody holds the partition. Rows that
        an earlier holder carried are written first."""
        if self.phase is Phase.HOT or (self.phase is Phase.LOAD and not self.log.has_unfinished):
            self.phase, self.successor = Phase.HAND_OVER, successor
        return self.log.flush()

    def laggards(self, now_ms: int) -> list[RowKey]:
        """Open rows that hold the mark back too long: the shell answers with `guard`."""
        if len(self.log.settled) > self._settings.max_settled:
            return list(self.rows.open_first(now_ms - self._settings.stuck_after_ms))
        return list(self.rows.open_since(now_ms - self._settings.max_mark_lag_ms))

    def flagged(self) -> Effects:
        self._flagging = False
        self._flagged = True
        return []

    def counted(self, rows: int, now_ms: int, forwards: int = 0) -> Effects:
        """The key-only scan, and how many of its rows point elsewhere: what it has more than ended is unexplained."""
        self.inserted = rows
        if self.control is None or self._changing is not None:
            return []
        self.log.count_forwards(rows, forwards)
        end_ms = self.partition.end_ms
        if rows > self.log.totals().total() and self._recounts:
            self._recounts -= 1
            return [CountRows(self.partition, again=True)]
        return self._change(self.control.with_end(end_ms, now_ms, rows, self.log.counts_below(end_ms)))

    def verifiable_ms(self) -> int:
        """How far `verified` may go: scanned, and nothing older open."""
        if self.log.recovers:
            return self.floor_ms
        held = [ms for ms in (self.rows.oldest_ms(), self.log.oldest_ms()) if ms is not None]
        return max(self.floor_ms, min([self.sweep.scanned_ms, *held]))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _acquire(self, current: Control | None, now_ms: int, is_finishing: bool) -> Effects:
        if current is not None and (current.finished or not self._may_take(current)):
            self.phase = Phase.DONE if current.finished else Phase.REFUSED
            self.control = current
            return []
        return self._change(taken_over(self.partition, current, self._settings, now_ms, is_finishing), current)

    def _recover(self, control: Control) -> Effects:
        self.phase = Phase.RECOVER
        self.floor_ms = control.verified_ms
        self.sweep = Sweep(self.partition, control.verified_ms)
        self.log = SettleLog(self.partition, control.token, self._settings.remembered)
        refused = self.rows.row_verdicts
        self.rows = RowsInHand(self._memory, self.log.settled)
        self.rows.row_verdicts = refused
        return [ReadSettled(self.partition)]

    def _change(self, value: Control, expected: Control | None = None) -> Effects:
        self._changing = ChangeControl(self.partition, expected or self.control, value)
        return [self._changing]

    def _were_refused(self, keys: Sequence[RowKey]) -> bool:
        """One of them by an earlier holder, and its writer has not said where it goes."""
        settled = self.log.settled
        return settled.knows_any(keys) and any(settled.get(key) is Outcome.FORWARDED for key in keys)

    def _read_page(self, now_ms: int) -> Effects:
        """One read at a time."""
        closing_ms = self.control.closing_ms if self.control is not None else self.floor_ms
        return self.sweep.start(self.floor_ms, closing_ms, self.rows.cursor, now_ms)

    def _swept(self, now_ms: int) -> Effects:
        """All pages are here. What was closed while they were read is scanned at once."""
        effects: Effects = []
        if self.rows.reloading is not None:
            self.rows.end_reload()
        if self.control is not None and self.control.closing_ms > self.sweep.scanned_ms:
            effects += self._read_page(now_ms)
        return [*effects, *self._ask_moves()]

    def _reload(self) -> Effects:
        """Brings in more of a queue that was cut, once most of what it had is gone."""
        queue = None if self.sweep.is_reading else self.rows.thin_queue()
        return [] if queue is None else self.sweep.reload(self.rows.begin_reload(queue))

    def _park(self, now_ms: int) -> None:
        """What nobody took by the lag limit goes to its queue's backlog."""
        if self.partition.scope != TIME_SCOPE or self.log.has_open:
            return
        limit_ms = self.known_ms(now_ms - self._settings.max_mark_lag_ms)
        if (self.rows.waiting.oldest_ms() or now_ms) <= limit_ms:
            park(self.rows, self.log, limit_ms, self._settings.carry_batch)

    def _mark(self, control: Control, now_ms: int) -> Effects:
        """One compare-and-set a second moves both marks; an idle partition is only swept."""
        end_ms = self.partition.end_ms
        closing = max(control.closing_ms, min(now_ms, end_ms)) if self.may_close else control.closing_ms
        if closing == end_ms and not self._flagged:
            return self._flag()
        verified = self.verifiable_ms()
        if verified == end_ms and self.log.is_idle and not self.sweep.is_reading:
            self.phase = Phase.COUNT
            return [CountRows(self.partition)]
        # Raised for nothing, `verified` would follow it: a transaction a second, and the store never rests.
        closing = closing if self._closes(control, closing) else control.closing_ms
        if (closing, verified) == (control.closing_ms, control.verified_ms):
            return self._read_page(now_ms)
        self.floor_ms = max(self.floor_ms, verified)
        verified = max(verified, control.verified_ms)
        return self._change(control.with_mark(closing, verified, self.log.counts_below(verified)))

    def _release(self) -> Effects:
        """What is taken in from here on is at or above the floor, where the successor's scan meets it."""
        if self.control is None or self._changing is not None or self.rows.open or not self.log.may_be_left:
            return self.log.flush()
        self.phase = Phase.RELEASE
        self.floor_ms = verified_ms = self.verifiable_ms()
        counts = self.log.counts_below(verified_ms)
        return self._change(self.control.released(self.successor, self.control.closing_ms, verified_ms, counts))

    def _closes(self, control: Control, closing_ms: int) -> bool:
        """Whether anything asks for `closing` to be raised: something is open or ended, or the bucket is over."""
        is_met_again = self.sweep.is_wide(control.closing_ms, closing_ms) and others_wait(self.rows)
        return closing_ms > control.closing_ms and bool(
            is_met_again or closing_ms == self.partition.end_ms or is_stirred(self.rows, self.log.settled)
        )

    def _flag(self) -> Effects:
        if self._flagging:
            return []
        self._flagging = True
        return [FlagFinishing(self.partition)]

    def _ask_moves(self) -> Effects:
        return self._moves.ask(self.rows.aside)
