"""The claim of the talk: least recent first clogs where a source is down, slots do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.simulate.playing import played
from timerd.simulate import PRESETS, SimulatedJobs, SimulatedRun, Stop, Strategy, Summary, measure, summarize
from timerd.simulate.population import healthy
from timerd.simulate.presets import DEFAULT

DAY_S = 86_400.0
# A fifteenth of the talk's shape, for one worker.
SMALLER = {"members": 4_066, "workers": 1, "tick_s": 60.0, "span_s": 4 * DAY_S}

STOP = Stop(DAY_S, DAY_S + 4 * 3_600)


def small(name: str) -> tuple[SimulatedRun, Summary]:
    run = played(PRESETS[name], **SMALLER)
    return run, summarize(run, measure(run))


def test_least_recent_first_clogs() -> None:
    run, told = small("talk-central")
    assert run.settings.outages[0].to_s - run.settings.outages[0].from_s == DAY_S
    # Nearly everyone whose source is up has missed a run, for most of the outage.
    assert told.overdue_max > 0.9
    assert told.clogged_s > 12 * 3_600
    assert told.since_last_max_s > DAY_S
    # Nearly all that the workers do is to try again what fails.
    jobs = run.jobs
    within = (jobs.started_s > 2.1 * DAY_S) & (jobs.started_s < 2.9 * DAY_S)
    assert (run.members.source[jobs.member[within]] == 0).mean() > 0.95


@pytest.mark.parametrize("name", ["talk-slot", "talk-slot2"])
def test_slots_do_not_clog(name: str) -> None:
    run, told = small(name)
    assert (told.overdue_max, told.clogged_s, told.never_run, told.expired) == (0, 0, 0, 0)
    assert told.failed > 0.9 * 3 * 0.3 * run.settings.members
    # Nobody else notices: each job of theirs starts when it starts without the outage.
    calm = played(replace(run.settings, outages=()))
    theirs = healthy(run.settings, run.members)
    assert starts(run.jobs, theirs) == starts(calm.jobs, theirs)


def starts(jobs: SimulatedJobs, theirs: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> list[float]:
    chosen: list[float] = jobs.started_s[theirs[jobs.member]].tolist()
    return chosen


def test_slots_come_a_fraction_at_a_time() -> None:
    minutes = {name: ingress(name) for name in ("talk-slot", "talk-slot2")}
    # 480 slots of a minute: each brings its 1 / 480 of the members, give or take chance.
    for found in minutes.values():
        assert found.mean() == pytest.approx(4_066 / 480, rel=0.01)
        assert found.max() < 3 * found.mean()


def ingress(name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return measure(small(name)[0]).columns["queued"]


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_are_in_working_order(name: str) -> None:
    _, told = small(name)
    assert 0.5 < told.busy < 0.95 or name == "talk-email"
    assert told.never_run == 0


def test_what_stood_still_comes_in_a_wave_for_ever_but_for_slots() -> None:
    """Shares of the time in which nothing comes: a wave has gaps between."""
    stopped = replace(DEFAULT, members=4_000, workers=1, tick_s=600.0, span_s=4 * DAY_S, stops=(STOP,))
    quiet = {}
    for strategy in Strategy:
        run = played(replace(stopped, strategy=strategy))
        quiet[strategy] = float((measure(run).columns["queued"][-144:] == 0).mean())
    assert quiet[Strategy.SLOT] == quiet[Strategy.SLOT2] == 0
    assert min(quiet[Strategy.SELF], quiet[Strategy.CENTRAL]) > 0.2
