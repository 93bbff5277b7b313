"""Which setting is best: climbed to step by step, so that the end of what is tried is not where the best is cut off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Measure = Callable[[int], Awaitable[float]]


@dataclass(frozen=True, slots=True)
class Ladder:
    """`first` is tried, then `factor` times as much as long as that is better, else as much less. Below 1 is nothing:
    that end is none of what was tried."""

    first: int
    most: int
    least: int = 1
    factor: int = 2

    def is_edge(self, value: int) -> bool:
        """There was no step left beyond, though there could be."""
        return value * self.factor > self.most or 1 < value < self.least * self.factor


async def climb(ladder: Ladder, measure: Measure) -> dict[int, float]:
    """What was tried, and how it did; more is better."""
    found = {ladder.first: await measure(ladder.first)}
    await _go(found, ladder, measure, upwards=True)
    if best_of(found) == ladder.first:
        await _go(found, ladder, measure, upwards=False)
    return found


async def _go(found: dict[int, float], ladder: Ladder, measure: Measure, *, upwards: bool) -> None:
    step = ladder.first
    while ladder.least <= (step := step * ladder.factor if upwards else step // ladder.factor) <= ladder.most:
        before = max(found.values())
        found[step] = await measure(step)
        if found[step] <= before:
            break


def best_of(found: dict[int, float]) -> int:
    """Of equals the first that was tried."""
    return max(found, key=lambda value: found[value])
