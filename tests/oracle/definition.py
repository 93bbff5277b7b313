"""What a part means, as a set of wall-clock minutes with the seconds within them, and what a spec makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.oracle.minutes import Bools, Ints, Walls, Window
from timerd.model.recurrence import Exclusion, Gap, Part, Repeat

Named = Callable[[Walls], Bools]


@dataclass(frozen=True)
class Asked:
    """A part or an exclusion, and the same by definition. `every_so_often`: what AUTO goes by."""

    part: Part
    names: Named
    seconds: Sequence[int]
    every_so_often: bool


@dataclass(frozen=True)
class Excluded:
    form: Exclusion
    names: Named


@dataclass(frozen=True)
class Rules:
    """Of a whole spec."""

    parts: Sequence[Asked]
    exclude: Sequence[Excluded]
    gap: Gap
    repeat: Repeat


def instants(rules: Rules, window: Window) -> Ints:
    """In seconds since 1970, each once, in order."""
    found = np.unique(np.concatenate([_of_part(part, rules, window) for part in rules.parts]))
    return found[(found >= window.begin * 60) & (found < window.end * 60)]


def _of_part(part: Asked, rules: Rules, window: Window) -> Ints:
    gap, repeat = rules.gap, rules.repeat
    if gap == Gap.AUTO:
        gap = Gap.SKIP if part.every_so_often else Gap.NEXT
    if repeat == Repeat.AUTO:
        repeat = Repeat.BOTH if part.every_so_often else Repeat.FIRST
    named = _named(part, rules, window.walls)
    if repeat == Repeat.FIRST:
        named = named & window.is_first
    if repeat == Repeat.LAST:
        named = named & window.is_last
    found = [_seconds(window.minute[named], part.seconds)]
    for each in window.gaps:
        missing = each.missing.wall[_named(part, rules, each.missing)]
        if gap == Gap.NEXT and len(missing):
            found.append(np.array([each.minute * 60]))
        if gap == Gap.SHIFT:
            found.append(_seconds(each.minute + missing - each.missing.wall[0], part.seconds))
    return np.concatenate(found)


def _seconds(minutes: Ints, seconds: Sequence[int]) -> Ints:
    of_each: Ints = (minutes[:, np.newaxis] * 60 + np.array(seconds)).ravel()
    return of_each


def _named(part: Asked, rules: Rules, walls: Walls) -> Bools:
    named = part.names(walls)
    for excluded in rules.exclude:
        named = named & ~excluded.names(walls)
    return named


def among(values: set[int], of: int) -> Bools:
    """A table of which numbers below `of` are values."""
    table = np.zeros(of, bool)
    table[list(values)] = True
    return table
