"""One run: its members come to the queue as the strategy says, and its workers take them.

A strategy is a generator: it yields how far the simulated time is, for a progress bar, and returns the run.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from timerd.simulate.durations import Durations, Floats, durations
from timerd.simulate.jobs import Ints, JobOutcome, SimulatedJobs, joined
from timerd.simulate.line import DueLine
from timerd.simulate.population import Population, population
from timerd.simulate.settings import Settings, Strategy, check
from timerd.simulate.workers import Workers

_MS = 1_000.0


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What was simulated."""

    settings: Settings
    members: Population
    jobs: SimulatedJobs


Playing = Generator[float, None, SimulatedRun]


@dataclass(slots=True)
class Stage:
    """What is served is kept."""

    settings: Settings
    members: Population
    workers: Workers
    durations: Durations
    chance: np.random.Generator
    parts: list[SimulatedJobs] = field(default_factory=list)

    def serve(self, members: Ints, queued_s: Floats) -> SimulatedJobs:
        """In this order, which is that of the queue."""
        takes_s = self.durations.draw(self.chance, len(members)) * self.members.cost[members]
        # Whole milliseconds, as the engine counts.
        takes_s = np.rint(takes_s * _MS) / _MS
        sources = self.members.source[members].tolist()
        started_s, ended_s, outcome = self.workers.serve(queued_s.tolist(), takes_s.tolist(), sources)
        served = SimulatedJobs(members, queued_s, np.array(started_s), np.array(ended_s), np.array(outcome, np.int8))
        self.parts.append(served)
        return served

    def run(self) -> SimulatedRun:
        return SimulatedRun(self.settings, self.members, joined(self.parts, self.settings.span_s))


def play(settings: Settings) -> Playing:
    """Raises Invalid before the first step."""
    check(settings)
    assert settings.strategy is not None
    expires = settings.strategy in (Strategy.SLOT, Strategy.SLOT2)
    workers = Workers(settings, settings.cycle_s) if expires else Workers(settings)
    drawn = durations(settings.mean_s, settings.p90_s)
    stage = Stage(settings, population(settings), workers, drawn, np.random.default_rng([settings.seed, 1]))
    return _STRATEGIES[settings.strategy](stage)


def _self(stage: Stage) -> Playing:
    """A job queues the next one of its member when it ends, a period later. So what is queued within a period is known
    when it begins."""
    settings = stage.settings
    next_s = stage.members.moment_ms / _MS
    begin_s = 0.0
    while begin_s < settings.span_s:
        begin_s += settings.cycle_s
        due = np.flatnonzero(next_s < begin_s)
        order = due[np.argsort(next_s[due], kind="stable")]
        served = stage.serve(order, next_s[order])
        next_s[order] = served.ended_s + settings.cycle_s
        yield min(begin_s, settings.span_s)
    return stage.run()


def _by_moment(stage: Stage, moment_ms: Ints) -> Playing:
    """Each member once a period, whatever became of it the last time."""
    settings = stage.settings
    order = np.lexsort((stage.members.moment_ms, moment_ms))
    first_s = moment_ms[order] / _MS
    for number in range(ceil(settings.span_s / settings.cycle_s)):
        begin_s = number * settings.cycle_s
        within = int(np.searchsorted(first_s, settings.span_s - begin_s))
        stage.serve(order[:within], first_s[:within] + begin_s)
        yield min(begin_s + settings.cycle_s, settings.span_s)
    return stage.run()


def _slot(stage: Stage) -> Playing:
    slot_ms = stage.settings.cycle.slot_ms
    return _by_moment(stage, stage.members.moment_ms // slot_ms * slot_ms)


def _slot2(stage: Stage) -> Playing:
    return _by_moment(stage, stage.members.moment_ms)


def _central(stage: Stage) -> Playing:
    """One loop looks for those that are due and not under way, and takes the one that succeeded longest ago first. A
    failure leaves a member where it was: at the head."""
    settings = stage.settings
    line = DueLine(stage.members.moment_ms / _MS, settings.cycle_s, settings.poll_s)
    for look in range(ceil(settings.span_s / settings.poll_s)):
        now_s = look * settings.poll_s
        taken = line.take(look, settings.batch_size)
        if len(taken):
            served = stage.serve(taken, np.full(len(taken), now_s))
            line.ended(look, taken, served.ended_s, served.outcome == JobOutcome.DONE)
        yield now_s
    return stage.run()


_STRATEGIES = {Strategy.SELF: _self, Strategy.CENTRAL: _central, Strategy.SLOT: _slot, Strategy.SLOT2: _slot2}
