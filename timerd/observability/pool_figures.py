"""Pools of workers: how many slots there are by name of the pool, and how many of them wait for a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric

from timerd.core.assignment import Pools

# Names come from workers: what is more is one pool together.
MOST_POOLS = 100
OTHERS = "", "(others)"


class PoolFigures(NamedTuple):
    """Of all workers of this instance that have declared a pool of the name."""

    free: int
    taken: int


def pools_of(pools: Pools) -> Mapping[tuple[str, str], PoolFigures]:
    """(namespace, name of the pool) -> slots."""
    found: dict[tuple[str, str], PoolFigures] = {}
    for pool in pools:
        name = pool.namespace, pool.name
        name = name if name in found or len(found) < MOST_POOLS else OTHERS
        free, taken = found.get(name, PoolFigures(0, 0))
        found[name] = PoolFigures(free + pool.free, taken + pool.slots - pool.free)
    return found


def pool_metrics(pools: Mapping[tuple[str, str], PoolFigures]) -> Iterator[Metric]:
    slots = GaugeMetricFamily(
        "timerd_slots", "Slots of the pools of workers, by state.", labels=("namespace", "pool", "state")
    )
    for name, figures in pools.items():
        for state, number in figures._asdict().items():
            slots.add_metric((*name, state), number)
    yield slots
