"""Histories of a cycle whose members timerd keeps, drawn from a seed: ticks, slots that are filled, and members that
come and go, interleaved step by step, with crashes between any two steps and tasks that come twice.

The procedures are those of the product; each request of theirs is one step. `python -m tests.cycles SEED` replays one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from tests.property.world import done
from tests.schedules.histories import (
    END_MS,
    NAME,
    START_MS,
    Broken,
    Call,
    History,
    Periods,
    Process,
)
from timerd.core.protocol import AppendRows, ListEntries, Procedure, ReadRegister, Request, WriteEntries
from timerd.core.schedules import changes, roster, roster_walk
from timerd.core.schedules.member_tasks import CycleRun, SlotMember, member_task
from timerd.core.schedules.spec_times import SpecTimes
from timerd.core.taken import SLOTS, TICKS
from timerd.model.cycles import CycleShape, RosterTurn, Turn, turn_at
from timerd.model.errors import NotFound
from timerd.model.identity import RowKey
from timerd.model.recurrence import Every, Spec
from timerd.model.registers import Move, MoveState, Table, move_key
from timerd.model.schedules import CatchUp, Definition, Policies, Schedule
from timerd.model.storage import Cas, CasResult, CasStatus, Entry, EntryKey
from timerd.model.task import Template

PERIOD_MS, SLOT_COUNT, LEAD_MS = 40_000, 4, 5_000
SHAPE = CycleShape(PERIOD_MS, SLOT_COUNT, START_MS + LEAD_MS, LEAD_MS, 2, Template("default", "members"), True)
# Of a cycle with places: one key has two kinds of turns, half a period apart.
PLACES = ("a", "b")
KEYS = tuple(f"member {n}" for n in range(5))
KINDS = ("member 0@a", "member 0@b", "member 1@b", "member 2@a", "member 2@b")


def definition(shape: CycleShape) -> Definition:
    spec = Spec((Every(SHAPE.slot_ms, START_MS),))
    return Definition(spec, Policies(CatchUp.ALL, PERIOD_MS, SLOT_COUNT), Template(*SLOTS), b"1", cycle=shape)


@dataclass(eq=False)
class MemberCall(Call):
    """`key` comes or goes. `ok_ms`: when it was answered; `is_over`: its caller has been answered, or is dead. `begun`,
    `ended`: which event of the history that was, since many happen in one millisecond."""

    key: str = ""
    is_put: bool = True
    begun_ms: int = 0
    ok_ms: int = 0
    begun: int = 0
    ended: int = 0
    is_over: bool = False


def key_of(member: str) -> str:
    return member.partition("@")[0]


def place_of(member: str) -> str:
    return member.partition("@")[2]


def removal(key: str, history: RosterHistory) -> Procedure[None]:
    left = yield from roster.remove_members(NAME, [key_of(key)], history.world, place_of(key))
    yield from roster.withdraw_members(left, history.world)


def expansion(turn: RosterTurn, history: RosterHistory) -> Procedure[None]:
    """As services/schedules/rosters.py has it."""
    try:
        found = yield from roster.read_roster(NAME, turn.uid)
    except NotFound:
        return
    for each in found.of(""):
        yield from _expansion(each, turn, history)


def _expansion(found: roster.Roster, turn: RosterTurn, history: RosterHistory) -> Procedure[None]:
    place: roster.RosterPlace | None = None
    part = found.shape.slots_back(turn.slot, found.place)
    while True:
        walk = roster_walk.walk_slot(found.entries_uid, part, SLOT_COUNT, place, 1, 2)
        entries, place = yield from walk
        run = found.run(turn.cycle)
        yield from roster.fill(run, roster.staying_in(run, turn.slot, entries), history.world)
        if place is None:
            return


@dataclass
class RosterHistory(History):
    """`puts`, `removes`, `expands`: what is played; a broken variant has others."""

    puts: Any = None
    removes: Any = removal
    expands: Any = expansion
    # The roster of a slot is read before the slot is recorded.
    reads_before: bool = False
    # The task of a slot is acked before it is filled.
    slots_acked_early: bool = False
    # Some members have two kinds of turns.
    has_places: bool = False
    # How many members come and go, and how often a call is about one of which another call is under way.
    members: int = len(KEYS)
    meeting: float = 0.2
    calls: list[MemberCall] = field(default_factory=list)
    events: Iterator[int] = field(default_factory=lambda: count(1))
    turns: dict[RowKey, tuple[int, str]] = field(default_factory=dict)
    # When a slot was filled first: (cycle, slot).
    filled: dict[tuple[int, int], int] = field(default_factory=dict)
    # Slots that the record went past when they were over for a period and more: they count as missed (policies).
    missed: set[Turn] = field(default_factory=set)
    last_ms: int = START_MS
    # So many of its steps a caller's process stands still, after any step.
    still: dict[Process, int] = field(default_factory=dict)
    # Who wrote an entry.
    writers: dict[EntryKey, MemberCall] = field(default_factory=dict)
    expiries: dict[RowKey, int] = field(default_factory=dict)
    slots: set[RowKey] = field(default_factory=set)
    had: set[tuple[int, str]] = field(default_factory=set)
    # The roster when a process read the register; and that of the process which changed it last.
    looks: dict[Process, dict[Any, bytes]] = field(default_factory=dict)
    before: dict[Any, bytes] = field(default_factory=dict)

    @property
    def shape(self) -> CycleShape:
        return replace(SHAPE, places=PLACES) if self.has_places else SHAPE

    @property
    def keys(self) -> tuple[str, ...]:
        return KINDS if self.has_places else KEYS

    def run(self, uid: str, number: int, member: str) -> CycleRun:
        return CycleRun(uid, self.shape, number, place=self.shape.place_number(place_of(member)))

    def _times(self, schedule_id: str, it: Definition) -> SpecTimes:
        return Periods(SHAPE.slot_ms)

    # -- what happens ---------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Raises Broken."""
        self._call(lambda: changes.create(NAME, "create", definition(self.shape), self.world))
        for _ in range(self.random.randrange(200, 1_000)):
            self._something()
        self.crashes = self.repeats = self.changes = 0
        while self.now_ms < self.rest_ms or self.processes or self._due_ticks():
            self._go_on()
        self._check()

    def _change(self) -> None:
        """A member comes or goes, mostly one call of a member at a time."""
        if not self.changes or not self.forces:
            return
        key = self.random.choice(self.keys[: self.members])
        under_way = [call for call in self.calls if call.key == key and not call.is_over]
        if under_way and self.random.random() >= self.meeting:
            return
        self.changes -= 1
        is_put = self.random.random() < 0.6
        make = (lambda: self.put(key)) if is_put else (lambda: self.removes(key, self))
        call = MemberCall(
            len(self.calls) + 1, make, key=key, is_put=is_put, begun_ms=self.now_ms, begun=next(self.events)
        )
        self.calls.append(call)
        self.log.append(f"{self.now_ms - START_MS} {'put' if is_put else 'remove'} {key}")
        self.processes.append(Process(make(), call=call))

    def put(self, key: str) -> Procedure[None]:
        members = [SlotMember(key_of(key), key.encode())]
        return self.puts(members, self) if self.puts else roster.put_members(NAME, members, self.world, place_of(key))

    def _ended(self, process: Process, value: object) -> None:
        super()._ended(process, value)
        if process.tick in self.slots:
            turn = RosterTurn.from_bytes(self.payloads[process.tick])
            self.filled.setdefault((turn.cycle, turn.slot), self.now_ms)
        if isinstance(process.call, MemberCall):
            process.call.ok_ms, process.call.is_over = self.now_ms, True
            process.call.ended = next(self.events)
            self.log.append(f"{self.now_ms - START_MS} OK {process.call.is_put} {process.call.key}")

    def _end(self, process: Process) -> None:
        super()._end(process)
        if isinstance(process.call, MemberCall) and not any(each.call is process.call for each in self.processes):
            process.call.is_over, process.call.ended = True, next(self.events)

    def _state_of_taken(self, key: RowKey) -> str:
        return "acked" if key in self.slots and self.slots_acked_early else "in hand"

    def _take(self, key: RowKey) -> Generator[Request, Any, Any]:
        payload = self.payloads[key]
        if key in self.slots:
            work: Generator[Request, Any, Any] = self.expands(RosterTurn.from_bytes(payload), self)
            return work
        return super()._take(key)

    def _fire_one(self) -> bool:
        due = [key for key in self.turns if key.position_ms <= self.now_ms and key not in self.fired]
        due = [key for key in due if self._may_fire(key) and self.expiries[key] > self.now_ms]
        if not due:
            return False
        self._start(self.random.choice(due))
        return True

    def _start(self, key: RowKey) -> None:
        number, member = self.turns[key]
        self.fired[key] = self.now_ms
        self.log.append(f"{self.now_ms - START_MS} turn {number} of {member}")
        if (number, member) in self.had:
            raise Broken(f"{member} had turn {number} twice")
        self.had.add((number, member))
        if self._is_gone(member) or self._is_removed_by_its_entry(member):
            raise Broken(f"{member} had turn {number} after the OK of its removal")

    def _is_gone(self, key: str) -> bool:
        """A removal was answered, and no put began after it or was under way beside it."""
        of_key = [call for call in self.calls if call.key == key]
        last = max((n for n, call in enumerate(of_key) if not call.is_put and call.ok_ms), default=None)
        if last is None:
            return False
        before = [call for call in of_key[:last] if call.is_put]
        # Of one whose caller died nobody works any more: its entry is there, or is not.
        was_alone = all(call.is_over and call.ended < of_key[last].begun for call in before)
        return was_alone and not any(call.is_put for call in of_key[last + 1 :])

    def _is_removed_by_its_entry(self, key: str) -> bool:
        """The entry that counts is of a removal, which was answered: whatever else was under way beside it."""
        [stored] = done(self.store.read([NAME.key]))
        assert stored is not None
        uid = roster.place_uid(Schedule.from_bytes(stored).uid, self.shape.place_number(place_of(key)))
        reading = roster.entries_of(uid, [key_of(key)])
        asked = next(reading)
        assert isinstance(asked, ListEntries)
        try:
            reading.send([list(done(self.store.list_entries(*each))) for each in asked.asked])
        except StopIteration as end:
            found = roster.latest(end.value[key_of(key)])
            return found is not None and found.payload is None and bool(self.writers[found.name].ok_ms)
        raise AssertionError("entries are read at once")

    def _step(self, process: Process) -> None:
        if self.still.get(process):
            self.still[process] -= 1
        else:
            super()._step(process)

    # -- requests -------------------------------------------------------------------------------------------------

    def _perform(self, process: Process, request: Request) -> object:
        if isinstance(request, ListEntries):
            return [self._listed(process, *each) for each in request.asked]
        if isinstance(process.call, MemberCall):
            self.still[process] = self.random.choice((0, 0, 0, 0, 10, 40))
        if isinstance(request, WriteEntries) and isinstance(process.call, MemberCall):
            self.writers |= dict.fromkeys([each.key for each in request.entries], process.call)
        if isinstance(request, ReadRegister) and request.key == NAME.key:
            self.looks[process] = dict(self.store._entries)
        return super()._perform(process, request)

    def _listed(self, process: Process, place: bytes, after: bytes, limit: int) -> list[Entry]:
        if self.reads_before and process.tick in self.slots:
            found = sorted(key for key in self.before if key.place == place and key.name > after)
            return [Entry(key, self.before[key]) for key in found[:limit]]
        return list(done(self.store.list_entries(place, after, limit)))

    def _appended(self, process: Process, request: AppendRows) -> None:
        for message in request.messages:
            for _, group in message.groups:
                for number, key in enumerate(group.keys()):
                    template, payload = group.template_of(number), group.payload(number)
                    if template.namespace == TICKS.namespace:
                        self.ticks.setdefault(key, "waiting")
                        self.payloads.setdefault(key, payload)
                        self.slots |= {key} if template.queue == SLOTS.queue else set()
                    else:
                        at_ms = int(group.columns["fire_at_ms"][number])
                        self.expiries.setdefault(key, template.expire_at_ms)
                        self.turns.setdefault(key, ((at_ms - SHAPE.origin_ms) // PERIOD_MS, payload.decode()))

    def _cas(self, process: Process, change: Cas) -> CasResult:
        if change.key.table is Table.SCHEDULES and change.key == NAME.key:
            self.before = self.looks.get(process, {})
        result = super()._cas(process, change)
        if change.key == NAME.key and result.status is CasStatus.APPLIED:
            self._recorded(Schedule.from_bytes(change.value).cur_ms)
        return result

    def _recorded(self, last_ms: int) -> None:
        passed = range(self.last_ms, last_ms + 1, SHAPE.slot_ms)
        self.missed |= {turn_at(SHAPE, at_ms) for at_ms in passed if at_ms < self.now_ms - PERIOD_MS}
        self.last_ms = max(self.last_ms, last_ms + SHAPE.slot_ms)

    # -- promises at rest -----------------------------------------------------------------------------------------

    def _check(self) -> None:
        [stored] = done(self.store.read([NAME.key]))
        assert stored is not None
        uid = Schedule.from_bytes(stored).uid
        for key in self.keys:
            for begin_ms, end_ms in self._memberships(key):
                for number in range(END_MS // PERIOD_MS - START_MS // PERIOD_MS + 1):
                    run = self.run(uid, number, key)
                    # A slot that is filled only after the removal has no task for it.
                    slot = run.slot_at(key_of(key))
                    filled_ms = self.filled.get((number, slot), 0)
                    is_due = begin_ms < run.moment_ms(key_of(key)) <= min(end_ms, END_MS) and filled_ms < end_ms
                    is_over = (number, key) in self.had or self._was_withdrawn(run, key) or self._has_expired(run, key)
                    if is_due and not is_over and Turn(number, slot) not in self.missed:
                        raise Broken(f"{key} has lost its turn {number} at {run.moment_ms(key_of(key)) - START_MS}")

    def _memberships(self, key: str) -> list[tuple[int, int]]:
        """From the OK of a put to the beginning of the next removal."""
        spans: list[tuple[int, int]] = []
        calls = [call for call in self.calls if call.key == key]
        for n, call in enumerate(calls):
            if call.is_put and call.ok_ms:
                removals = [each for each in calls if not each.is_put]
                others = [each for each in removals if not each.is_over or each.ok_ms >= call.begun_ms]
                others += [each for each in removals if not each.ok_ms or each in calls[n:]]
                spans.append((call.ok_ms, min((each.begun_ms for each in others), default=1 << 62)))
        return spans

    def _has_expired(self, run: CycleRun, key: str) -> bool:
        """There is a task, which no worker took in time."""
        return any(turn == (run.number, key) and self.expiries[at] <= self.now_ms for at, turn in self.turns.items())

    def _was_withdrawn(self, run: CycleRun, key: str) -> bool:
        """By a removal that was asked for."""
        if all(call.is_put for call in self.calls if call.key == key):
            return False
        [stored] = done(self.store.read([move_key(member_task(run, key_of(key)).digest)]))
        return stored is not None and Move.from_bytes(stored).state is MoveState.MOVED


def played(seed: int, **settings: Any) -> RosterHistory:  # noqa: ANN401 - of a RosterHistory
    """Raises Broken."""
    history = RosterHistory(seed, **{"changes": 12, **settings})
    history.play()
    return history
