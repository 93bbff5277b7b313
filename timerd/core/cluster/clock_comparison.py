"""Whether this instance's clock is wrong, by what the clocks of the others show (protocol section 3).

Nobody knows the right time: a clock is wrong where a majority of all instances agree with one another and not with it.
So an instance that belongs to an agreeing majority is never found wrong, whatever the others show; of two instances
that differ neither can know, nor of several that all differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

# Engine time may be 100 ms off its own wall clock, on either side of a comparison; what is left over is for time
# services that are not perfect. Differences below it are shown by `timerd doctor`.
MARGIN_MS = 250.0
# Of an answer that took longer on its way nothing is concluded.
MOST_UNCERTAIN_MS = 100.0


@dataclass(frozen=True, slots=True)
class Reading:
    """Another instance's engine time less this one's, within `uncertainty_ms`."""

    difference_ms: float
    uncertainty_ms: float

    @classmethod
    def between(cls, asked_ms: float, told_ms: float, heard_ms: float) -> Reading:
        """`told_ms` was read at some moment between the two readings of one's own clock."""
        return cls(told_ms - (asked_ms + heard_ms) / 2, (heard_ms - asked_ms) / 2)


class Standing(Enum):
    RIGHT = "right"
    WRONG = "wrong"
    # Nobody can say: what was known before stays.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`ahead_ms`: of the majority, where this one is wrong; negative where it is behind."""

    standing: Standing
    ahead_ms: float = 0.0


def compare(readings: Sequence[Reading], instances: int) -> Comparison:
    """`instances`: all that live, with this one, whether or not they answered."""
    known = sorted(
        (each for each in readings if each.uncertainty_ms <= MOST_UNCERTAIN_MS), key=lambda each: each.difference_ms
    )
    near = sum(abs(each.difference_ms) <= MARGIN_MS + each.uncertainty_ms for each in known)
    if 2 * (near + 1) > instances:
        return Comparison(Standing.RIGHT)
    far = [each for each in known if abs(each.difference_ms) > MARGIN_MS + each.uncertainty_ms]
    agreeing = max((_agreeing_from(far, at) for at in range(len(far))), key=len, default=[])
    if 2 * len(agreeing) > instances:
        return Comparison(Standing.WRONG, -agreeing[len(agreeing) // 2].difference_ms)
    return Comparison(Standing.UNKNOWN)


def _agreeing_from(ascending: Sequence[Reading], at: int) -> list[Reading]:
    """This one and those above it that agree with it."""
    first = ascending[at]
    return [
        each
        for each in ascending[at:]
        if each.difference_ms - first.difference_ms <= MARGIN_MS + each.uncertainty_ms + first.uncertainty_ms
    ]
