"""`timerd simulate --from`: when the schedules and cycles of a server will come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from timerd.core.slots import cycle as slots_of

if TYPE_CHECKING:
    from timerd.client import Client, Cycle, Schedule
    from timerd.simulate.arrivals import JobArrivals
    from timerd.simulate.durations import Floats

_AT_ONCE = 1_000


@dataclass
class LiveReader:
    """Reads what comes within `span_s` from now on, of one queue or of all (""). `left_out`: schedules of which no
    instant is known. Jitter is drawn anew, by `seed`."""

    client: Client
    queue: str
    span_s: float
    seed: int
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begin = datetime.now(UTC)
        self._chance = np.random.default_rng([self.seed, 2])

    async def read(self) -> JobArrivals:
        from timerd.simulate.arrivals import arrivals

        found = [each async for each in self._of_schedules()]
        found += [each async for each in self._of_cycles()]
        return arrivals([each for each in found if len(each)])

    async def _of_schedules(self) -> AsyncIterator[Floats]:
        from timerd.client import ScheduleState

        async for schedule in self.client.schedules.list(states=[ScheduleState.ACTIVE]):
            if self.queue not in ("", schedule.queue):
                continue
            if schedule.spec.HasField("fixed_delay"):
                self.left_out.append(schedule.id)
            else:
                yield self._jittered(schedule, await self._instants(schedule.id))

    async def _instants(self, schedule_id: str) -> Floats:
        """Seconds from now."""
        end, after, found = self._begin + timedelta(seconds=self.span_s), self._begin, []
        while True:
            page = await self.client.schedules.preview(schedule_id, after=after, count=_AT_ONCE)
            coming = sorted({each.instant for each in page if each.change != "SKIPPED"})
            found += [each for each in coming if each < end]
            if len(coming) < _AT_ONCE or coming[-1] >= end:
                return np.array([(each - self._begin).total_seconds() for each in found])
            after = coming[-1]

    def _jittered(self, schedule: Schedule, at_s: Floats) -> Floats:
        """Each before the next one."""
        jitter_s = schedule.spec.jitter.ToTimedelta().total_seconds()
        if not jitter_s or not len(at_s):
            return at_s
        count = 1 if schedule.spec.jitter_kind == 2 else len(at_s)
        next_s = np.append(at_s[1:], np.inf)
        delayed: Floats = np.minimum(at_s + self._chance.random(count) * jitter_s, next_s - 0.001)
        return delayed

    async def _of_cycles(self) -> AsyncIterator[Floats]:
        from timerd.client import ScheduleState

        async for each in self.client.cycles.list():
            if each.state is ScheduleState.ACTIVE and self.queue in ("", each.queue):
                moments_s = await self._moments(each)
                for moment_s in moments_s.tolist():
                    yield self._turns(each, moment_s)

    async def _moments(self, cycle: Cycle) -> Floats:
        """Within a period, of each member. Those of the caller's database have some moment of their slot, as many as
        it had when it was filled last."""
        shape = slots_of(round(cycle.period.total_seconds() * 1_000), cycle.slots, max(1, len(cycle.places)))
        if not cycle.slot_queue:
            numbers = {name: number for number, name in enumerate(cycle.places or [""])}
            members = [(each.key, numbers[each.place]) async for each in self.client.cycles.members(cycle.id)]
            return np.array([shape.moment_ms(*each) / 1_000 for each in members])
        costs = (await self.client.cycles.get(cycle.id)).costs
        slots = np.repeat([each.slot for each in costs], [each.members for each in costs])
        moments: Floats = (slots + self._chance.random(len(slots))) * shape.slot_ms / 1_000
        return moments

    def _turns(self, cycle: Cycle, moment_s: float) -> Floats:
        period_s = cycle.period.total_seconds()
        since_s = (self._begin - cycle.origin).total_seconds()
        first_s = (moment_s - since_s) % period_s
        return np.arange(first_s, self.span_s, period_s)
