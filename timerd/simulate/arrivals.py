"""Jobs whose instants are given, as those of the schedules of a server: they come whatever becomes of others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from timerd.model.errors import Invalid
from timerd.simulate.durations import Floats, durations
from timerd.simulate.jobs import Ints
from timerd.simulate.play import Playing, Stage
from timerd.simulate.population import NO_SOURCE, Population
from timerd.simulate.settings import MAX_JOBS, MAX_MEMBERS, Settings, check
from timerd.simulate.workers import Workers

# Served between two looks at the bar.
_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class JobArrivals:
    """Who comes to the queue, and when: `member` counts from 0, `at_s` ascends. Made by `arrivals`."""

    member: Ints
    at_s: Floats
    members: int

    @property
    def longest_gap_s(self) -> float:
        """Of a member between two of its jobs; 0: nobody has two."""
        order = np.lexsort((self.at_s, self.member))
        gaps_s = np.diff(self.at_s[order])[np.diff(self.member[order]) == 0]
        return float(gaps_s.max()) if len(gaps_s) else 0.0


def arrivals(instants_s: list[Floats]) -> JobArrivals:
    """Those of each member."""
    member = np.repeat(np.arange(len(instants_s)), [len(each) for each in instants_s])
    at_s = np.concatenate([*instants_s, np.zeros(0)])
    order = np.argsort(at_s, kind="stable")
    return JobArrivals(member[order], at_s[order], len(instants_s))


def play_arrivals(settings: Settings, given: JobArrivals) -> Playing:
    """`settings` without a strategy. Raises Invalid before the first step."""
    if len(given.at_s) > MAX_JOBS:
        raise Invalid(f"There are {len(given.at_s):,} jobs: at most {MAX_JOBS:,} are. Take a shorter span.", "jobs")
    if given.members > MAX_MEMBERS:
        raise Invalid(f"{given.members:,} have jobs: at most {MAX_MEMBERS:,} may. Take one queue of them.", "members")
    check(settings)
    some = given.members
    population = Population(np.zeros(some, np.int64), np.full(some, NO_SOURCE), np.ones(some))
    chance = np.random.default_rng([settings.seed, 1])
    stage = Stage(settings, population, Workers(settings), durations(settings.mean_s, settings.p90_s), chance)
    return _in_order(stage, given)


def _in_order(stage: Stage, given: JobArrivals) -> Playing:
    for at in range(0, len(given.at_s), _AT_ONCE):
        part = slice(at, at + _AT_ONCE)
        stage.serve(given.member[part], given.at_s[part])
        yield float(given.at_s[part][-1])
    return stage.run()
