"""Which setting is best: climbed to step by step, so that the end of what is tried is not where the best is cut off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

# None: so much cannot be tried.
Measure = Callable[[int], Awaitable[float | None]]


@dataclass(frozen=True, slots=True)
class Ladder:
    """`first` is tried, then `factor` times as much as long as that is better, else as much less."""

    first: int
    most: int
    least: int = 1
    factor: int = 2

    def ends_at(self, found: Mapping[int, float]) -> bool:
        """The best is the last that was tried, though there are values beyond it. Below 1 is nothing."""
        best = best_of(found)
        return best * self.factor not in found or (best // self.factor or best) not in found


async def climb(ladder: Ladder, measure: Measure) -> dict[int, float]:
    """What was tried, and how it did; more is better."""
    found = {ladder.first: await measure(ladder.first) or 0.0}
    await _go(found, ladder, measure, upwards=True)
    if best_of(found) == ladder.first:
        await _go(found, ladder, measure, upwards=False)
    return found


async def again(found: dict[int, float], measure: Measure) -> None:
    """Of the two best the better of two tries, for a single one can be wrong by a third: it is a moment of the machine
    that makes it slow, never fast."""
    for value in sorted(found, key=lambda value: found[value])[-2:]:
        found[value] = max(found[value], await measure(value) or 0.0)


async def _go(found: dict[int, float], ladder: Ladder, measure: Measure, *, upwards: bool) -> None:
    step = ladder.first
    while ladder.least <= (step := step * ladder.factor if upwards else step // ladder.factor) <= ladder.most:
        before, rate = max(found.values()), await measure(step)
        if rate is None:
            break
        found[step] = rate
        if rate <= before:
            break


def best_of(found: Mapping[int, float]) -> int:
    """Of equals the first that was tried."""
    return max(found, key=lambda value: found[value])
