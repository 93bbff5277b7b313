"""Histories of a schedule whose tasks must not run beside each other: each task begins, and ends at any time later,
first in the memory of its holder, which a crash may take back, then for good. Callers trigger it on the way. A holder
that has come after a crash knows of no delivery until its worker is back with it.

S5 is judged when a task is created: no other one may be open. An instant may be passed over, or wait, only if another
one was open when its time came, or later.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tests.property.world import done
from tests.schedules.histories import END_MS, START_MS, Broken, History, Periods, Process, Row
from timerd.core.partition import Asked
from timerd.core.protocol import (
    AskInHand,
    AskMayReturn,
    AskToEnd,
    AskToMove,
    Cancelled,
    Ending,
    FindSettled,
    HolderAnswer,
    Procedure,
    Request,
    end_task,
)
from timerd.core.schedules.hinted import hinted
from timerd.core.schedules.spec_times import SpecTimes
from timerd.core.schedules.triggering import trigger
from timerd.model.identity import RowKey, TaskId
from timerd.model.occurrences import Reason
from timerd.model.overlap import Overlap
from timerd.model.partition import Partition
from timerd.model.registers import Move, MoveState, Table, move_key
from timerd.model.rows import RowGroup
from timerd.model.schedules import Definition, Schedule, ScheduleState
from timerd.model.settle import Outcome
from timerd.model.storage import Cas, CasResult, CasStatus, Found, MarkKind

# Of a thousand that wait one begins every ten seconds.
LATEST_MS = END_MS + 10_000_000


class UntilTheEnd(Periods):
    """There is no instant behind it that would look at what waits."""

    def after(self, instant_ms: int, count: int) -> list[int]:
        return [each for each in super().after(instant_ms, count) if each <= END_MS]


@dataclass(eq=False)
class OverlapHistory(History):
    """`overlap` is not ALLOW."""

    triggers: int = 2
    undone: int = 2
    # Of partitions, after a crash of their holder.
    takeovers: int = 0
    # What a worker has since before one, and has not come back with.
    away: set[RowKey] = field(default_factory=set)
    # Of callers, who cancel what the schedule names as open.
    cancels: int = 0
    # Of which CANCELLED was said.
    cancelled: set[bytes] = field(default_factory=set)
    # How each has ended, in the memory of its holder; when it ended for good.
    ended: dict[RowKey, Outcome] = field(default_factory=dict)
    durable_ms: dict[RowKey, int] = field(default_factory=dict)
    passed: set[int] = field(default_factory=set)

    @property
    def rest_ms(self) -> int:
        """What waits is looked at every ten seconds. As long as one of it ends, the next one has its time."""
        last_ms = max(self.durable_ms.values(), default=0)
        return max(END_MS + 250_000, min(last_ms + 60_000, LATEST_MS))

    def _times(self, schedule_id: str, it: Definition) -> SpecTimes:
        return UntilTheEnd(self.every_ms[int(it.payload)])

    # -- what happens ---------------------------------------------------------------------------------------------

    def _something(self) -> None:
        if self.random.random() < 0.12:
            self._live()
        elif self.triggers and self.random.random() < 0.01 and self.forces:
            self.triggers -= 1
            request = f"trigger {self.triggers}"
            self._call(lambda: trigger(self.name, request, self.world))
        elif self.takeovers and self.random.random() < 0.02:
            self._take_over()
        elif self.cancels and self.random.random() < 0.02:
            self._cancel()
        elif self.random.random() < 0.02 and self.forces:
            self.processes.append(Process(hinted(self.name.namespace, self.name.schedule_id, self.world)))
        else:
            super()._something()

    def _cancel(self) -> None:
        [stored] = done(self.store.read([self.name.key]))
        opened = Schedule.from_bytes(stored).overlap.open if stored is not None else None
        if opened is not None:
            self.cancels -= 1
            request = b"cancel %d" % self.cancels
            self._call(lambda: self._cancelled(opened.task, request))

    def _cancelled(self, task: TaskId, request: bytes) -> Procedure[None]:
        if (yield from end_task(task, Outcome.CANCELLED, request)) is Cancelled.CANCELLED:
            self.cancelled.add(task.digest)

    def _take_over(self) -> None:
        """What ended durably is known to the next holder, what a worker has is not."""
        in_work = {key for key in self.fired if key not in self.ended} - self.away
        self.takeovers -= bool(in_work)
        self.away |= in_work

    def _return(self, key: RowKey) -> None:
        """Its worker is back, and gives up what a call has ended."""
        self.away.remove(key)
        if key in self.durable_ms:
            self._for_good(key)

    def _live(self) -> None:
        """A step in the life of a task that has begun."""
        living = [key for key in self.fired if key not in self.durable_ms or key in self.away]
        if not living:
            return
        key = self.random.choice(living)
        if key in self.away:
            self._return(key)
        elif key not in self.ended:
            self.ended[key] = Outcome.ACKED
        elif self.undone and self.random.random() < 0.5:
            self.undone -= 1
            del self.ended[key]
        else:
            self._for_good(key)

    def _for_good(self, key: RowKey) -> None:
        self.durable_ms[key] = self.now_ms
        self.log.append(f"{self.now_ms - START_MS} ended {self.rows[key].said.instant_ms - START_MS}")

    def _go_on(self) -> None:
        super()._go_on()
        for key in [*self.away]:
            self._return(key)
        for key in self.fired:
            if key not in self.durable_ms:
                self.ended.setdefault(key, Outcome.ACKED)
                self._for_good(key)

    def _may_fire(self, key: RowKey) -> bool:
        return key not in self.ended and super()._may_fire(key)

    def fire(self, row: Row) -> None:
        others = self.away or any(key not in self.durable_ms for key in self.fired)
        if self.overlap is not Overlap.REPLACE and others:
            raise Broken("two run at once")
        if row.key.digest in self.cancelled:
            raise Broken(f"{row.said.instant_ms - START_MS} is sent after CANCELLED")
        if row.said.reason != Reason.TRIGGER:
            super().fire(row)
        else:
            self.fired[row.key] = self.now_ms

    # -- requests -------------------------------------------------------------------------------------------------

    def _perform(self, process: Process, request: Request) -> object:
        match request:
            case FindSettled(_, key, True) if key in self.ended and key not in self.durable_ms:
                self._for_good(key)
                return Ending(self.ended[key], is_known=True)
            case FindSettled(_, key, durable):
                return replace(self._ending(key), is_known=durable and key in self.ended)
            case AskToMove(_, key) if self._is_known_in_hand(key):
                return HolderAnswer(Asked.OPEN)
            case AskInHand(key):
                return self._is_known_in_hand(key)
            case AskMayReturn(_, key):
                return key in self.away
            case AskToEnd():
                return self._asked_to_end(request)
        return super()._perform(process, request)

    def _asked_to_end(self, request: AskToEnd) -> HolderAnswer:
        key = request.key
        if key not in self.rows or key in self.ended:
            return HolderAnswer(Asked.ENDED, self.ended[key]) if key in self.ended else HolderAnswer(None)
        if self._is_known_in_hand(key):
            return HolderAnswer(Asked.OPEN, None, request.request)
        self.ended[key] = request.outcome
        self._for_good(key)
        return HolderAnswer(Asked.WAITING, None, request.request)

    def _is_known_in_hand(self, key: RowKey) -> bool:
        return key in self.fired and key not in self.ended and key not in self.away

    def _outcome_of(self, key: RowKey) -> Outcome | None:
        return Outcome.ACKED if self.ticks.get(key) == "acked" else self.ended.get(key)

    def _holds_back(self, key: RowKey) -> bool:
        return super()._holds_back(key) or (key in self.ended and key not in self.durable_ms)

    def stored(self, partition: Partition, group: RowGroup, number: int, key: RowKey) -> None:
        is_new = key not in self.rows
        super().stored(partition, group, number, key)
        if is_new and key in self.rows:
            self._created(key)

    def _created(self, key: RowKey) -> None:
        if self._is_cancelled(key):
            # Its holder reads the mark with the row.
            self.ended[key] = Outcome.CANCELLED
            self._for_good(key)
        # Who stood still may write what was withdrawn meanwhile: that is sent by nobody.
        others = [other for other in self.rows if other != key and self._is_open(other)] if self._is_open(key) else []
        if others:
            instants = [self.rows[other].said.instant_ms - START_MS for other in others]
            raise Broken(f"{self.rows[key].said.instant_ms - START_MS} was created beside {instants}")

    def _is_open(self, key: RowKey) -> bool:
        [stored] = done(self.store.read([move_key(key.digest)]))
        is_withdrawn = stored is not None and Move.from_bytes(stored).state is MoveState.MOVED
        if is_withdrawn or key in self.durable_ms:
            return False
        return self.overlap is not Overlap.REPLACE or not self._is_cancelled(key)

    def _is_cancelled(self, key: RowKey) -> bool:
        partition = self.rows[key].partition
        found: Found = done(self.store.find(partition, [(key.position_ms, key.digest)]))[0]
        return any(mark.kind == MarkKind.CANCELLED for mark in found.marks)

    def _cas(self, process: Process, change: Cas) -> CasResult:
        result = super()._cas(process, change)
        if change.key.table is Table.SCHEDULES and result.status is CasStatus.APPLIED and change.expected is not None:
            self._judge(Schedule.from_bytes(change.expected), Schedule.from_bytes(change.value))
        return result

    def _judge(self, before: Schedule, after: Schedule) -> None:
        """What was decided of instants whose time had come."""
        waited, waiting = ({each.instant_ms for each in one.overlap.waiting} for one in (before, after))
        if before.revision != after.revision:
            self.passed |= waited - waiting
            return
        kind = next((force.kind for force in self.forces if force.revision == after.revision), 0)
        if not kind or after.state is ScheduleState.DELETED:
            return
        instants = Periods(self.every_ms[kind]).after(max(before.cur_ms, after.since_ms), 100)
        between = {each for each in instants if each <= after.cur_ms}
        created = {slot.instant_ms for _, slot in after.window} if after.seq != before.seq else set()
        for instant_ms in (between - created - self.taken) | (waiting - waited):
            if instant_ms > self.now_ms or not self._was_open_at(instant_ms):
                raise Broken(f"{instant_ms - START_MS} was passed over, and no other one was open")
        self.passed |= (between | waited) - created - waiting - self.taken

    def _was_open_at(self, instant_ms: int) -> bool:
        living = [key for key in self.rows if self.durable_ms.get(key, instant_ms) >= instant_ms or key in self.away]
        moved = done(self.store.read([move_key(key.digest) for key in living])) if living else []
        return any(stored is None or Move.from_bytes(stored).state is not MoveState.MOVED for stored in moved)

    # -- promises at rest -----------------------------------------------------------------------------------------

    def _check(self) -> None:
        if not self.forces:
            raise Broken("it was never created")
        [stored] = done(self.store.read([self.name.key]))
        assert stored is not None
        entry = Schedule.from_bytes(stored)
        waiting = {each.instant_ms for each in entry.overlap.waiting}
        if waiting and entry.state is not ScheduleState.PAUSED:
            raise Broken(f"{len(waiting)} wait for ever")
        fired = {row.said.instant_ms for key, row in self.rows.items() if key in self.fired and not _is_trigger(row)}
        cancelled = {row.said.instant_ms for key, row in self.rows.items() if key in self.ended} - fired
        if lost := sorted(self._due() - fired - cancelled - self.passed - waiting):
            raise Broken(f"lost: {[each - START_MS for each in lost]}")
        if entry.overlap.skipped != len(self.passed):
            raise Broken(f"{entry.overlap.skipped} count as skipped, {len(self.passed)} were")


def _is_trigger(row: Row) -> bool:
    return row.said.reason == Reason.TRIGGER


def played(seed: int, overlap: Overlap, **settings: Any) -> OverlapHistory:  # noqa: ANN401 - of a History
    """Raises Broken."""
    history = OverlapHistory(seed, overlap=overlap, **settings)
    history.play()
    return history
