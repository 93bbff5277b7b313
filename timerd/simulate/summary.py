"""A run in a few figures: what clogged, how uneven the ingress was, and who never ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from timerd.simulate.jobs import JobOutcome
from timerd.simulate.metrics import Metrics
from timerd.simulate.play import SimulatedRun

# From this share of the members on that have missed a run although they could run, the queue counts as clogged.
CLOGGED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Summary:
    """`busy` is the share of the workers' time. `delay`: from the queue to a worker. `clogged_s`: how long more than 1%
    of the members whose source is never down were overdue; `overdue_max` is the largest such share. `spike`: the
    busiest tick's ingress over that of the mean tick."""

    jobs: int
    done: int
    failed: int
    expired: int
    waiting: int
    busy: float
    delay_p50_s: float
    delay_p99_s: float
    delay_max_s: float
    since_last_max_s: float
    overdue_max: float
    clogged_s: float
    spike: float
    never_run: int


def summarize(run: SimulatedRun, metrics: Metrics) -> Summary:
    settings, jobs, columns = run.settings, run.jobs, metrics.columns
    started = np.isfinite(jobs.started_s)
    delay_s = (jobs.started_s - jobs.queued_s)[started]
    p50, p99, longest = np.quantile(delay_s, [0.5, 0.99, 1.0]) if len(delay_s) else (0.0, 0.0, 0.0)
    worked_s = (np.minimum(jobs.ended_s, settings.span_s) - jobs.started_s)[started].sum()
    overdue = columns["overdue"] / max(1, metrics.healthy)
    since = columns["since_last_max_s"]
    return Summary(
        jobs=len(jobs),
        done=int(jobs.of(JobOutcome.DONE).sum()),
        failed=int(jobs.of(JobOutcome.FAILED).sum()),
        expired=int(jobs.of(JobOutcome.EXPIRED).sum()),
        waiting=int(jobs.of(JobOutcome.WAITING).sum()),
        busy=float(worked_s / (settings.workers * settings.span_s)),
        delay_p50_s=float(p50),
        delay_p99_s=float(p99),
        delay_max_s=float(longest),
        since_last_max_s=float(np.nanmax(since)) if not np.isnan(since).all() else settings.span_s,
        overdue_max=float(overdue.max()),
        clogged_s=float((overdue > CLOGGED_SHARE).sum() * settings.tick_s),
        spike=float(columns["queued"].max() / max(columns["queued"].mean(), 1e-9)),
        never_run=int(columns["never_run"][-1]),
    )
