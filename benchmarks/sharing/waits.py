"""How long everybody but the culprit has waited."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.sharing.cases import Case


@dataclass(frozen=True, slots=True)
class Waits:
    """Of each job of the others: when it was due, and how long it has waited; where it has not started, so far.
    `unstarted`: so many of them. `culprits`: so many jobs of the culprit have started."""

    due_s: Sequence[float]
    waited_s: Sequence[float]
    unstarted: int
    culprits: int

    @classmethod
    def of(cls, case: Case, started: Mapping[int, float]) -> Waits:
        others = case.others
        due = [case.jobs[place].due_s for place in others]
        waited = [max(0.0, started.get(place, case.seconds) - case.jobs[place].due_s) for place in others]
        of_others = sum(place in started for place in others)
        return cls(due, waited, len(others) - of_others, len(started) - of_others)

    def at(self, share: float) -> float:
        return sorted(self.waited_s)[math.ceil(share * len(self.waited_s)) - 1]

    @property
    def figures(self) -> dict[str, float]:
        return {
            "p50_s": round(statistics.median(self.waited_s), 3),
            "p99_s": round(self.at(0.99), 3),
            "unstarted": self.unstarted,
            "culprits": self.culprits,
        }

    @property
    def cells(self) -> tuple[str, ...]:
        """As `page.HEAD` has them after the first two."""
        p50, p99, unstarted, culprits = self.figures.values()
        return shown(p50), shown(p99), f"{unstarted}" if unstarted else "", f"{culprits:,}"


def shown(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
