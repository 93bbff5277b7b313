"""The queue model and the engine play the same: each job starts at the same instant."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from tests.simulate.playing import played
from timerd.model.errors import Invalid
from timerd.rehearsal import check_engine, rehearse
from timerd.simulate import Dependency, JobOutcome, Outage, Settings, SimulatedRun, Stop, Strategy

# Three of four workers' seconds are taken.
FEW = Settings(Strategy.SELF, members=40, cycle_s=60, span_s=120, workers=2, mean_s=2.2, p90_s=4.2, slots=12, poll_s=5)
DOWN = replace(FEW, sources=(Dependency("bank", 0.3),), outages=(Outage("bank", 30, 90),))


def rehearsed(settings: Settings) -> SimulatedRun:
    return asyncio.run(rehearse(settings, lambda at_s: None))


def starts(run: SimulatedRun) -> list[int]:
    """In milliseconds."""
    started_s = run.jobs.started_s[np.isfinite(run.jobs.started_s)]
    return sorted(np.rint(started_s * 1_000).astype(int).tolist())


def story(run: SimulatedRun) -> list[tuple[int, int, str]]:
    """(member, start, what became of it), by the start."""
    order = np.argsort(run.jobs.started_s, kind="stable")
    columns = run.jobs.member[order].tolist(), run.jobs.started_s[order].tolist(), run.jobs.outcome[order].tolist()
    rows = zip(*columns, strict=True)
    return [(member, round(at_s * 1_000), JobOutcome(end).name) for member, at_s, end in rows if at_s != np.inf]


@pytest.mark.parametrize("strategy", Strategy)
def test_each_job_starts_when_the_model_says(strategy: Strategy) -> None:
    settings = replace(FEW, strategy=strategy)
    assert starts(rehearsed(settings)) == starts(played(settings))


@pytest.mark.parametrize("strategy", [Strategy.SELF, Strategy.SLOT2])
def test_who_fails_is_the_same(strategy: Strategy) -> None:
    settings = replace(DOWN, strategy=strategy)
    by_engine = story(rehearsed(settings))
    assert by_engine == story(played(settings))
    assert "FAILED" in {outcome for _, _, outcome in by_engine}


def test_least_recent_first_clogs_on_the_engine_as_well() -> None:
    """Within an instant the order of the queue is not the model's, so who comes when is not the same to the second."""
    settings = replace(DOWN, strategy=Strategy.CENTRAL, workers=1, mean_s=1.0, p90_s=2.0, span_s=150)
    by_engine, by_model = rehearsed(settings), played(settings)
    failed = [int(run.jobs.of(JobOutcome.FAILED).sum()) for run in (by_engine, by_model)]
    assert failed[0] > 30
    assert failed[0] == pytest.approx(failed[1], rel=0.15)


def test_what_waits_for_a_period_expires() -> None:
    settings = replace(FEW, strategy=Strategy.SLOT2, mean_s=4.0, p90_s=4.0, workers=1, span_s=180)
    expired = int(rehearsed(settings).jobs.of(JobOutcome.EXPIRED).sum())
    assert expired > 5
    assert expired == pytest.approx(int(played(settings).jobs.of(JobOutcome.EXPIRED).sum()), abs=5)


def test_workers_that_stand_still() -> None:
    settings = replace(FEW, strategy=Strategy.SLOT2, stops=(Stop(10, 30),))
    found = starts(rehearsed(settings))
    assert found == starts(played(settings))
    assert not [at_ms for at_ms in found if 10_000 <= at_ms < 30_000]


def test_too_many_jobs_are_refused() -> None:
    with pytest.raises(Invalid, match="the engine plays at most 20,000"):
        check_engine(replace(FEW, members=20_000))


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("members", "workers"), [(1_000, 8), (5_000, 40)])
def test_thousands_of_jobs_start_when_the_model_says(members: int, workers: int) -> None:
    """Of the many some come to the queue at the same millisecond, and some workers are free at the same one."""
    few = Settings(Strategy.SLOT2, members=members, cycle_s=300, span_s=600, workers=workers, mean_s=2.0, p90_s=4.0)
    settings = replace(few, slots=60)
    by_engine = starts(rehearsed(settings))
    assert len(by_engine) > 1.98 * members
    assert by_engine == starts(played(settings))
