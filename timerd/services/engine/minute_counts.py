"""How many tasks came for each minute, of one queue.

Those of large messages stay columns until somebody asks: for tasks of a month a dictionary took a sixth of all that the
event loop did for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
# So many columns are made one: a millisecond or two for those of a month.
MOST_COLUMNS = 16


class MinuteCounts:
    """Numbers may be taken off that were not added here."""

    def __init__(self) -> None:
        self._few: Counter[int] = Counter()
        # Distinct minutes and how often each came.
        self._columns: list[tuple[Numbers, Numbers]] = []

    def add_few(self, minutes: Sequence[int]) -> None:
        if len(minutes) == 1:
            self._few[minutes[0]] += 1
        else:
            self._few.update(minutes)

    def add_many(self, minutes: Numbers) -> None:
        self._add(*np.unique(minutes, return_counts=True))

    def take_off(self, minute: int, count: int) -> None:
        self._few[minute] -= count

    def take_off_many(self, minutes: Numbers) -> None:
        found, counts = np.unique(minutes, return_counts=True)
        self._add(found, -counts)

    def _add(self, minutes: Numbers, counts: Numbers) -> None:
        self._columns.append((minutes, counts))
        if len(self._columns) == MOST_COLUMNS:
            self._columns = [_merged(self._columns)]

    def counts(self) -> Counter[int]:
        """By minute; a number may be below 0."""
        if self._columns:
            minutes, counts = _merged(self._columns)
            self._few.update(dict(zip(minutes.tolist(), counts.tolist(), strict=True)))
            self._columns.clear()
        return self._few


def _merged(columns: list[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    minutes, counts = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    order = np.argsort(minutes, kind="stable")
    minutes = minutes[order]
    first = np.flatnonzero(np.concatenate(([True], minutes[1:] != minutes[:-1])))
    return minutes[first], np.add.reduceat(counts[order], first)
