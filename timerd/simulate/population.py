"""Who runs: members with a moment, a source and a cost. It is the same under each strategy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from timerd.core.slots import hashes_of
from timerd.simulate.durations import Floats
from timerd.simulate.jobs import Flags, Ints
from timerd.simulate.settings import Settings

NO_SOURCE = -1


@dataclass(frozen=True, slots=True)
class Population:
    """By member, whose key is its number. `source` is an index into the sources of the settings; `moment_ms` lies
    in the first cycle; costs have a mean of 1."""

    moment_ms: Ints
    source: Ints
    cost: Floats


def population(settings: Settings) -> Population:
    chance = np.random.default_rng([settings.seed, 0])
    bounds = np.cumsum([each.share for each in settings.sources])
    drawn = np.searchsorted(bounds, chance.random(settings.members), side="right")
    source = np.where(drawn < len(bounds), drawn, NO_SOURCE)
    moments = settings.cycle.moments_ms(hashes_of(range(settings.members)))
    return Population(moments, source, _costs(settings, chance))


def _costs(settings: Settings, chance: np.random.Generator) -> Floats:
    ranks = chance.permutation(settings.members) + 1
    costs: Floats = np.power(ranks, -settings.zipf, dtype=np.float64)
    mean = float(costs.mean())
    costs /= mean
    return costs


def healthy(settings: Settings, members: Population) -> Flags:
    """Whose source is never down."""
    down = [at for at, each in enumerate(settings.sources) if each.name in settings.failing]
    return ~np.isin(members.source, down)
