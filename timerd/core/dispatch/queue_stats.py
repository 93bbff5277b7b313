"""What became of deliveries, counted for each queue as it happens and read by the metrics.

Plain lists and numbers: an update costs next to nothing, and nothing is computed before somebody asks. Only so many
queues are told apart; what comes after them is counted together, so that neither memory nor a monitoring system grows
with the names that callers choose.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from timerd.core.taken import QueueKey

LATENESS_BOUNDS_MS = (
    0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 6e4, 6e5, 3.6e6,
)  # fmt: skip
PROCESSING_BOUNDS_MS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 6e4, 6e5, 3.6e6)
ATTEMPT_BOUNDS = (1.0, 2.0, 3.0, 5.0, 10.0)
# Their names are labels of the metrics.
MOST_QUEUES = 100
OTHERS = QueueKey("", "(others)")
# Of more, arrays are cheaper.
_FEW = 128


class Histogram:
    """`counts[i]`: how many were at most `bounds[i]` and more than the bound before; the last one: the rest."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def add_all(self, values: npt.NDArray[Any]) -> None:
        if len(values) <= _FEW:
            # Most of what is sent together is late by one of a few milliseconds.
            for value, times in Counter(values.tolist()).items():
                self.add(value, times)
            return
        places = np.bincount(np.searchsorted(self.bounds, values))
        for place in np.flatnonzero(places).tolist():
            self.counts[place] += int(places[place])
        self.total += float(values.sum())


@dataclass(slots=True)
class QueueStats:
    """`lateness`: from when a delivery is due to its sending; `processing`: from there to the worker's word.
    `attempts`: which of its task each was. `outcomes`: what that word was, or that it did not come; `dead`: dead
    letters."""

    lateness: Histogram = field(default_factory=lambda: Histogram(LATENESS_BOUNDS_MS))
    processing: Histogram = field(default_factory=lambda: Histogram(PROCESSING_BOUNDS_MS))
    attempts: Histogram = field(default_factory=lambda: Histogram(ATTEMPT_BOUNDS))
    outcomes: dict[str, int] = field(default_factory=dict)
    dead: int = 0

    def sent(self, late_ms: npt.NDArray[Any], retries: npt.NDArray[Any]) -> None:
        """`retries`: how many attempts there were before."""
        self.lateness.add_all(late_ms)
        if retries.any():
            self.attempts.add_all(retries + 1)
        else:
            self.attempts.add(1, len(retries))

    def settled(self, outcome: str, after_ms: float, times: int = 1) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + times
        self.processing.add(after_ms, times)


class StatsByQueue:
    """By queue."""

    def __init__(self, most_queues: int = MOST_QUEUES) -> None:
        self._most = most_queues
        self.queues: dict[QueueKey, QueueStats] = {}

    def of(self, queue: QueueKey) -> QueueStats:
        found = self.queues.get(queue)
        if found is None:
            # The last place is for all others.
            known = queue if len(self.queues) < self._most - 1 else OTHERS
            found = self.queues.setdefault(known, QueueStats())
        return found

    def lateness_counts(self) -> list[int]:
        """Of all queues of callers together."""
        sums = [0] * (len(LATENESS_BOUNDS_MS) + 1)
        for queue, stats in self.queues.items():
            if not queue.is_internal:
                sums = [a + b for a, b in zip(sums, stats.lateness.counts, strict=True)]
        return sums
