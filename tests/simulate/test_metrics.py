"""Metrics are what one counts who looks at the end of each tick."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulate.playing import RUNS, SMALL, played
from timerd.simulate import Dependency, JobOutcome, Outage, Settings, SimulatedRun, Strategy, measure, summarize
from timerd.simulate.metrics import KNOWN
from timerd.simulate.population import healthy


@dataclass(frozen=True)
class Job:
    member: int
    queued_s: float
    started_s: float
    ended_s: float
    outcome: JobOutcome

    @property
    def left_s(self) -> float:
        """From when on it does not wait."""
        return self.ended_s if self.outcome is JobOutcome.EXPIRED else self.started_s


class Watcher:
    """Looks at one tick of a run, job by job."""

    def __init__(self, run: SimulatedRun, tick: int) -> None:
        jobs, self.run = run.jobs, run
        columns = (jobs.member, jobs.queued_s, jobs.started_s, jobs.ended_s)
        rows = zip(*(column.tolist() for column in columns), map(JobOutcome, jobs.outcome.tolist()), strict=True)
        self.jobs = [Job(*row) for row in rows]
        self.from_s, self.to_s = tick * run.settings.tick_s, (tick + 1) * run.settings.tick_s

    def within(self, instant: Callable[[Job], float], *outcomes: JobOutcome) -> list[Job]:
        chosen = [job for job in self.jobs if not outcomes or job.outcome in outcomes]
        return [job for job in chosen if self.from_s <= instant(job) < self.to_s]

    def last_runs(self) -> list[float]:
        """By member, 0 where it has not run."""
        ended = [
            (job.member, job.ended_s) for job in self.jobs if job.outcome is JobOutcome.DONE and job.ended_s < self.to_s
        ]
        return [
            max([at for who, at in ended if who == member], default=0.0) for member in range(self.run.settings.members)
        ]

    def seen(self) -> dict[str, float]:
        last = self.last_runs()
        chosen = [at for at, up in zip(last, healthy(self.run.settings, self.run.members), strict=True) if up]
        since = [self.to_s - at for at in chosen if at > 0]
        delays = [job.started_s - job.queued_s for job in self.within(lambda job: job.started_s)]
        counts = {
            name: self.within(lambda job: job.ended_s, JobOutcome[name.upper()])
            for name in ("done", "failed", "expired")
        }
        return {
            "queued": len(self.within(lambda job: job.queued_s)),
            "started": len(delays),
            **{name: len(found) for name, found in counts.items()},
            "depth": sum(job.queued_s < self.to_s <= job.left_s for job in self.jobs),
            "executing": sum(job.started_s < self.to_s <= job.ended_s for job in self.jobs),
            "delay_mean_s": sum(delays) / len(delays) if delays else math.nan,
            "delay_max_s": max(delays, default=math.nan),
            "since_last_mean_s": sum(since) / len(since) if since else math.nan,
            "since_last_max_s": max(since, default=math.nan),
            "overdue": sum(at + 2 * self.run.settings.cycle_s < self.to_s for at in chosen),
            "never_run": last.count(0.0),
        }


@given(RUNS, st.sampled_from([0.5, 10.0, 60.0]), st.data())
@settings(deadline=None, max_examples=100)
def test_each_metric_is_what_a_watcher_sees(given_settings: Settings, tick_s: float, data: st.DataObject) -> None:
    run = played(given_settings, tick_s=tick_s)
    found = measure(run).columns
    assert list(found) == [each.name for each in KNOWN]
    assert {len(column) for column in found.values()} == {run.settings.ticks}
    tick = data.draw(st.integers(0, math.floor(run.settings.span_s / tick_s) - 1))
    seen = Watcher(run, tick).seen()
    assert {name: column[tick] for name, column in found.items()} == pytest.approx(seen, nan_ok=True, abs=1e-6)


def test_a_summary_by_hand() -> None:
    # Jobs of 149 s every 100 s: one member's run, the other's never are.
    run = played(SMALL, strategy=Strategy.SLOT2, mean_s=149, p90_s=149)
    told = summarize(run, measure(run))
    assert (told.jobs, told.done, told.expired, told.waiting, told.failed) == (8, 2, 3, 2, 0)
    assert told.busy == pytest.approx((400 - 37.47) / 400, abs=1e-4)
    assert told.never_run == 1
    # Who never ran is overdue from 200 s on, the other one, whose run ended at 186 s and at 335 s, never.
    assert (told.overdue_max, told.clogged_s) == (0.5, 200)
    assert told.delay_max_s == pytest.approx(335.47 - 237.47, abs=0.01)
    # The second run ends 149 s after the first.
    assert told.since_last_max_s == pytest.approx(148.53, abs=0.01)
    assert told.spike == 1 / (8 / 400)


def test_who_ends_as_a_tick_does_belongs_to_the_next() -> None:
    run = played(SMALL, strategy=Strategy.SLOT, slots=1, mean_s=10, p90_s=10, tick_s=10)
    found = measure(run).columns
    # Member 0 ends at 10, 110 and so on, member 1 at 20, 120.
    assert found["since_last_max_s"][:3].tolist() == pytest.approx([np.nan, 10, 20], nan_ok=True)
    assert found["since_last_max_s"][9:13].tolist() == [90, 100, 100, 20]
    assert found["done"][:3].tolist() == [0, 1, 1]


def test_a_run_without_jobs_has_a_summary() -> None:
    run = played(SMALL, span_s=20)
    told = summarize(run, measure(run))
    assert (told.jobs, told.busy, told.spike, told.never_run, told.since_last_max_s) == (0, 0, 0, 2, 20)


def test_members_of_a_source_that_is_down_do_not_count_as_overdue() -> None:
    always = replace(
        SMALL, sources=(Dependency("bank", 1.0),), outages=(Outage("bank", 0, 400),), strategy=Strategy.SLOT2
    )
    run = played(always)
    found = measure(run)
    assert found.healthy == 0
    assert found.columns["overdue"].max() == 0
    assert found.columns["never_run"].min() == 2
    assert np.isnan(found.columns["since_last_max_s"]).all()
