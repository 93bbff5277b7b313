"""What a worker received, asked once more: how late was what was due in some part of the time, and how much of its
lateness a queue that is served at a given rate does not explain.

Apart from stats.py, which runs in processes of other servers' clients too: this needs numpy.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.stats import summary


@dataclass(frozen=True, slots=True)
class Received:
    """A place in each array for each task, in the order in which they came."""

    dues_ms: array[int] = field(default_factory=lambda: array("q"))
    late_ms: array[float] = field(default_factory=lambda: array("d"))
    numbers: array[int] = field(default_factory=lambda: array("Q"))

    def due_between(self, from_ms: float, until_ms: float) -> dict[str, Any]:
        """The summary of what was due from then until then, the last instant included."""
        dues_ms = np.asarray(self.dues_ms)
        chosen = (dues_ms >= from_ms) & (dues_ms <= until_ms)
        return summary(np.asarray(self.late_ms)[chosen].tolist(), np.asarray(self.numbers)[chosen].tolist())

    def unexplained_ms(self, rate_per_s: float) -> float:
        """By how much a task came later than its queue, served at that rate in the order of the due instants, lets it
        come at the latest; at most. Negative: all were quicker than that. 0 of nothing."""
        if not self.dues_ms:
            return 0.0
        # Counted from the first one: of milliseconds since 1970 a float keeps a quarter of a microsecond only, and the
        # share of one task is not much more.
        dues_ms = (np.asarray(self.dues_ms) - min(self.dues_ms)).astype(np.float64)
        at_ms = dues_ms + np.asarray(self.late_ms)
        # Of what is due at the same instant the order is the server's.
        order = np.lexsort((at_ms, dues_ms))
        return float(np.max(at_ms[order] - explained_ms(dues_ms[order], rate_per_s)))


def explained_ms(dues_ms: NDArray[np.float64], rate_per_s: float) -> NDArray[np.float64]:
    """When each of these, in order, is served at the latest: some task before it, or it itself, found nobody waiting
    when it was due, and from then on one after the other was served. So the latest of due[j] + (i - j + 1) / rate."""
    each_ms = 1e3 / rate_per_s
    place = np.arange(len(dues_ms))
    latest_ms: NDArray[np.float64] = np.maximum.accumulate(dues_ms - place * each_ms) + (place + 1) * each_ms
    return latest_ms
