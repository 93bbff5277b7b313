"""Histories of some schedules of the same instants, whose ticks are worked together or by themselves, as chance says.
What is worked together is stopped between any two steps, comes twice, and meets changes of each of them.

Each schedule is judged by itself, as in a history of its own. `python -m tests.schedules SEED together` replays one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.property.world import done
from tests.schedules.histories import AGAIN, History, Periods, Process, parts_of, whole_of
from tests.schedules.overlap_histories import OverlapHistory, UntilTheEnd
from tests.schedules.variants import LATE
from timerd.adapters.memory import MemoryStore
from timerd.core.protocol import (
    AppendRows,
    AskInHand,
    AskMayReturn,
    AskToEnd,
    AskToMove,
    FindSettled,
    FindSettledMany,
    Request,
    TryCas,
)
from timerd.core.schedules import changes
from timerd.core.schedules.changes import Name
from timerd.core.schedules.deciding_many import decide_many
from timerd.core.schedules.recording_many import ReadTick
from timerd.core.schedules.ticking_many import run_ticks
from timerd.core.taken import TICKS
from timerd.model.identity import RowKey
from timerd.model.occurrences import Occurrence
from timerd.model.overlap import Overlap
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.schedules import Definition, Tick
from timerd.model.storage import CasResult

PLAIN = (Overlap.ALLOW,) * 3
# The same policy for all, or one of each kind.
POLICIES: dict[str, Sequence[Overlap]] = {
    **{str(policy): (policy,) * 3 for policy in Overlap},
    "mixed": (Overlap.ALLOW, Overlap.SKIP, Overlap.REPLACE),
}
# Rows come too late for their places, and who wrote them stands still.
LATE_TOGETHER = {name: value for name, value in LATE.items() if name != "steps"}


@dataclass(eq=False)
class Member(History):
    """A schedule of them. `together`: all whose rows lie in the same partitions."""

    together: Sequence[Member] = ()

    def _times(self, schedule_id: str, it: Definition) -> Periods:
        return UntilTheEnd(self.every_ms[int(it.payload)])

    def _deliver(self) -> None:
        """Most ticks are taken together."""
        if not self.crashes + self.repeats + self.changes or self.random.random() < 0.2:
            super()._deliver()

    def held_back(self) -> list[RowKey]:
        return [key for member in self.together for key in super(Member, member).held_back()]


@dataclass(eq=False)
class ApartMember(Member, OverlapHistory):
    """One whose occurrences must not run beside each other."""


@dataclass(eq=False)
class Part:
    """Ticks in one hand: of each schedule at most one. `process`: what is asked of the world."""

    ticks: dict[History, RowKey]
    process: Process


@dataclass
class TogetherHistory:
    """`settings`: of each schedule's History. `policies`: of overlaps, one of each schedule."""

    seed: int
    settings: dict[str, Any] = field(default_factory=dict)
    policies: Sequence[Overlap] = PLAIN
    stops: int = 3
    parts: list[Part] = field(default_factory=list)
    # How many ticks were done together.
    together: int = 0

    def __post_init__(self) -> None:
        self.random, store = Random(self.seed), MemoryStore()
        self.members: dict[str, Member] = {}
        for number, overlap in enumerate(self.policies):
            kind = Member if overlap is Overlap.ALLOW else ApartMember
            name, seed = Name("default", f"s{number}"), 100 * self.seed + number
            self.members[name.schedule_id] = kind(seed, store=store, name=name, overlap=overlap, **self.settings)
        self.all = [*self.members.values()]
        for number, member in enumerate(self.all):
            # No two have a uid in common.
            member.names, member.together = 1_000_000 * number, self.all

    @property
    def log(self) -> list[str]:
        return [f"{name}: {line}" for name, member in self.members.items() for line in member.log]

    def play(self) -> None:
        """Raises Broken."""
        for member in self.all:
            self._create(member)
        for _ in range(self.random.randrange(150, 700)):
            self._something()
            self._at_one_time()
        self.stops = 0
        for member in self.all:
            member.crashes = member.repeats = member.changes = 0
        while self._goes_on():
            self._take_together()
            self._end_parts()
            for member in self.all:
                member._go_on()
            self._at_one_time()
        for member in self.all:
            member._check()

    def _goes_on(self) -> bool:
        rest_ms = max(each.rest_ms for each in self.all)
        return any(each.now_ms < rest_ms or each.processes or each._due_ticks() for each in self.all)

    def _create(self, member: History) -> None:
        member._call(lambda: changes.create(member.name, "create", member.definition(1), member.world))

    def _at_one_time(self) -> None:
        now_ms = max(each.now_ms for each in self.all)
        for member in self.all:
            member.now_ms = now_ms

    def _something(self) -> None:
        chance = self.random.random()
        if chance < 0.35 and self.parts:
            self._go_with(self.random.choice(self.parts))
        elif chance < 0.5:
            self._take_together()
        elif chance < 0.53 and self.parts and self.stops:
            self._come_again(self.random.choice(self.parts))
        else:
            self.random.choice(self.all)._something()

    def _take_together(self) -> None:
        """What is due, or comes once more."""
        ticks: dict[History, RowKey] = {}
        for member in self.all:
            due = member._due_ticks()
            if member.repeats and self.random.random() < 0.2:
                due += [key for key, state in member.ticks.items() if state == "in hand"]
            if due:
                ticks[member] = self.random.choice(due)
                member.ticks[ticks[member]] = "in hand"
        if ticks:
            read = [Tick.from_bytes(member.payloads[key]) for member, key in ticks.items()]
            self.parts.append(Part(ticks, Process(run_ticks(read, self.all[0].world))))

    def _end_parts(self) -> None:
        while self.parts:
            self._step(self.parts[0])

    def _go_with(self, part: Part) -> None:
        """One request is a step for each schedule, or one step: what is asked of many is done in any order."""
        process = part.process
        if process.stands_still:
            process.stands_still -= 1
            return
        for _ in range(self.random.choice((1, 3 * len(self.all)))):
            if part in self.parts:
                self._step(part)
        if self.all[0].stops and self.random.random() < self.all[0].stops:
            process.stands_still = self.random.randrange(10, 50)

    def _step(self, part: Part) -> None:
        process = part.process
        try:
            if not process.begun:
                process.begun, process.request = True, next(process.work)
            assert process.request is not None
            asked = parts_of(process.request)
            answer = self._perform(process, asked[len(process.heard)])
            process.heard.append(answer)
            if len(process.heard) == len(asked):
                heard, process.heard = process.heard, []
                process.request = process.work.send(whole_of(process.request, heard))
            if isinstance(answer, CasResult) and self.stops and self.random.random() < self.all[0].fragile:
                self._come_again(part)
        except StopIteration as end:
            self._ended(part, end.value)
        except AGAIN:
            self._each_by_itself(part, part.ticks)

    def _ended(self, part: Part, said: list[object]) -> None:
        by_member = dict(zip(part.ticks, said, strict=True))
        read = {member: each for member, each in by_member.items() if isinstance(each, ReadTick)}
        for member, ticked in by_member.items():
            if ticked is not None and member not in read:
                self.together += 1
                member.ticks[part.ticks[member]] = "acked"
        if read:
            process = Process(decide_many([*read.values()], self.all[0].world))
            self.parts.append(Part({member: part.ticks[member] for member in read}, process))
        self._each_by_itself(part, [member for member, ticked in by_member.items() if ticked is None])

    def _each_by_itself(self, part: Part, members: Iterable[History]) -> None:
        self.parts.remove(part)
        for member in members:
            key = part.ticks[member]
            member.processes.append(Process(member._take(key), tick=key))

    def _come_again(self, part: Part) -> None:
        """The instance dies: nothing of it goes on."""
        self.stops -= 1
        self.parts.remove(part)
        for member, key in part.ticks.items():
            if member.ticks[key] == "in hand":
                member.ticks[key] = "waiting"

    # -- requests ---------------------------------------------------------------------------------------------------

    def _perform(self, process: Process, request: Request) -> object:
        first = self.all[0]
        match request:
            case TryCas(change):
                of_one = next((member for member in self.all if member.name.key == change.key), first)
                return of_one._cas(process, change)
            case AppendRows(messages):
                first._go_beyond(messages)
                self._stored([group for message in messages for group in message.groups])
                return done(first.store.append(messages))
            case FindSettled(_, key) | AskToEnd(_, key) | AskToMove(_, key) | AskInHand(key) | AskMayReturn(_, key):
                return self._member_with(key)._perform(process, request)
            case FindSettledMany(_, keys):
                return [self._member_with(key)._ending(key) for key in keys]
            case _:
                return first._perform(process, request)

    def _member_with(self, key: RowKey) -> Member:
        return next((each for each in self.all if key in each.rows or key in each.ticks), self.all[-1])

    def _stored(self, groups: Sequence[tuple[Partition, RowGroup]]) -> None:
        for partition, group in groups:
            for number, key in enumerate(group.keys()):
                is_tick = group.template_of(number).namespace == TICKS.namespace
                name = (
                    Tick.from_bytes(group.payload(number)).schedule_id
                    if is_tick
                    else Occurrence.from_text(group.extra_of(number).occurrence).schedule_id
                )
                self.members[name].stored(partition, group, number, key)


def played(seed: int, policies: Sequence[Overlap] = PLAIN, **settings: Any) -> TogetherHistory:  # noqa: ANN401 - of a History
    """Raises Broken."""
    history = TogetherHistory(seed, settings, policies)
    history.play()
    return history
