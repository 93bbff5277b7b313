"""How many free slots a second the core gives to tasks: types, workers and what waits as in a large house.

    python -m benchmarks.slots [--types 100] [--workers 1000] [--waiting 1000000] [--decisions 200000]

Each worker runs up to five types in two slots. Each decision is that of a house in which everything waits: a slot
becomes free, its types have something due, the one with the greatest score gets it.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from timerd.core.assignment import Contest, Pools
from timerd.core.taken import QueueKey
from timerd.model.task import PRIORITY_MS

MOST_TYPES, SLOTS, PRIORITIES = 5, 2, 10
NOW_MS = 1_800_000_000_000
RUNS = 5


class Waiting:
    """Tasks of one type that are due, in the order in which they fire."""

    def __init__(self, keys: npt.NDArray[np.int64]) -> None:
        self._keys = np.sort(keys).tolist()
        self._at = 0

    @property
    def head(self) -> int:
        return int(self._keys[self._at])

    def take(self) -> None:
        self._at = (self._at + 1) % len(self._keys)


class House:
    def __init__(self, types: int, workers: int, waiting: int, seed: int = 37) -> None:
        chance = random.Random(seed)
        self.queues = [QueueKey("default", f"type {number}") for number in range(types)]
        self.pools = Pools()
        self.types: list[Sequence[QueueKey]] = []
        for worker in range(workers):
            runs = chance.sample(self.queues, chance.randint(1, min(MOST_TYPES, types)))
            self.types.append(runs)
            self.pools.join(worker, "p", runs, SLOTS)
        drawn = np.random.default_rng(seed)
        each = max(1, waiting // types)
        self.waiting = {
            queue: Waiting(
                NOW_MS - drawn.integers(0, 600_000, each) - PRIORITY_MS * drawn.integers(0, PRIORITIES, each)
            )
            for queue in self.queues
        }

    def decide(self, worker: int) -> None:
        """A slot of the worker is free: which task it gets."""
        pools, waiting = self.pools, self.waiting
        pools.add(worker, "p", 1)
        contest = Contest(pools)
        for queue in pools.freed():
            contest.enter(queue, waiting[queue].head)
        choice = contest.next()
        assert choice is not None
        pools.take(choice.queue, 1)
        waiting[choice.queue].take()


def seconds(house: House, decisions: int) -> tuple[float, float]:
    """(of the wall clock, of a processor)."""
    begun = time.perf_counter(), time.process_time()
    for at in range(decisions):
        house.decide(at * 7_919 % len(house.types))
    return time.perf_counter() - begun[0], time.process_time() - begun[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slots", description=__doc__)
    for name, default in (("types", 100), ("workers", 1_000), ("waiting", 1_000_000), ("decisions", 200_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    house = House(given.types, given.workers, given.waiting)
    each = given.decisions // RUNS
    walls, processors = zip(*(seconds(house, each) for _ in range(RUNS)), strict=True)
    figures = {"per_s": sorted(walls)[RUNS // 2], "per_s_of_a_processor": sorted(processors)[RUNS // 2]}
    print(json.dumps({**vars(given), **{name: round(each / taken_s) for name, taken_s in figures.items()}}))


if __name__ == "__main__":
    main()
