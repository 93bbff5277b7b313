"""A run played to its end, and settings small enough to follow by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from timerd.simulate import Dependency, JobOutcome, Outage, Settings, SimulatedRun, Stop, Strategy, play

# Of a cycle of 100 s: hash(0) / 2^64 = 0.3747, hash(1) / 2^64 = 0.4200.
# All jobs take 30 s: where the p90 is the mean, they are all of it.
SMALL = Settings(Strategy.SELF, members=2, cycle_s=100, span_s=400, workers=1, mean_s=30, p90_s=30, poll_s=10, batch=1)

# Few members and bad times, in which everything happens.
RUNS = st.builds(
    Settings,
    st.sampled_from(list(Strategy)),
    members=st.integers(1, 40),
    cycle_s=st.sampled_from([60.0, 100.0, 3_600.0]),
    span_s=st.sampled_from([130.0, 250.0, 1_000.0]),
    workers=st.integers(1, 4),
    mean_s=st.just(4.0),
    p90_s=st.sampled_from([4.0, 8.0, 20.0]),
    sources=st.just((Dependency("bank", 0.3), Dependency("mail", 0.3))),
    outages=st.sampled_from([(), (Outage("bank", 0.0, 300.0), Outage("mail", 100.0, 120.0, 30.0))]),
    stops=st.sampled_from([(), (Stop(50.0, 90.0),)]),
    zipf=st.sampled_from([0.0, 1.1]),
    poll_s=st.sampled_from([1.0, 7.0, 60.0]),
    batch=st.integers(0, 5),
    seed=st.integers(0, 1_000),
)


def played(settings: Settings, **changed: Any) -> SimulatedRun:  # noqa: ANN401 - fields of Settings
    playing = play(replace(settings, **changed))
    try:
        while True:
            next(playing)
    except StopIteration as ended:
        run: SimulatedRun = ended.value
        return run


def story(run: SimulatedRun) -> list[tuple[int, float, float, float, str]]:
    """(member, queued, started, ended, what became of it) of each job, in the order of the queue."""
    jobs = run.jobs
    columns = (jobs.member, jobs.queued_s.round(2), jobs.started_s.round(2), jobs.ended_s.round(2))
    rows = zip(*(column.tolist() for column in columns), jobs.outcome.tolist(), strict=True)
    return [(member, queued, started, ended, JobOutcome(end).name) for member, queued, started, ended, end in rows]
