"""Each strategy as a story of two members and one worker, computed by hand; and what holds for any run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from tests.simulate.playing import RUNS, SMALL, played, story
from timerd.simulate import Dependency, JobOutcome, Outage, Settings, SimulatedRun, Stop, Strategy
from timerd.simulate.population import population

BANK = (Dependency("bank", 0.5),)
# Member 0 belongs to the bank, member 1 does not.
BANKED = replace(
    SMALL,
    seed=next(n for n in range(99) if population(replace(SMALL, seed=n, sources=BANK)).source.tolist() == [0, -1]),
    sources=BANK,
    outages=(Outage("bank", 0, 150),),
    mean_s=10,
    p90_s=10,
    span_s=200,
)


def test_self_comes_a_period_after_its_end_and_drifts() -> None:
    assert story(played(SMALL)) == [
        (0, 37.47, 37.47, 67.47, "DONE"),
        (1, 42.0, 67.47, 97.47, "DONE"),
        (0, 167.47, 167.47, 197.47, "DONE"),
        (1, 197.47, 197.47, 227.47, "DONE"),
        (0, 297.47, 297.47, 327.47, "DONE"),
        (1, 327.47, 327.47, 357.47, "DONE"),
    ]


def test_slot2_comes_at_its_moment_each_period() -> None:
    assert story(played(SMALL, strategy=Strategy.SLOT2, span_s=300)) == [
        (0, 37.47, 37.47, 67.47, "DONE"),
        (1, 42.0, 67.47, 97.47, "DONE"),
        (0, 137.47, 137.47, 167.47, "DONE"),
        (1, 142.0, 167.47, 197.47, "DONE"),
        (0, 237.47, 237.47, 267.47, "DONE"),
        (1, 242.0, 267.47, 297.47, "DONE"),
    ]


def test_slot_brings_all_its_members_when_it_begins() -> None:
    # Of 4 slots, which begin at 0, 25, 50 and 75 s, both members are in the second.
    assert story(played(SMALL, strategy=Strategy.SLOT, slots=4, span_s=200)) == [
        (0, 25.0, 25.0, 55.0, "DONE"),
        (1, 25.0, 55.0, 85.0, "DONE"),
        (0, 125.0, 125.0, 155.0, "DONE"),
        (1, 125.0, 155.0, 185.0, "DONE"),
    ]


def test_central_looks_at_times_and_takes_what_is_due() -> None:
    assert story(played(SMALL, strategy=Strategy.CENTRAL)) == [
        (0, 40.0, 40.0, 70.0, "DONE"),
        (1, 50.0, 70.0, 100.0, "DONE"),
        (0, 170.0, 170.0, 200.0, "DONE"),
        (1, 200.0, 200.0, 230.0, "DONE"),
        (0, 300.0, 300.0, 330.0, "DONE"),
        (1, 330.0, 330.0, 360.0, "DONE"),
    ]


def test_central_is_clogged_by_a_member_that_fails() -> None:
    told = story(played(BANKED, strategy=Strategy.CENTRAL))
    tries = [(0, 40.0 + 10 * n, 40.0 + 10 * n, 50.0 + 10 * n, "FAILED") for n in range(11)]
    assert told == [*tries, (0, 150.0, 150.0, 160.0, "DONE"), (1, 160.0, 160.0, 170.0, "DONE")]


def test_slots_try_a_member_that_fails_once_a_period() -> None:
    assert story(played(BANKED, strategy=Strategy.SLOT2)) == [
        (0, 37.47, 37.47, 47.47, "FAILED"),
        (1, 42.0, 47.47, 57.47, "DONE"),
        (0, 137.47, 137.47, 147.47, "FAILED"),
        (1, 142.0, 147.47, 157.47, "DONE"),
    ]


def test_a_try_may_take_another_time_to_fail() -> None:
    timeouts = (Outage("bank", 0, 100, attempt_s=45),)
    assert story(played(BANKED, strategy=Strategy.SLOT2, outages=timeouts)) == [
        (0, 37.47, 37.47, 82.47, "FAILED"),
        (1, 42.0, 82.47, 92.47, "DONE"),
        (0, 137.47, 137.47, 147.47, "DONE"),
        (1, 142.0, 147.47, 157.47, "DONE"),
    ]


def test_a_slot_that_finds_no_worker_within_a_period_expires() -> None:
    assert story(played(SMALL, strategy=Strategy.SLOT2, mean_s=149, p90_s=149)) == [
        (0, 37.47, 37.47, 186.47, "DONE"),
        (1, 42.0, np.inf, 142.0, "EXPIRED"),
        (0, 137.47, 186.47, 335.47, "DONE"),
        (1, 142.0, np.inf, 242.0, "EXPIRED"),
        (0, 237.47, 335.47, 484.47, "RUNNING"),
        (1, 242.0, np.inf, 342.0, "EXPIRED"),
        (0, 337.47, np.inf, 437.47, "WAITING"),
        (1, 342.0, np.inf, 442.0, "WAITING"),
    ]


def test_workers_that_stand_still_start_nothing_and_finish_what_they_have() -> None:
    stops = (Stop(40, 60), Stop(60, 80))
    assert story(played(SMALL, strategy=Strategy.SLOT2, stops=stops, span_s=100)) == [
        (0, 37.47, 37.47, 67.47, "DONE"),
        (1, 42.0, 80.0, 110.0, "RUNNING"),
    ]


def test_a_member_costs_by_zipf() -> None:
    run = played(SMALL, strategy=Strategy.SLOT2, zipf=1.0, workers=2, span_s=100, slots=1)
    # 1 and 1/2, whose mean is 3/4: a job of 30 s takes 40 s or 20 s.
    took = (run.jobs.ended_s - run.jobs.started_s).tolist()
    assert sorted(took) == pytest.approx([20, 40])


@given(RUNS)
@settings(deadline=None, max_examples=150)
def test_of_any_run(given_settings: Settings) -> None:
    run = played(given_settings)
    check_queue(run)
    check_workers(run)
    check_rhythm(run)


def check_queue(run: SimulatedRun) -> None:
    """Jobs come in order, start in order, and have all become something."""
    jobs, span_s = run.jobs, run.settings.span_s
    assert (np.diff(jobs.queued_s) >= 0).all()
    assert (jobs.queued_s < span_s).all()
    started = jobs.started_s[np.isfinite(jobs.started_s)]
    assert (np.diff(started) >= 0).all()
    assert (jobs.started_s >= jobs.queued_s).all()
    assert (
        np.isfinite(jobs.started_s).tolist() == jobs.of(JobOutcome.DONE, JobOutcome.FAILED, JobOutcome.RUNNING).tolist()
    )
    assert (jobs.ended_s < span_s).tolist() == jobs.of(JobOutcome.DONE, JobOutcome.FAILED, JobOutcome.EXPIRED).tolist()


def check_workers(run: SimulatedRun) -> None:
    """No more at once than there are, none idle while a job waits, and none begins while they stand still."""
    jobs, workers = run.jobs, run.settings.workers
    has = np.isfinite(jobs.started_s)
    started, ended, queued = jobs.started_s[has], jobs.ended_s[has], jobs.queued_s[has]
    stops = [(each.from_s, each.to_s) for each in run.settings.stops]
    assert not any(((started >= from_s) & (started < to_s)).any() for from_s, to_s in stops)
    for at in range(len(started)):
        earlier = slice(0, at)
        assert ((started[earlier] <= started[at]) & (ended[earlier] > started[at])).sum() < workers
        if started[at] > queued[at] and started[at] not in [to_s for _, to_s in stops]:
            assert started[at] in ended[earlier]


def check_rhythm(run: SimulatedRun) -> None:
    """By their strategy, members come once a period, or once at a time."""
    jobs, settings = run.jobs, run.settings
    if settings.strategy in (Strategy.SLOT, Strategy.SLOT2):
        cycles = (jobs.queued_s // settings.cycle_s).astype(int).tolist()
        assert set(Counter(zip(jobs.member.tolist(), cycles, strict=True)).values()) <= {1}
        whole = int(settings.span_s // settings.cycle_s)
        assert len(jobs) >= whole * settings.members
        return
    for member in range(settings.members):
        own = jobs.member == member
        ended = np.where(jobs.of(JobOutcome.DONE, JobOutcome.FAILED)[own], jobs.ended_s[own], np.inf)
        assert (jobs.queued_s[own][1:] >= ended[:-1]).all()


@pytest.mark.parametrize("strategy", list(Strategy))
def test_the_same_seed_is_the_same_run(strategy: Strategy) -> None:
    given_settings = replace(SMALL, strategy=strategy, members=300, p90_s=60, workers=20, batch=0, sources=BANK)
    one, same, other = (story(played(given_settings, seed=seed)) for seed in (3, 3, 4))
    assert one == same
    assert one != other
