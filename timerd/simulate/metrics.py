"""What is measured of a run: one value per tick for each metric, made from the columns of its jobs.

Counts are those within a tick, states those at its end. The times since the last run are of members whose source is
never down: who depends on one that is down cannot run, and hides how the others fare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from timerd.simulate.durations import Floats
from timerd.simulate.jobs import Flags, Ints, JobOutcome, SimulatedJobs
from timerd.simulate.play import SimulatedRun
from timerd.simulate.population import healthy
from timerd.simulate.settings import Settings

# A member has missed a run when its last one is so many cycles ago.
OVERDUE_CYCLES = 2


class Metric(NamedTuple):
    name: str
    unit: str
    meaning: str


KNOWN = (
    Metric("queued", "jobs", "came to the queue within the tick"),
    Metric("started", "jobs", "were taken by a worker"),
    Metric("done", "jobs", "ended well"),
    Metric("failed", "jobs", "failed, since their source was down"),
    Metric("expired", "jobs", "were dropped, since their member came again before they were started"),
    Metric("depth", "jobs", "wait in the queue at the end of the tick"),
    Metric("executing", "jobs", "are in the hands of workers"),
    Metric("delay_mean_s", "s", "from the queue to the worker, of those that started within the tick"),
    Metric("delay_max_s", "s", "the longest of these"),
    Metric("since_last_mean_s", "s", "since the last run, of members that have run and whose source is never down"),
    Metric("since_last_max_s", "s", "the longest of these"),
    Metric("overdue", "members", "whose source is never down, and whose last run is more than two cycles ago"),
    Metric("never_run", "members", "have not run yet"),
)


@dataclass(frozen=True, slots=True)
class Metrics:
    """`columns` by the names of KNOWN. NaN: there is no such job or member."""

    settings: Settings
    columns: dict[str, Floats]
    # Members whose source is never down.
    healthy: int


@dataclass(frozen=True, slots=True)
class _Runs:
    """Each time a member has run, by member and then by time, with that of its next run."""

    member: Ints
    ended_s: Floats
    next_s: Floats

    @property
    def firsts_s(self) -> Floats:
        begins: Flags = np.diff(self.member, prepend=-1) != 0
        return self.ended_s[begins]

    def of(self, chosen: Flags) -> _Runs:
        """Of the members that are chosen."""
        kept = chosen[self.member]
        return _Runs(self.member[kept], self.ended_s[kept], self.next_s[kept])


def measure(run: SimulatedRun) -> Metrics:
    settings, jobs = run.settings, run.jobs
    clock = _Clock(settings.ticks, settings.tick_s)
    whole = healthy(settings, run.members)
    every = _runs(jobs)
    runs = every.of(whole)
    columns = {
        **_counts(jobs, clock),
        **_delays(jobs, clock),
        **_since_last(runs, clock),
        "overdue": _overdue(runs, clock, int(whole.sum()), OVERDUE_CYCLES * settings.cycle_s),
        "never_run": settings.members - clock.until(every.firsts_s),
    }
    return Metrics(settings, {each.name: columns[each.name] for each in KNOWN}, int(whole.sum()))


class _Clock(NamedTuple):
    ticks: int
    tick_s: float

    def tick(self, at_s: Floats) -> Ints:
        """Of the ticks in which these are; what is later comes into one behind the last."""
        return np.minimum(at_s / self.tick_s, self.ticks).astype(np.int64)

    def within(self, at_s: Floats, weights: Floats | None = None) -> Floats:
        """How many are in each tick, or the sum of their weights."""
        counted = np.bincount(self.tick(at_s), weights, self.ticks + 1)
        return counted[: self.ticks].astype(np.float64)

    def until(self, at_s: Floats, weights: Floats | None = None) -> Floats:
        """The same, summed up to the end of each tick."""
        return np.cumsum(self.within(at_s, weights))

    @property
    def ends_s(self) -> Floats:
        return np.arange(1, self.ticks + 1, dtype=np.float64) * self.tick_s


def _counts(jobs: SimulatedJobs, clock: _Clock) -> dict[str, Floats]:
    started = jobs.started_s[np.isfinite(jobs.started_s)]
    by_outcome = {name: jobs.ended_s[jobs.of(JobOutcome[name.upper()])] for name in ("done", "failed", "expired")}
    left = clock.until(started) + clock.until(by_outcome["expired"])
    back = clock.until(by_outcome["done"]) + clock.until(by_outcome["failed"])
    return {
        "queued": clock.within(jobs.queued_s),
        "started": clock.within(started),
        **{name: clock.within(ended) for name, ended in by_outcome.items()},
        "depth": clock.until(jobs.queued_s) - left,
        "executing": clock.until(started) - back,
    }


def _delays(jobs: SimulatedJobs, clock: _Clock) -> dict[str, Floats]:
    has = np.isfinite(jobs.started_s)
    started, delay_s = jobs.started_s[has], (jobs.started_s - jobs.queued_s)[has]
    longest = np.full(clock.ticks + 1, np.nan)
    np.fmax.at(longest, clock.tick(started), delay_s)
    with np.errstate(invalid="ignore"):
        mean = clock.within(started, delay_s) / clock.within(started)
    return {"delay_mean_s": mean, "delay_max_s": longest[: clock.ticks]}


def _runs(jobs: SimulatedJobs) -> _Runs:
    well = jobs.of(JobOutcome.DONE)
    member, ended_s = jobs.member[well], jobs.ended_s[well]
    order = np.lexsort((ended_s, member))
    member, ended_s = member[order], ended_s[order]
    next_s = np.append(ended_s[1:], np.inf)[: len(ended_s)]
    next_s[np.diff(member, append=-1) != 0] = np.inf
    return _Runs(member, ended_s, next_s)


def _since_last(runs: _Runs, clock: _Clock) -> dict[str, Floats]:
    """A run is a member's last one until its next. The sum of these instants gives the mean; the earliest of them is
    found in the order of the runs, where the first that is not yet followed by another is the oldest."""
    have_run = clock.until(runs.firsts_s)
    goes_on = np.isfinite(runs.next_s)
    instants = clock.until(runs.ended_s, runs.ended_s) - clock.until(runs.next_s[goes_on], runs.ended_s[goes_on])
    order = np.argsort(runs.ended_s, kind="stable")
    followed_s = np.maximum.accumulate(runs.next_s[order]) if len(order) else runs.next_s
    at = np.searchsorted(followed_s, clock.ends_s)
    oldest = np.append(runs.ended_s[order], np.nan)[at]
    with np.errstate(invalid="ignore"):
        mean = clock.ends_s - instants / have_run
    longest = np.where(have_run > 0, clock.ends_s - oldest, np.nan)
    return {"since_last_mean_s": mean, "since_last_max_s": longest}


def _overdue(runs: _Runs, clock: _Clock, members: int, limit_s: float) -> Floats:
    """Who has not run at all counts as run at the beginning."""
    ended_s = np.concatenate([np.zeros(members), runs.ended_s])
    unborn = np.full(members - len(runs.firsts_s), np.inf)
    next_s = np.concatenate([runs.firsts_s, unborn, runs.next_s])
    late = ended_s + limit_s < next_s
    return clock.until(ended_s[late] + limit_s) - clock.until(next_s[late])
