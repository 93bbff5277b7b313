"""One rehearsal: the members come to a queue of the server as the strategy says, by its own calls and cycles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil

import numpy as np

from timerd.client import Client
from timerd.model.errors import Invalid
from timerd.rehearsal.crew import MEMBERS, ONCE, Crew, EnactedJob, OnEnded, columns_of, nothing_follows
from timerd.rehearsal.looks import Looks
from timerd.simulate import JobOutcome, Settings, SimulatedRun, Strategy, check
from timerd.simulate.jobs import joined
from timerd.simulate.population import Population, population
from timerd.testing import Server

# A job takes some hundredths of a second.
MAX_ENGINE_JOBS = 20_000
# How often who waits is told how far it is.
_STEPS = 200
_PATIENCE_S = 120.0
# (member, milliseconds from the beginning at which it comes to the queue)
Expected = set[tuple[int, int]]


def check_engine(settings: Settings) -> None:
    """Raises Invalid."""
    check(settings)
    jobs = settings.members * settings.span_s / settings.cycle_s
    if jobs > MAX_ENGINE_JOBS:
        raise Invalid(
            f"There would be about {jobs:,.0f} jobs: the engine plays at most {MAX_ENGINE_JOBS:,}. Take fewer members, "
            "a shorter span, or the queue model.",
            "jobs",
        )


async def rehearse(settings: Settings, reached: Callable[[float], None]) -> SimulatedRun:
    """`reached` is told how far it is, in simulated seconds. Raises Invalid before the first step."""
    check_engine(settings)
    assert settings.strategy is not None
    members = population(settings)
    async with Server(patience_s=_PATIENCE_S) as server:
        stage = _EngineStage(server, server.client(), settings, members)
        await stage.crew.start(await _STRATEGIES[settings.strategy](stage))
        for step in range(1, _STEPS + 1):
            at_s = settings.span_s * step / _STEPS
            await server.advance_to(stage.at(at_s))
            reached(at_s)
        return SimulatedRun(settings, members, joined([columns_of(stage.jobs())], settings.span_s))


@dataclass
class _EngineStage:
    """`expected`: jobs that come to the queue whatever becomes of others."""

    server: Server
    client: Client
    settings: Settings
    members: Population
    expected: Expected = field(default_factory=set)

    def __post_init__(self) -> None:
        self.begin: datetime = self.server.now
        self.crew = Crew(self.server, self.settings, self.members, self.begin)

    def jobs(self) -> list[EnactedJob]:
        """Those that never started as well: what has waited for a whole period expired."""
        begun = {(job.member, round(job.queued_s * 1_000)) for job in self.crew.jobs}
        never = [self._unstarted(*each) for each in self.expected - begun]
        return [*self.crew.jobs, *never]

    def _unstarted(self, member: int, queued_ms: int) -> EnactedJob:
        queued_s = queued_ms / 1_000
        over_s = queued_s + self.settings.cycle_s
        is_over = over_s < self.settings.span_s
        outcome = JobOutcome.EXPIRED if is_over else JobOutcome.WAITING
        return EnactedJob(member, queued_s, np.inf, over_s if is_over else np.inf, outcome)

    def at(self, seconds: float) -> datetime:
        return self.begin + timedelta(milliseconds=round(seconds * 1_000))

    def expects(self, moment_ms: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
        """Each member at its moment of each period."""
        for number in range(ceil(self.settings.span_s / self.settings.cycle_s)):
            at_ms = moment_ms + number * round(self.settings.cycle_s * 1_000)
            found = np.flatnonzero(at_ms < self.settings.span_s * 1_000)
            self.expected.update(zip(found.tolist(), at_ms[found].tolist(), strict=True))


async def _self(stage: _EngineStage) -> OnEnded:
    """A job schedules the next one of its member when it ends."""
    settings = stage.settings

    async def follow(job: EnactedJob) -> None:
        next_s = job.ended_s + settings.cycle_s
        if next_s < settings.span_s:
            await stage.client.schedule(MEMBERS, str(job.member), at=stage.at(next_s), options=ONCE)

    await _schedule(stage, range(settings.members), stage.members.moment_ms.tolist())
    return follow


async def _slot(stage: _EngineStage) -> OnEnded:
    """All members of a slot when it begins."""
    slot_ms, cycle_ms = stage.settings.cycle.slot_ms, round(stage.settings.cycle_s * 1_000)
    begin_ms = stage.members.moment_ms // slot_ms * slot_ms
    stage.expects(begin_ms)
    for number in range(ceil(stage.settings.span_s / stage.settings.cycle_s)):
        for at_ms in np.unique(begin_ms).tolist():
            within = np.flatnonzero(begin_ms == at_ms).tolist()
            place_ms = at_ms + number * cycle_ms
            await _schedule(stage, within, [place_ms] * len(within), place_ms + cycle_ms)
    return nothing_follows


async def _slot2(stage: _EngineStage) -> OnEnded:
    """By a cycle of the server, which keeps the members and gives each its moment."""
    settings = stage.settings
    stage.expects(stage.members.moment_ms)
    every, origin = timedelta(seconds=settings.cycle_s), stage.begin
    slots = settings.cycle.slots
    await stage.client.cycles.create("members", every=every, slots=slots, queue=MEMBERS, origin=origin, options=ONCE)
    await stage.client.cycles.put("members", range(settings.members))
    return nothing_follows


async def _central(stage: _EngineStage) -> OnEnded:
    """A task that looks, and schedules the next one of its kind."""
    looks = Looks(stage.server, stage.client, stage.settings, stage.members, stage.begin)
    await looks.start()
    return looks.ended


async def _schedule(stage: _EngineStage, members: range | list[int], at_ms: list[int], expire_ms: int = 0) -> None:
    begin_ms = round(stage.begin.timestamp() * 1_000)
    options = replace(ONCE, expire_at=stage.at(expire_ms / 1_000)) if expire_ms else ONCE
    payloads = [str(member) for member in members]
    await stage.client.schedule_columns(MEMBERS, payloads, [begin_ms + each for each in at_ms], options=options)


_STRATEGIES: dict[Strategy, Callable[[_EngineStage], Awaitable[OnEnded]]] = {
    Strategy.SELF: _self,
    Strategy.CENTRAL: _central,
    Strategy.SLOT: _slot,
    Strategy.SLOT2: _slot2,
}
