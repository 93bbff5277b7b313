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
from tests.schedules.histories import AGAIN, END_MS, History, Process, parts_of, whole_of
from timerd.adapters.memory import MemoryStore
from timerd.core.protocol import NOT_ENDED, AppendRows, Ending, FindSettledMany, Request, TryCasMany
from timerd.core.schedules import changes
from timerd.core.schedules.chain import Ticked
from timerd.core.schedules.changes import Name
from timerd.core.schedules.ticking_many import run_ticks
from timerd.core.taken import TICKS
from timerd.model.identity import RowKey
from timerd.model.occurrences import Occurrence
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.schedules import Tick
from timerd.model.settle import Outcome
from timerd.model.storage import Cas, CasResult

SCHEDULES = 3


class Member(History):
    """A schedule of them."""

    def _deliver(self) -> None:
        """Most ticks are taken together."""
        if not self.crashes + self.repeats + self.changes or self.random.random() < 0.2:
            super()._deliver()


@dataclass(eq=False)
class Part:
    """Ticks in one hand: of each schedule at most one. `process`: what is asked of the world."""

    ticks: dict[History, RowKey]
    process: Process


@dataclass
class TogetherHistory:
    """`settings`: of each schedule's History."""

    seed: int
    settings: dict[str, Any] = field(default_factory=dict)
    stops: int = 3
    parts: list[Part] = field(default_factory=list)
    # How many ticks were done together.
    together: int = 0

    def __post_init__(self) -> None:
        self.random, store = Random(self.seed), MemoryStore()
        self.members = {
            f"s{n}": Member(100 * self.seed + n, store=store, name=Name("default", f"s{n}"), **self.settings)
            for n in range(SCHEDULES)
        }
        self.all = [*self.members.values()]
        for number, member in enumerate(self.all):
            # No two have a uid in common.
            member.names = 1_000_000 * number

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
        while any(each.now_ms < END_MS or each.processes or each._due_ticks() for each in self.all):
            self._take_together()
            self._end_parts()
            for member in self.all:
                member._go_on()
            self._at_one_time()
        for member in self.all:
            member._check()

    def _create(self, member: History) -> None:
        member._call(lambda: changes.create(member.name, "create", member.definition(1), member.world))

    def _at_one_time(self) -> None:
        now_ms = max(each.now_ms for each in self.all)
        for member in self.all:
            member.now_ms = now_ms

    def _something(self) -> None:
        chance = self.random.random()
        if chance < 0.35 and self.parts:
            self._step(self.random.choice(self.parts))
        elif chance < 0.5:
            self._take_together()
        elif chance < 0.53 and self.parts and self.stops:
            self.stops -= 1
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
            world = self.all[0].world
            read = [Tick.from_bytes(member.payloads[key]) for member, key in ticks.items()]
            self.parts.append(Part(ticks, Process(run_ticks(read, world))))

    def _end_parts(self) -> None:
        while self.parts:
            self._step(self.parts[0])

    def _step(self, part: Part) -> None:
        process = part.process
        try:
            if not process.begun:
                process.begun, process.request = True, next(process.work)
            assert process.request is not None
            answer = self._perform(process, process.request)
            process.request = process.work.send(answer)
            is_changed = isinstance(answer, list) and any(isinstance(each, CasResult) for each in answer)
            if is_changed and self.stops and self.random.random() < self.all[0].fragile:
                self.stops -= 1
                self._come_again(part)
        except StopIteration as end:
            self._ended(part, end.value)
        except AGAIN:
            self._each_by_itself(part, part.ticks)

    def _ended(self, part: Part, said: list[Ticked | None]) -> None:
        by_member = dict(zip(part.ticks, said, strict=True))
        for member, ticked in by_member.items():
            if ticked is not None:
                self.together += 1
                member.ticks[part.ticks[member]] = "acked"
        self._each_by_itself(part, [member for member, ticked in by_member.items() if ticked is None])

    def _each_by_itself(self, part: Part, members: Iterable[History]) -> None:
        self.parts.remove(part)
        for member in members:
            key = part.ticks[member]
            member.processes.append(Process(member._take(key), tick=key))

    def _come_again(self, part: Part) -> None:
        """The instance dies: nothing of it goes on."""
        self.parts.remove(part)
        for member, key in part.ticks.items():
            if member.ticks[key] == "in hand":
                member.ticks[key] = "waiting"

    # -- requests ---------------------------------------------------------------------------------------------------

    def _perform(self, process: Process, request: Request) -> object:
        first = self.all[0]
        match request:
            case TryCasMany(made):
                return [self._member_of(change)._cas(process, change) for change in made]
            case AppendRows(messages):
                self._stored([group for message in messages for group in message.groups])
                return done(first.store.append(messages))
            case FindSettledMany(_, keys):
                return [self._ending(key) for key in keys]
            case _:
                return whole_of(request, [first._perform(process, each) for each in parts_of(request)])

    def _member_of(self, change: Cas) -> History:
        return next(member for member in self.all if member.name.key == change.key)

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

    def _ending(self, key: RowKey) -> Ending:
        return Ending(Outcome.ACKED) if any(key in member.fired for member in self.all) else NOT_ENDED


def played(seed: int, **settings: Any) -> TogetherHistory:  # noqa: ANN401 - of a History
    """Raises Broken."""
    history = TogetherHistory(seed, settings)
    history.play()
    return history
