"""Which rows of a partition have been met: a page and a hint may both bring a row, and each comes in once.

Where the store has cursors, a row is known by its commit: pages up to the cursor were read, and of later commits the
hints are kept. Elsewhere it is known by its key.
"""

from __future__ import annotations

import numpy as np

from timerd.core.partition.known_keys import KnownKeys
from timerd.core.partition.settled_index import keys_in
from timerd.model.rows import RowGroup


class MetRows:
    """`cursor`: how far the commits of the store have been read."""

    def __init__(self) -> None:
        self.cursor = 0
        # By the name of their commit; its other rows come with a page.
        self._hinted: dict[int, list[RowGroup]] = {}
        self._known = KnownKeys()

    def unseen(self, rows: RowGroup) -> RowGroup:
        """Of a page: what has not come before. Of a store without cursors it has come now."""
        if rows.source == 0:
            return self._unknown(rows)
        return self.not_hinted(rows, rows.source)

    def seen(self, rows: RowGroup) -> RowGroup:
        """Of a page: only what came before, on a page or as a hint."""
        if rows.source == 0:
            return self._known.among(rows)
        if rows.source <= self.cursor:
            return rows
        hinted = self._hinted.get(rows.source, [])
        return rows.select(np.flatnonzero(keys_in(rows, hinted))) if hinted else rows.select(slice(0))

    def lacking(self, rows: RowGroup) -> RowGroup:
        """Of a page of keys, in a store without cursors: what has not been met."""
        return self._known.new(rows)

    def has_read(self, source: int) -> bool:
        """Whether what was written by this commit was on a page."""
        return bool(source) and source <= self.cursor

    def hint(self, rows: RowGroup, source: int) -> RowGroup:
        """Notes rows that were just written. Returns those that are new."""
        if not source:
            return self._unknown(rows)
        self._hinted.setdefault(source, []).append(rows)
        return rows

    def not_hinted(self, rows: RowGroup, source: int) -> RowGroup:
        """Those of the commit's rows that no hint has brought."""
        hinted = self._hinted.get(source)
        return rows.select(np.flatnonzero(~keys_in(rows, hinted))) if hinted else rows

    def read(self, cursor: int) -> None:
        """Everything up to `cursor` has been merged."""
        self.cursor = max(self.cursor, cursor)
        for source in [s for s in self._hinted if s <= cursor]:
            del self._hinted[source]

    def is_new(self, rows: RowGroup) -> bool:
        """Whether a page brings what nothing has brought before."""
        return rows.source not in self._hinted if rows.source else len(self._known.new(rows)) > 0

    def _unknown(self, rows: RowGroup) -> RowGroup:
        fresh = self._known.new(rows)
        self._known.add(fresh)
        return fresh
