"""Fixed periods: instants of UTC, which no zone moves."""

from __future__ import annotations

from dataclasses import dataclass

from timerd.core.recurrence.errors import SpecError
from timerd.model.recurrence import MIN_PERIOD_MS, Every

# Longer than anything that is scheduled, and its sums stay within 64 bits.
MAX_PERIOD_MS = 100 * 366 * 86_400_000


@dataclass(frozen=True, slots=True)
class Periods:
    """The instants phase + k * period."""

    period_ms: int
    phase_ms: int
    frequent: bool = True

    def next(self, at_ms: int) -> int:
        """The first one strictly later."""
        return at_ms + self.period_ms - (at_ms - self.phase_ms) % self.period_ms


def periods(part: Every, field: str) -> Periods:
    """Raises SpecError."""
    if not MIN_PERIOD_MS <= part.period_ms <= MAX_PERIOD_MS:
        raise SpecError(
            f"{field}.period_ms",
            f"The period is {part.period_ms} ms: it must be from 1 s to 100 years. "
            "What comes more often is a batch of tasks, each with its own delay.",
        )
    return Periods(part.period_ms, part.anchor_ms % part.period_ms)
