"""How long jobs take: a distribution that has the mean and the 90th percentile that are asked for.

A log-normal can have a p90 of up to 2.27 times its mean. Beyond that, most jobs are short and about a tenth are long:
two log-normals, of which the long one is narrow around the p90, so that the p90 lies within it. From 10 times on there
is no such distribution at all: a tenth of the jobs would take more than the mean allows for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erfc, exp, log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from timerd.model.errors import Invalid

Floats = NDArray[np.float64]
# Below it lies 90% of a normal distribution.
_Z90 = NormalDist().inv_cdf(0.9)
_ONE_CAN = exp(_Z90**2 / 2)
IMPOSSIBLE = 10.0
# Its tail beyond the p90 stays below a tenth at each ratio for which two are needed.
_SHORT_SIGMA = 0.6
_LARGEST_EXCESS, _WIDEST = 0.25, 0.3
_STEPS = 100
_LONGEST_S = 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class LogNormal:
    mean_s: float
    sigma: float

    @property
    def mu(self) -> float:
        return log(self.mean_s) - self.sigma**2 / 2

    def share_above(self, seconds: float) -> float:
        return 0.5 * erfc((log(seconds) - self.mu) / self.sigma / sqrt(2))


@dataclass(frozen=True, slots=True)
class Durations:
    """`long_share` of the jobs are of `long`, the others of `short`. Made by `durations`."""

    short: LogNormal
    long: LogNormal
    long_share: float = 0.0

    @property
    def mean_s(self) -> float:
        return (1 - self.long_share) * self.short.mean_s + self.long_share * self.long.mean_s

    def draw(self, chance: np.random.Generator, count: int) -> Floats:
        mu, sigma = self.short.mu, self.short.sigma
        drawn = chance.standard_normal(count)
        if not self.long_share:
            return np.exp(mu + sigma * drawn)
        is_long = chance.random(count) < self.long_share
        return np.exp(np.where(is_long, self.long.mu + self.long.sigma * drawn, mu + sigma * drawn))


def durations(mean_s: float, p90_s: float) -> Durations:
    """Raises Invalid where nothing has this mean and this p90."""
    _check(mean_s, p90_s)
    ratio = p90_s / mean_s
    if ratio <= _ONE_CAN:
        one = LogNormal(mean_s, _Z90 - sqrt(max(0.0, _Z90**2 - 2 * log(ratio))))
        return Durations(one, one)
    return _two(mean_s, p90_s)


def _check(mean_s: float, p90_s: float) -> None:
    if not (0 < mean_s <= _LONGEST_S and 0 < p90_s <= _LONGEST_S):
        raise Invalid(
            f"Jobs of {mean_s:g} s (p90 {p90_s:g} s): both must be above 0 s and at most a year.", "durations"
        )
    if p90_s >= IMPOSSIBLE * mean_s:
        raise Invalid(
            f"A mean of {mean_s:g} s with a p90 of {p90_s:g} s is impossible: a tenth of the jobs takes {p90_s:g} s or "
            f"more, so the mean is {p90_s / IMPOSSIBLE:g} s at least. Give a p90 below {IMPOSSIBLE * mean_s:g} s, or a "
            f"mean above {p90_s / IMPOSSIBLE:g} s.",
            "durations",
        )
    if p90_s < mean_s:
        raise Invalid(
            f"A p90 of {p90_s:g} s below the mean of {mean_s:g} s is not simulated: a few jobs would make up most of "
            f"the time, and chance decide how many there are. Give a p90 of {mean_s:g} s or more.",
            "durations",
        )


def _two(mean_s: float, p90_s: float) -> Durations:
    """The share of the long ones is solved so that a tenth of all lies beyond the p90, while the short ones get the
    mean that is left. `room`: how much longer all could be in the mean before it is impossible."""
    room = IMPOSSIBLE * mean_s / p90_s - 1
    excess = min(_LARGEST_EXCESS, room / 2)
    # So many deviations below the p90 is the middle of the long ones that `1 / (1 + excess)` of them are above it.
    above = NormalDist().inv_cdf(1 / (1 + excess))
    sigma = min(_WIDEST, room / 8) / (1 + above)
    long = LogNormal(p90_s * exp(above * sigma + sigma**2 / 2), sigma)

    def with_share(share: float) -> Durations:
        return Durations(LogNormal((mean_s - share * long.mean_s) / (1 - share), _SHORT_SIGMA), long, share)

    def beyond(share: float) -> float:
        found = with_share(share)
        return share / (1 + excess) + (1 - share) * found.short.share_above(p90_s)

    return with_share(_solved(beyond, 1 / IMPOSSIBLE, (1 + excess) / IMPOSSIBLE))


def _solved(rising: Callable[[float], float], wanted: float, high: float) -> float:
    """Where a function that is below `wanted` at 0 and not at `high` has it, by halving."""
    low = 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return high
