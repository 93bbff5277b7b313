"""Histories of one schedule, drawn from a seed: ticks and calls interleaved step by step, with crashes between any two
steps, ticks that come twice, instances that stand still and go on, and rows that fire whenever they may.

The procedures are those of the product; each request of theirs is one step, and one about several tasks is a step for
each, for a crash may come between them. What a row goes through inside is a matter
of other models: it fires once, at any time from its instant on, unless it was withdrawn. `python -m tests.schedules
SEED` replays one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.property.world import done
from timerd.adapters.memory import MemoryStore
from timerd.core.partition import Asked, Offered
from timerd.core.protocol import (
    NOT_ENDED,
    AppendRows,
    AskToEndEach,
    AskToMove,
    AskToMoveMany,
    Ending,
    Find,
    FindEntries,
    FindSettled,
    FindSettledEach,
    FindSettledMany,
    FindVacant,
    HintRows,
    HolderAnswer,
    NotTakenIn,
    OfferRows,
    ReadBucket,
    ReadRegister,
    ReadRegisters,
    Recheck,
    RemoveEntries,
    Request,
    SetMarks,
    Together,
    TryCas,
    TryCasMany,
    Undecided,
    Vacant,
    WriteEntries,
)
from timerd.core.schedules import changes
from timerd.core.schedules.changes import Decide, Name, deleted, paused, resumed, updated
from timerd.core.schedules.spec_times import SpecTimes
from timerd.core.schedules.world import World
from timerd.core.taken import TICKS
from timerd.model.errors import Aborted, NotFound, Precondition, StoreUnknown
from timerd.model.identity import RowKey
from timerd.model.occurrences import Occurrence, Reason
from timerd.model.overlap import Overlap
from timerd.model.partition import Partition
from timerd.model.recurrence import Every, Spec
from timerd.model.registers import Control, Move, MoveState, Table, control_key, move_key
from timerd.model.rows import RowGroup
from timerd.model.schedules import CatchUp, Definition, Policies, Schedule, ScheduleState, Tick, definition_key
from timerd.model.settle import Outcome
from timerd.model.storage import Append, Cas, CasResult, CasStatus
from timerd.model.task import Template

START_MS = 1_800_000_000_000
END_MS = START_MS + 120_000
NAME = Name("default", "it")
EVERY_MS = {1: 10_000, 2: 15_000}
# Answered by a list.
MANY = (AskToEndEach, AskToMoveMany, Together, TryCasMany, ReadRegisters, FindSettledEach)
# What ends a try and is tried again.
AGAIN = (NotTakenIn, Undecided, Aborted, StoreUnknown)


class Broken(AssertionError):
    """A promise was not kept."""


class Periods:
    """The instants of one period, counted from the start."""

    def __init__(self, period_ms: int) -> None:
        self.period_ms = period_ms

    def after(self, instant_ms: int, count: int) -> list[int]:
        first = START_MS + ((instant_ms - START_MS) // self.period_ms + 1) * self.period_ms
        return [first + n * self.period_ms for n in range(count)]

    def fire_at_ms(self, uid: bytes, instant_ms: int, next_ms: int | None) -> int:
        return instant_ms


def definition(kind: int, overlap: Overlap = Overlap.ALLOW) -> Definition:
    policies = Policies(CatchUp.ALL, overlap=overlap)
    return Definition(Spec((Every(EVERY_MS[kind]),)), policies, Template("default", "q"), b"%d" % kind)


@dataclass
class Row:
    """Of an instant; `said` is what its delivery says."""

    key: RowKey
    said: Occurrence
    partition: Partition


@dataclass(eq=False)
class Process:
    """A tick in somebody's hand, or a call."""

    work: Generator[Request, Any, Any]
    tick: RowKey | None = None
    call: Call | None = None
    request: Request | None = None
    begun: bool = False
    stands_still: int = 0
    # What was answered of the parts of the request so far.
    heard: list[Any] = field(default_factory=list)


@dataclass(eq=False)
class Call:
    """One of a caller, who tries again until he is answered, or dies."""

    number: int
    make: Callable[[], Generator[Request, Any, Any]]
    answered: bool = False


@dataclass
class Force:
    """A revision, from when on."""

    revision: int
    state: ScheduleState
    kind: int
    since_ms: int


@dataclass(eq=False)
class History:
    """`alter` may change what is written to the register, as a broken variant does."""

    seed: int
    crashes: int = 3
    repeats: int = 2
    changes: int = 3
    # How likely a process ends when it has just changed the register.
    fragile: float = 0.0
    alter: Callable[[History, Process, Cas], Cas] | None = None
    overlap: Overlap = Overlap.ALLOW
    acks_early: bool = False
    says_early: bool = False
    # The period of each kind of definition, and about how many steps are taken.
    every_ms: dict[int, int] = field(default_factory=lambda: EVERY_MS)
    steps: tuple[int, int] = (60, 400)
    # How likely the holder has gone on when something is written, so that what comes late is read by nobody, and has to
    # be written again at a later place.
    passes: float = 0.0
    # How likely a process stands still after a step.
    stops: float = 0.0
    unread: set[RowKey] = field(default_factory=set)
    # How far time goes from one step to another, where it goes.
    paces_ms: tuple[int, ...] = (1, 1_000, 4_000, 10_000)
    now_ms: int = START_MS
    store: MemoryStore = field(default_factory=MemoryStore)
    name: Name = NAME
    rows: dict[RowKey, Row] = field(default_factory=dict)
    fired: dict[RowKey, int] = field(default_factory=dict)
    # Waiting ones, those in a hand, those that were acked.
    ticks: dict[RowKey, str] = field(default_factory=dict)
    payloads: dict[RowKey, bytes] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    forces: list[Force] = field(default_factory=list)
    # Up to which revision, and from when on nothing of it may fire.
    promised: list[tuple[int, int]] = field(default_factory=list)
    # Instants that the register has ever named as taken.
    taken: set[int] = field(default_factory=set)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.names = 0
        self.world = World(lambda: self.now_ms, lambda prefix, bucket_ms: 0, self._times, self._token, 86_400_000)

    @property
    def rest_ms(self) -> int:
        """So long it goes on without trouble."""
        return END_MS

    def definition(self, kind: int) -> Definition:
        return definition(kind, self.overlap)

    def _times(self, schedule_id: str, it: Definition) -> SpecTimes:
        return Periods(self.every_ms[int(it.payload)])

    def _token(self) -> str:
        self.names += 1
        return f"{self.names:016x}"

    # -- what happens ---------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Raises Broken."""
        self._call(lambda: changes.create(self.name, "create", self.definition(1), self.world))
        for _ in range(self.random.randrange(*self.steps)):
            self._something()
        self.crashes = self.repeats = self.changes = 0
        self._go_on()
        while self.now_ms < self.rest_ms or self.processes or self._due_ticks():
            self._go_on()
        self._check()

    def _something(self) -> None:
        chance = self.random.random()
        if chance < 0.62 and self.processes:
            self._go_with(self.random.choice(self.processes))
        elif chance < 0.72:
            self._fire_one()
        elif chance < 0.82:
            self._deliver()
        elif chance < 0.87:
            self._crash()
        elif chance < 0.92:
            self._change()
        elif self.now_ms < END_MS:
            self.now_ms = min(END_MS, self.now_ms + self.random.choice(self.paces_ms))

    def _go_with(self, process: Process) -> None:
        """One that stands still does so for some time."""
        if process.stands_still:
            process.stands_still -= 1
            return
        self._step(process)
        if self.stops and self.random.random() < self.stops:
            process.stands_still = self.random.randrange(20, 100)

    def _go_on(self) -> None:
        """To the end, without further trouble."""
        while self.processes:
            self._step(self.processes[0])
        while self._due_ticks():
            self._deliver()
            while self.processes:
                self._step(self.processes[0])
        while self._fire_one():
            pass
        self.now_ms = max(self.now_ms, min(self.rest_ms, self.now_ms + 5_000))
        while self._fire_one():
            pass

    def _step(self, process: Process) -> None:
        try:
            if not process.begun:
                process.begun, process.request = True, next(process.work)
            assert process.request is not None
            parts = parts_of(process.request)
            answer = self._perform(process, parts[len(process.heard)])
            process.heard.append(answer)
            if len(process.heard) == len(parts):
                heard, process.heard = process.heard, []
                process.request = process.work.send(whole_of(process.request, heard))
            if isinstance(answer, CasResult) and self.crashes and self.random.random() < self.fragile:
                self._end(process)
        except StopIteration as end:
            self._ended(process, end.value)
        except AGAIN:
            self._gone(process)
        except (NotFound, Precondition):
            self.processes.remove(process)

    def _ended(self, process: Process, value: object) -> None:
        self.processes.remove(process)
        if process.tick is not None:
            self.ticks[process.tick] = "acked"
        if process.call is not None:
            process.call.answered = True
            if isinstance(value, Schedule):
                self._promise(value)

    def _promise(self, entry: Schedule) -> None:
        self.promised.append((entry.revision, entry.since_ms))

    def _gone(self, process: Process) -> None:
        """Its tick comes again, its caller tries again."""
        self.processes.remove(process)
        if process.tick is not None and self.ticks[process.tick] == "in hand":
            self.ticks[process.tick] = "waiting"
        if process.call is not None:
            self.processes.append(Process(process.call.make(), call=process.call))

    def _crash(self) -> None:
        if not self.crashes or not self.processes:
            return
        self._end(self.random.choice(self.processes))

    def _end(self, process: Process) -> None:
        """Between two steps."""
        self.crashes -= 1
        self.log.append(f"crash of {process.tick or process.call}")
        if process.call is not None and process.call.number and self.random.random() < 0.5:
            self.processes.remove(process)
        else:
            self._gone(process)

    def _due_ticks(self) -> list[RowKey]:
        return [key for key, state in self.ticks.items() if state == "waiting" and key.position_ms <= self.now_ms]

    def _deliver(self) -> None:
        due = self._due_ticks()
        again = [key for key, state in self.ticks.items() if state == "in hand"] if self.repeats else []
        if not due and not again:
            return
        if not due or (again and self.random.random() < 0.3):
            self.repeats -= 1
            due = again
        key = self.random.choice(due)
        self.ticks[key] = self._state_of_taken(key)
        self.processes.append(Process(self._take(key), tick=key))

    def _state_of_taken(self, key: RowKey) -> str:
        return "in hand"

    def _take(self, key: RowKey) -> Generator[Request, Any, Any]:
        return changes.tick_or_resume(Tick.from_bytes(self.payloads[key]), self.world)

    def _change(self) -> None:
        if not self.changes or not self.forces:
            return
        self.changes -= 1
        decide: Decide = self.random.choice(
            (
                updated(lambda old: self.definition(2)),
                updated(lambda old: self.definition(1)),
                paused("", 0),
                resumed,
                deleted(),
            )
        )
        request = f"change {self.changes}"
        self._call(lambda: changes.change(self.name, request, 0, decide, self.world))

    def _call(self, make: Callable[[], Generator[Request, Any, Any]]) -> None:
        call = Call(len(self.forces), make)
        self.processes.append(Process(make(), call=call))

    def _fire_one(self) -> bool:
        due = [row for key, row in self.rows.items() if key.position_ms <= self.now_ms and key not in self.fired]
        due = [row for row in due if self._may_fire(row.key)]
        if not due:
            return False
        self.fire(self.random.choice(due))
        return True

    def _may_fire(self, key: RowKey) -> bool:
        """One that is being moved waits, one that was moved is over. Where nobody has asked for it, it is just sent."""
        [stored] = done(self.store.read([move_key(key.digest)]))
        move = Move.from_bytes(stored) if stored is not None else None
        return move is None or move.state is MoveState.FAILED or move.source.key != key

    def fire(self, row: Row) -> None:
        self.log.append(f"{self.now_ms - START_MS} fired {row.said.instant_ms - START_MS} of {row.said.revision}")
        self.fired[row.key] = self.now_ms
        told = [
            said.instant_ms for said in (self.rows[key].said for key in self.fired) if said.reason != Reason.TRIGGER
        ]
        if told.count(row.said.instant_ms) > 1:
            raise Broken(f"the instant {row.said.instant_ms - START_MS} fired twice")
        for revision, since_ms in self.promised:
            if row.said.revision < revision and row.said.instant_ms > since_ms:
                raise Broken(f"after the OK of revision {revision} an older one fired")

    # -- requests -------------------------------------------------------------------------------------------------

    def _perform(self, process: Process, request: Request) -> object:  # noqa: PLR0911, PLR0912
        store = self.store
        match request:
            case ReadRegister(key):
                return done(store.read([key]))[0]
            case TryCas(change):
                return self._cas(process, change)
            case AppendRows(messages):
                self._go_beyond(messages)
                self._appended(process, request)
                return done(store.append(messages))
            case Find(partition, keys):
                return done(store.find(partition, keys))
            case FindSettled(_, key):
                return self._ending(key)
            case FindSettledMany(_, keys):
                return [self._ending(key) for key in keys]
            case FindSettledEach(partition, keys, durable):
                return [self._perform(process, FindSettled(partition, key, durable)) for key in keys]
            case SetMarks(marks):
                return done(store.mark(marks))
            case WriteEntries(entries):
                return done(store.write_entries(entries))
            case FindEntries(keys):
                return done(store.find_entries(keys))
            case RemoveEntries(keys):
                return done(store.remove_entries(keys))
            case OfferRows():
                return Offered.ALREADY_HAVE
            case AskToMove(_, key) if key in self.unread:
                is_refused = self.random.random() < 0.5
                return HolderAnswer(Asked.ENDED, Outcome.FORWARDED) if is_refused else HolderAnswer(Asked.UNKNOWN)
            case AskToMove(_, key):
                has_fired = key in self.fired
                return HolderAnswer(Asked.ENDED, Outcome.ACKED) if has_fired else HolderAnswer(None)
            case FindVacant():
                return Vacant(frozenset(), 0)
            case HintRows() | Recheck() | ReadBucket():
                return None
            case _:
                raise TypeError(f"nobody answers {request}")

    def _go_beyond(self, messages: Sequence[Append]) -> None:
        """As far as there is nothing that waits or is open."""
        if not self.passes or self.random.random() >= self.passes:
            return
        verified_ms = min([self.now_ms - 1, *(key.position_ms for key in self.held_back())])
        for partition in {partition for message in messages for partition, _ in message.groups}:
            key = control_key(partition)
            [stored] = done(self.store.read([key]))
            if verified_ms > max(partition.bucket_ms, self._verified_ms(partition)):
                control = Control(1, "it", "here", self.now_ms, verified_ms)
                done(self.store.cas([Cas(key, stored, control.to_bytes())]))

    def held_back(self) -> list[RowKey]:
        """What waits or is open where it writes."""
        waiting = [key for key in self.rows if self._holds_back(key)]
        return waiting + [key for key, state in self.ticks.items() if state != "acked"]

    def _holds_back(self, key: RowKey) -> bool:
        """Whether `verified` may not pass the row: it waits, or is open, or its end may be taken back."""
        return self._ending(key) is NOT_ENDED

    def _verified_ms(self, partition: Partition) -> int:
        [stored] = done(self.store.read([control_key(partition)])) if self.passes else [None]
        return Control.from_bytes(stored).verified_ms if stored is not None else 0

    def _outcome_of(self, key: RowKey) -> Outcome | None:
        """By a worker, or by a cancel."""
        return Outcome.ACKED if key in self.fired or self.ticks.get(key) == "acked" else None

    def _ending(self, key: RowKey) -> Ending:
        if (outcome := self._outcome_of(key)) is not None:
            return Ending(outcome)
        [stored] = done(self.store.read([move_key(key.digest)])) if self.passes else [None]
        is_moved = stored is not None and key in self.rows and _has_left(Move.from_bytes(stored), key)
        return Ending(Outcome.MOVED) if is_moved else NOT_ENDED

    def _appended(self, process: Process, request: AppendRows) -> None:
        for message in request.messages:
            for partition, group in message.groups:
                for number, key in enumerate(group.keys()):
                    self.stored(partition, group, number, key)

    def stored(self, partition: Partition, group: RowGroup, number: int, key: RowKey) -> None:
        """A row of a group, for the first time or again."""
        is_known = key in self.rows or key in self.ticks
        if not is_known and key.position_ms < self._verified_ms(partition):
            self.unread.add(key)
        elif group.template_of(number).namespace == TICKS.namespace:
            self.ticks.setdefault(key, "waiting")
            self.payloads.setdefault(key, group.payload(number))
        else:
            said = Occurrence.from_text(group.extra_of(number).occurrence)
            self.rows.setdefault(key, Row(key, said, partition))

    def _cas(self, process: Process, change: Cas) -> CasResult:
        if change.key.table is Table.SCHEDULES and self.alter is not None:
            change = self.alter(self, process, change)
        [result] = done(self.store.cas([change]))
        if change.key.table is Table.SCHEDULES and result.status is CasStatus.APPLIED:
            entry = Schedule.from_bytes(change.value)
            self.taken.update(entry.taken)
            self._in_force(process, entry)
        return result

    def _in_force(self, process: Process, entry: Schedule) -> None:
        if not entry.revision or (self.forces and self.forces[-1].revision >= entry.revision):
            if self.acks_early and process.tick is not None:
                self.ticks[process.tick] = "acked"
            return
        named = self.name.namespace, self.name.schedule_id
        [stored] = done(self.store.find_entries([definition_key(*named, entry.uid, entry.revision, entry.attempt)]))
        kind = int(Definition.from_bytes(stored).payload) if stored is not None else 0
        self.forces.append(Force(entry.revision, entry.state, kind, entry.since_ms))
        self.log.append(
            f"{self.now_ms - START_MS} revision {entry.revision} {entry.state} from {entry.since_ms - START_MS}"
        )
        if self.says_early and process.call is not None:
            self._promise(entry)

    # -- promises at rest -----------------------------------------------------------------------------------------

    def _check(self) -> None:
        if not self.forces:
            raise Broken("it was never created")
        [stored] = done(self.store.read([self.name.key]))
        assert stored is not None
        entry = Schedule.from_bytes(stored)
        fired = {self.rows[key].said.instant_ms for key in self.fired}
        due = self._due()
        if lost := sorted(due - fired):
            raise Broken(f"lost: {[each - START_MS for each in lost]}")
        left = {slot.instant_ms for slot in entry.left.slots}
        if more := sorted(fired - due - left - self.taken):
            raise Broken(f"too much: {[each - START_MS for each in more]}")
        ahead = [slot for slot in (*entry.ahead.slots, *entry.left.slots) if slot.instant_ms not in fired]
        if entry.created != len(fired) + len(ahead):
            raise Broken(f"{entry.created} were created, {len(fired)} have fired and {len(ahead)} are ahead")

    def _due(self) -> set[int]:
        ends = [*(each.since_ms for each in self.forces[1:]), END_MS]
        due: set[int] = set()
        for force, end_ms in zip(self.forces, ends, strict=True):
            if force.state is ScheduleState.ACTIVE:
                times = Periods(self.every_ms[force.kind])
                due |= {each for each in times.after(force.since_ms, 100) if each <= min(end_ms, END_MS)}
        return due


def parts_of(request: Request) -> Sequence[Request]:
    """One each for what it asks about several tasks."""
    match request:
        case AskToMoveMany(requests) | AskToEndEach(requests) | Together(requests):
            return requests
        case TryCasMany(changes):
            return [TryCas(change) for change in changes]
        case ReadRegisters(keys):
            return [ReadRegister(key) for key in keys]
        case FindSettledEach(partition, keys, durable):
            return [FindSettled(partition, key, durable) for key in keys]
        case SetMarks(marks):
            return [SetMarks([mark]) for mark in marks]
        case _:
            return [request]


def whole_of(request: Request, heard: list[Any]) -> object:
    """The answer to the request, from those to its parts."""
    if isinstance(request, SetMarks):
        return sum(heard)
    return heard if isinstance(request, MANY) else heard[0]


def _has_left(move: Move, key: RowKey) -> bool:
    return move.state is MoveState.MOVED and move.source.key == key


def played(seed: int, **settings: Any) -> History:  # noqa: ANN401 - of a History
    """Raises Broken."""
    history = History(seed, **settings)
    history.play()
    return history
