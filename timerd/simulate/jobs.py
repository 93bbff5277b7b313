"""The jobs of a run as columns: what all figures are made of afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from timerd.simulate.durations import Floats

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class JobOutcome(IntEnum):
    """Of a job: DONE; FAILED, since its source was down; EXPIRED, since its member came again before it was started;
    RUNNING or WAITING where the simulated time ended first."""

    DONE = 0
    FAILED = 1
    EXPIRED = 2
    RUNNING = 3
    WAITING = 4


@dataclass(frozen=True, slots=True)
class SimulatedJobs:
    """`started_s` is infinite for what never started. `ended_s`: where it was done, had failed, or expired."""

    member: Ints
    queued_s: Floats
    started_s: Floats
    ended_s: Floats
    outcome: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.member)

    def of(self, *outcomes: JobOutcome) -> Flags:
        return np.isin(self.outcome, outcomes)


_INTS, _FLOATS = np.zeros(0, np.int64), np.zeros(0)
_NONE = SimulatedJobs(_INTS, _FLOATS, _FLOATS, _FLOATS, np.zeros(0, np.int8))


def joined(parts: Sequence[SimulatedJobs], span_s: float) -> SimulatedJobs:
    """Cut off at the end of the simulated time."""
    columns = [np.concatenate([getattr(part, name) for part in (_NONE, *parts)]) for name in SimulatedJobs.__slots__]
    member, queued_s, started_s, ended_s, outcome = (column[columns[1] < span_s] for column in columns)
    outcome[ended_s >= span_s] = JobOutcome.RUNNING
    outcome[(started_s >= span_s) & (ended_s >= span_s)] = JobOutcome.WAITING
    started_s[started_s >= span_s] = np.inf
    return SimulatedJobs(member, queued_s, started_s, ended_s, outcome)
