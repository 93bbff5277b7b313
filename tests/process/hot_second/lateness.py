"""Whether another queue stays on time: its lateness while the hot second is given out, against its own just before.

A machine that is busy with other things makes both late. So what counts is how much the hot second adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.process.soak.samples import lateness_of

# On time is what nobody would notice, or what was no better before.
LATE_MS, TIMES = 20.0, 3.0


@dataclass(frozen=True, slots=True)
class Lateness:
    """p99 of the other queue in the window before the second (`floor_ms`), and while its tasks are given out."""

    floor_ms: float
    during_ms: float

    @property
    def ratio(self) -> float:
        return self.during_ms / self.floor_ms if self.floor_ms else float("inf")

    @property
    def bound_ms(self) -> float:
        return max(LATE_MS, TIMES * self.floor_ms)

    @property
    def is_on_time(self) -> bool:
        return self.during_ms <= self.bound_ms

    def __str__(self) -> str:
        said = "on time" if self.is_on_time else "NOT on time"
        return (
            f"other queue, p99: floor {self.floor_ms:.1f} ms before the second, during {self.during_ms:.1f} ms while "
            f"its tasks were given out, ratio {self.ratio:.1f}: {said} (at most {LATE_MS:.0f} ms or {TIMES:.0f} times "
            f"the floor, here {self.bound_ms:.1f} ms)"
        )


def lateness(other: Sequence[tuple[int, float]], hot_ms: int, drained_ms: float) -> Lateness:
    """`other`: (fire_at_ms, received_ms) of each delivery."""
    before = [at - due for due, at in other if due < hot_ms]
    during = [at - due for due, at in other if hot_ms <= due <= drained_ms]
    return Lateness(lateness_of(before)[1], lateness_of(during)[1])
