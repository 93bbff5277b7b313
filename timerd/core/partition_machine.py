"""The life of one held partition (protocol section 4): acquire, load, fire, settle, close, verify, finish.

    ACQUIRE --cas token--> RECOVER --settle records--> LOAD --all pages--> HOT --end, all settled--> COUNT --cas--> DONE
       any --refused--> LOST

Two marks in the control row, both fenced by the token. `closing`: rows below it are no longer taken in without asking
the holder; raised first, then the partition is scanned once more, so nothing written below it can be missed.
`verified`: all below it is over; a new holder starts there. The floor rises in the step that decides to move
`verified`, before the compare-and-set is sent, so that nothing is adopted below it meanwhile.

Facts and `now_ms` in, effects out; the shell (services/scheduler.py) performs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from timerd.core.carry import backlog_of, carried_row, guard_carry, retry_carry
from timerd.core.effects import (
    AskMoves,
    ChangeControl,
    CountRows,
    Effects,
    FailMove,
    FlagFinishing,
    ReadControl,
    ReadPage,
    ReadSettled,
)
from timerd.core.holding import Asked, Offered, Phase, Settings
from timerd.core.memory import Memory
from timerd.core.rows_in_hand import RowsInHand
from timerd.core.settle_log import SettleLog
from timerd.core.taken import Again, Ended, QueueKey, Taken
from timerd.model.identity import RowKey, generation_of
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.registers import Control, Move, MoveState
from timerd.model.rows import RowGroup
from timerd.model.settle import CarryReason, Outcome, SettleRecord
from timerd.model.storage import CasStatus, Page

# A mover that has not decided after so many looks, one every tick, is taken for dead.
MOVER_PATIENCE = 10


class PartitionMachine:
    """One holder's view of one partition. Methods named after a fact take its result; all return effects to perform."""

    def __init__(self, partition: Partition, settings: Settings, memory: Memory) -> None:
        self.partition = partition
        self.phase = Phase.ACQUIRE
        self.control: Control | None = None
        self.floor_ms = partition.bucket_ms
        self.log = SettleLog(partition, 0)
        self.rows = RowsInHand(memory, self.log.settled)
        self.inserted = 0
        self._settings = settings
        self._memory = memory
        self._changing: ChangeControl | None = None
        self._reading: QueueKey | bool | None = False
        self._scanned_ms = partition.bucket_ms
        self._closing_scan_ms: int | None = None
        self._marked_ms = 0
        self._flagged = False
        self._flagging = False
        self._asked: dict[bytes, int] = {}
        # Of earlier holders: carried to the backlog, maybe without the row.
        self._parked: set[RowKey] = set()
        self._cut_before: tuple[int, int] | None = None
        # A backlog partition closes only after its home has been verified to the end.
        self.may_close = partition.scope == TIME_SCOPE

    # -- acquiring and loading ------------------------------------------------------------------------------------

    def start(self) -> Effects:
        return [ReadControl(self.partition)]

    def control_read(self, current: Control | None, now_ms: int) -> Effects:
        """A serial read: before the first change, and to settle an unknown outcome."""
        if self._changing is None:
            return self._acquire(current, now_ms) if self.phase is Phase.ACQUIRE else []
        if current == self._changing.value:
            return self.control_changed(CasStatus.APPLIED, now_ms)
        if current == self._changing.expected:
            return [self._changing]
        return self._lose()

    def control_changed(self, status: CasStatus, now_ms: int) -> Effects:
        if status is CasStatus.UNKNOWN:
            return [ReadControl(self.partition)]
        change, self._changing = self._changing, None
        if status is CasStatus.REFUSED or change is None:
            return self._lose()
        self.control = change.value
        if self.phase is Phase.ACQUIRE:
            return self._recover(change.value)
        if self.phase is Phase.COUNT:
            self.phase = Phase.DONE
            self.rows.drop_all()
            return []
        self._closing_scan_ms = change.value.closing_ms
        self.log.forget_below(change.value.verified_ms)
        return self._read_page()

    def settled_read(self, records: Sequence[SettleRecord], now_ms: int) -> Effects:
        if self.phase is not Phase.RECOVER or self.control is None:
            return []
        self.log.recover(records, self.control.verified_ms, self.control.counts)
        self._parked = self.log.settled.keys_with(Outcome.PARKED)
        self.phase = Phase.LOAD
        return self._read_page()

    def page_read(self, page: Page, now_ms: int) -> Effects:
        """`page.groups` may bring rows again; marks come before the rows of the same page."""
        only = self._reading if isinstance(self._reading, QueueKey) else None
        self._reading = False
        if self.phase in (Phase.LOST, Phase.DONE):
            return []
        self.rows.mark(page.marks)
        for group in page.groups:
            self._complete_carries(group)
            self.rows.merge(group, only)
        if not page.done:
            return self._read_page(only, page.cursor)
        if only is not None:
            return self._reloaded(only)
        self.rows.forget_hints(page.cursor)
        if self._closing_scan_ms is not None:
            self._scanned_ms, self._closing_scan_ms = self._closing_scan_ms, None
        if self.phase is Phase.LOAD:
            self.phase = Phase.HOT
            self._parked = set()
        return [*self.log.recarry(), *self._ask_moves()]

    # -- what comes from outside ----------------------------------------------------------------------------------

    def hint(self, rows: RowGroup, source: int) -> None:
        """Rows just written at or after `closing`. May be ignored: the sweep finds them."""
        if self.phase in (Phase.LOAD, Phase.HOT) and not isinstance(self._reading, QueueKey):
            self.rows.hint(rows, source)

    def offer(self, rows: RowGroup, source: int) -> Offered:
        """Rows just written below `closing`: whether this holder takes them in."""
        if self.phase is not Phase.HOT or isinstance(self._reading, QueueKey):
            return Offered.BELOW_FLOOR
        if int(rows.columns["position_ms"].min()) < self.floor_ms:
            return Offered.BELOW_FLOOR
        if source and source <= self.rows.cursor:
            return Offered.ALREADY_HAVE
        self.rows.hint(rows, source)
        return Offered.ADOPTED

    def ask(self, key: RowKey) -> tuple[Asked, Outcome | None]:
        """What this holder knows of a row; the version of `key` is that of the row found in the store."""
        if self.phase is not Phase.HOT:
            return Asked.UNKNOWN, None
        if self.rows.is_open(key):
            return Asked.OPEN, None
        outcome = self.log.settled.get(key) or self.rows.verdict(key)
        if outcome is not None:
            return Asked.ENDED, outcome
        return (Asked.UNKNOWN, None) if key.position_ms < self.floor_ms else (Asked.WAITING, None)

    def cancel(self, digest: bytes, outcome: Outcome, request: bytes) -> bytes:
        """Remembers the verdict, for rows not yet known as well. Returns the request that gave it (maybe an earlier
        one)."""
        return self.rows.verdicts.setdefault(digest, (outcome, request))[1]

    def suspend(self, digest: bytes) -> None:
        """A mover asks: the row fires only after `moves` has been read again."""
        self.rows.suspended[digest] = self.rows.suspended.get(digest, 0) + 1
        self._asked.pop(digest, None)

    def recheck(self, digest: bytes) -> Effects:
        """The move of a suspended row was decided, or may have been."""
        return [AskMoves(self.partition, [digest])] if self.phase is Phase.HOT else []

    def moves_read(self, moves: Mapping[bytes, Move | None], asked: Mapping[bytes, int]) -> Effects:
        """`asked`: the value of `asking` when the read began; a later ask wins over this answer."""
        effects: Effects = []
        for digest, move in moves.items():
            if asked.get(digest, 0) != self.asking(digest):
                effects.append(AskMoves(self.partition, [digest]))
            elif move is not None and move.state is MoveState.MOVING:
                effects += self._wait_for_move(digest, move)
            else:
                self._asked.pop(digest, None)
                alive, number = (0, 0) if move is None else (generation_of(move.place.key.version), move.generation)
                self.log.end(self.rows.settle_aside(digest, alive, number))
        return [*effects, *self.log.flush()]

    def asking(self, digest: bytes) -> int:
        return self.rows.suspended.get(digest, 0)

    # -- firing and settling --------------------------------------------------------------------------------------

    def take(self, queue: QueueKey, limit: int, now_ms: int) -> Taken | None:
        """Due rows, in order; they are open from here on. The shell has checked that the clock and the lease are
        trusted."""
        if self.phase is not Phase.HOT or self.control is None:
            return None
        rows, digests, ended = self.rows.take(queue, limit, now_ms)
        self.log.end(ended)
        if rows is None or not digests:
            return None
        self.rows.send(rows, digests)
        return Taken(self.partition, self.control.token, rows, digests)

    def end(self, ended: Iterable[Ended]) -> tuple[int, list[Ended]]:
        """(ticket that is done when this is durable, what was not open here: it was carried on meanwhile)."""
        endings, missing = [], []
        for item in ended:
            if self.rows.close(item.key.digest) is not None:
                endings.append((item.key, item.outcome))
            else:
                missing.append(item)
        self.log.end(endings)
        return self.log.ticket if endings else self.log.done_through, missing

    def again(self, failed: Iterable[Again]) -> int:
        """Carries each as its next attempt, unless it was cancelled meanwhile. Returns the ticket."""
        before = self.log.ticket if self.log.has_news else self.log.done_through
        for item in failed:
            found = self.rows.close(item.key.digest)
            if found is None:
                continue
            verdict = self.rows.verdict(item.key)
            if verdict is not None:
                self.log.end([(item.key, verdict)])
                continue
            carry = retry_carry(self.partition, item)
            self.log.carry(carry, (carry.target, carried_row(*found, self.partition, carry)))
        return self.log.ticket if self.log.has_news else before

    def guard(self, leases: Mapping[RowKey, int], now_ms: int, reason: CarryReason) -> int:
        """Carries open rows to the end of their lease: at the lag limit, or at a graceful stop."""
        for key, lease_until_ms in leases.items():
            found = self.rows.close(key.digest) if self.rows.is_open(key) else None
            if found is not None:
                carry = guard_carry(self.partition, key, lease_until_ms, now_ms, reason)
                self.log.carry(carry, (carry.target, carried_row(*found, self.partition, carry)))
        return self.log.ticket

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
        if self.phase is not Phase.HOT or self.control is None:
            return []
        self.log.forget_below(self.control.verified_ms)
        self._park(now_ms)
        effects = [*self.log.flush(), *self._reload(), *self._ask_moves()]
        if self._changing is None and now_ms - self._marked_ms >= self._settings.mark_every_ms:
            self._marked_ms = now_ms
            effects += self._mark(self.control, now_ms)
        return effects

    def laggards(self, now_ms: int) -> list[RowKey]:
        """Open rows that hold the mark back too long: the shell answers with `guard`."""
        if len(self.log.settled) > self._settings.max_settled:
            return list(self.rows.open_before(self.floor_ms + self._settings.mark_every_ms))
        return list(self.rows.open_before(now_ms - self._settings.max_mark_lag_ms))

    def flagged(self) -> Effects:
        self._flagging = False
        self._flagged = True
        return []

    def counted(self, rows: int, now_ms: int) -> Effects:
        """The key-only scan: what it counts more than has ended is unexplained."""
        self.inserted = rows
        if self.control is None or self._changing is not None:
            return []
        value = replace(self.control, finished=True, inserted=rows, counts=self._counts(self.partition.end_ms))
        return self._change(value)

    def verifiable_ms(self) -> int:
        """How far `verified` may go: scanned, and nothing older open."""
        if self.log.recovers:
            return self.floor_ms
        held = [ms for ms in (self.rows.oldest_ms(), self.log.oldest_ms()) if ms is not None]
        return max(self.floor_ms, min([self._scanned_ms, *held]))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _acquire(self, current: Control | None, now_ms: int) -> Effects:
        if current is not None and current.finished:
            self.phase = Phase.DONE
            self.control = current
            return []
        # Never lower than the wall's seconds: a restored backup must not restart below a token that workers have seen.
        token = max((current.token if current else 0) + 1, now_ms // 1000)
        start = self.partition.bucket_ms
        base = current or Control(0, "", "", start, start)
        value = replace(base, token=token, holder=self._settings.holder, address=self._settings.address)
        return self._change(value, current)

    def _recover(self, control: Control) -> Effects:
        self.phase = Phase.RECOVER
        self.floor_ms = self._scanned_ms = control.verified_ms
        self.log = SettleLog(self.partition, control.token)
        self.rows = RowsInHand(self._memory, self.log.settled)
        return [ReadSettled(self.partition)]

    def _lose(self) -> Effects:
        self.phase = Phase.LOST
        self.rows.drop_all()
        return []

    def _change(self, value: Control, expected: Control | None = None) -> Effects:
        self._changing = ChangeControl(self.partition, expected or self.control, value)
        return [self._changing]

    def _read_page(self, only: QueueKey | None = None, cursor: int | None = None) -> Effects:
        """One read at a time: rows that are dropped while a queue is reloaded are on the next sweep."""
        if self._reading is not False:
            return []
        self._reading = only if only is not None else True
        lo_ms = self.rows.withheld[only][0] if only is not None else self.floor_ms
        at = cursor if cursor is not None else (0 if only is not None else self.rows.cursor)
        return [ReadPage(self.partition, lo_ms, self.partition.end_ms, at)]

    def _reload(self) -> Effects:
        """Brings in more of a queue that was cut, once most of what it had is gone."""
        for queue in self.rows.withheld:
            own = self.rows.waiting.lane_bytes(queue)
            if own <= self._memory.share_bytes(queue, own) // 4 and self._reading is False:
                self._cut_before = self.rows.withheld[queue]
                return self._read_page(queue)
        return []

    def _reloaded(self, queue: QueueKey) -> Effects:
        if self.rows.withheld.get(queue) == self._cut_before:
            del self.rows.withheld[queue]
        return []

    def _complete_carries(self, group: RowGroup) -> None:
        """Rows that an earlier holder carried: the record is durable, the row may not be."""
        if self.phase is not Phase.LOAD or not (self.log.carries or self._parked):
            return
        for n, key in enumerate(group.keys()):
            carry = self.log.carries.get(key)
            if carry is not None:
                self.log.again((carry.target, carried_row(group, n, self.partition, carry)))
            elif key in self._parked:
                row = group.select(slice(n, n + 1)).compact()
                self.log.again((backlog_of(row, self.partition), row))

    def _park(self, now_ms: int) -> None:
        """What nobody took by the lag limit goes to its queue's backlog."""
        if self.partition.scope != TIME_SCOPE or self.log.oldest_ms() is not None:
            return
        limit_ms = now_ms - self._settings.max_mark_lag_ms
        if (self.rows.waiting.oldest_ms() or now_ms) > limit_ms:
            return
        for queue in list(self.rows.waiting.queues()):
            rows, digests, ended = self.rows.take(queue, self._settings.carry_batch, limit_ms)
            self.log.end(ended)
            if rows is not None and digests:
                self.log.park(rows.keys(), (backlog_of(rows, self.partition), rows.compact()))

    def _mark(self, control: Control, now_ms: int) -> Effects:
        """One compare-and-set a second moves both marks; an idle partition is only swept."""
        end_ms = self.partition.end_ms
        closing = max(control.closing_ms, min(now_ms, end_ms)) if self.may_close else control.closing_ms
        if closing == end_ms and not self._flagged:
            return self._flag()
        verified = self.verifiable_ms()
        if verified == end_ms and self.log.is_idle and self._reading is False:
            self.phase = Phase.COUNT
            return [CountRows(self.partition)]
        idle = verified == control.verified_ms and not self._closes(control, closing)
        if idle:
            return self._read_page()
        self.floor_ms = max(self.floor_ms, verified)
        verified = max(verified, control.verified_ms)
        return self._change(control.with_mark(closing, verified, self._counts(verified)))

    def _closes(self, control: Control, closing_ms: int) -> bool:
        """Whether anything asks for `closing` to be raised: something is open or ended, or the bucket is over."""
        return closing_ms > control.closing_ms and (
            closing_ms == self.partition.end_ms or bool(self.rows.open) or len(self.log.settled) > 0
        )

    def _flag(self) -> Effects:
        if self._flagging:
            return []
        self._flagging = True
        return [FlagFinishing(self.partition)]

    def _counts(self, verified_ms: int) -> tuple[tuple[int, int], ...]:
        counts = self.log.counts_below(verified_ms)
        return tuple(sorted((int(outcome), n) for outcome, n in counts.items()))

    def _ask_moves(self) -> Effects:
        digests = list(dict.fromkeys(key.digest for key in self.rows.aside))
        return [AskMoves(self.partition, digests)] if digests else []

    def _wait_for_move(self, digest: bytes, move: Move) -> Effects:
        """Its mover needs milliseconds; one that left is not waited for."""
        self._asked[digest] = self._asked.get(digest, 0) + 1
        if self._asked[digest] <= MOVER_PATIENCE:
            return []
        return [FailMove(self.partition, digest, move)]
