"""The cases: who has which jobs, when each is due and how long its handler takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

SLOTS = 10


@dataclass(frozen=True, slots=True)
class Job:
    """`due_s`: after the begin of its case. `takes_s`: its handler waits for so long."""

    customer: str
    due_s: float
    takes_s: float


@dataclass(frozen=True, slots=True)
class Case:
    """`culprit`: the customer whose jobs stand in the way of the others'. `seconds`: after these it is over."""

    name: str
    title: str
    culprit: str
    jobs: Sequence[Job]
    seconds: float

    @property
    def others(self) -> list[int]:
        """The places of the jobs of everybody else."""
        return [place for place, job in enumerate(self.jobs) if job.customer != self.culprit]


def noisy(jobs: int = 2_500, others: int = 100, over_s: float = 20.0) -> Case:
    """All slots have work for `jobs` / 100 seconds with what one customer sends at once."""
    loud = [Job("noisy", 0.0, 0.1) for _ in range(jobs)]
    calm = [Job(f"c{n}", over_s * n / others, 0.1) for n in range(1, others + 1)]
    return Case("noisy", f"{others} customers with a job each beside one with {jobs:,}", "noisy", loud + calm, 60.0)


def hanging(targets: int = 10, over_s: float = 20.0, per_s: float = 2.0, time_out_s: float = 10.0) -> Case:
    """Each target gets so many jobs a second. One of them answers nothing: its jobs take until their time-out."""
    sent = round(over_s * per_s)
    jobs = [
        Job(f"t{target}" if target else "hangs", n / per_s + target / per_s / targets, 0.05 if target else time_out_s)
        for n in range(sent)
        for target in range(targets)
    ]
    return Case("hanging", f"{targets - 1} targets beside one that hangs", "hangs", jobs, 60.0)


CASES: Mapping[str, Callable[[], Case]] = {"noisy": noisy, "hanging": hanging}
