"""Which rows of a partition have been met, where the store brings them again and again.

The newest in a set, the others in the sorted chunks of the settled index: a set of all rows of a large bucket would
take more memory than the rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from timerd.core.partition.settled_index import Entries, SettledIndex
from timerd.model.identity import RowKey
from timerd.model.rows import RowGroup
from timerd.model.settle import ENTRY, Outcome, settle_entries

MOST_FRESH = 8_192
# So many rows at once are sorted in by themselves.
LARGE_GROUP = 1_024


class KnownKeys:
    def __init__(self) -> None:
        self._fresh: set[RowKey] = set()
        self._sorted = SettledIndex()

    def among(self, rows: RowGroup) -> RowGroup:
        """Those of the rows that have been met."""
        return rows.select(np.flatnonzero(self._met(rows)))

    def new(self, rows: RowGroup) -> RowGroup:
        """The others."""
        return rows.select(np.flatnonzero(~self._met(rows)))

    def add(self, rows: RowGroup) -> None:
        if len(rows) >= LARGE_GROUP:
            self._sorted.load(_entries(rows))
            return
        self._fresh.update(rows.keys())
        if len(self._fresh) >= MOST_FRESH:
            self._sorted.load(settle_entries([(key, Outcome.ACKED) for key in self._fresh]))
            self._fresh.clear()

    def _met(self, rows: RowGroup) -> npt.NDArray[np.bool_]:
        met = self._sorted.known(rows)
        if self._fresh:
            met |= np.fromiter((key in self._fresh for key in rows.keys()), dtype=bool, count=len(rows))
        return met


def _entries(rows: RowGroup) -> Entries:
    """Nobody asks for their outcome."""
    out = np.zeros(len(rows), ENTRY)
    out["position_ms"] = rows.columns["position_ms"]
    out["digest"] = np.frombuffer(b"".join(rows.digests()), "V16")
    out["version"] = rows.columns["version"]
    return out
