"""Rows of one partition that a later release wrote and that this one must not deliver (model/codec.py).

Each stays where it is and holds `verified` back, so that the next holder reads it again; all others of the partition
fire. A pending outcome of such a row waits in the store with it.
"""

from __future__ import annotations

import numpy as np

from timerd.model.identity import RowKey
from timerd.model.rows import RowGroup
from timerd.model.storage import Mark


class ForeignRows:
    """`lacks`: what this release would have to understand to deliver all of them."""

    def __init__(self) -> None:
        self.lacks: set[str] = set()
        self.oldest_ms: int | None = None
        self._keys: set[RowKey] = set()
        # Those with a mark of an unknown kind, which comes before its row.
        self._marked: set[RowKey] = set()

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: RowKey) -> bool:
        return key in self._keys

    def mark(self, mark: Mark) -> None:
        """The row, known or not, has a mark of a kind that this release does not know."""
        self._marked.add(mark.key)
        self._leave(mark.key, frozenset((f"mark {mark.kind.value}",)))

    def admitted(self, rows: RowGroup) -> RowGroup:
        """The rows that may be delivered; the others are kept count of."""
        lacking = rows.lacking_rows()
        if not lacking and not self._marked:
            return rows
        keys = rows.keys()
        left = {n for n, key in enumerate(keys) if n in lacking or key in self._marked}
        for n in left & lacking.keys():
            self._leave(keys[n], lacking[n])
        return rows.select(np.array([n for n in range(len(keys)) if n not in left], dtype=np.intp))

    def _leave(self, key: RowKey, lacks: frozenset[str]) -> None:
        self._keys.add(key)
        self.lacks |= lacks
        self.oldest_ms = key.position_ms if self.oldest_ms is None else min(self.oldest_ms, key.position_ms)
