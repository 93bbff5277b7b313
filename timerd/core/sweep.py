"""Reading the rows of a partition, one page at a time, and how far they are known (protocol section 4, close).

A sweep covers only what was closed before it began: a row may be written below a `closing` that is raised while pages
are on their way, and only a scan that begins after the raise is sure to meet it (tests/models/closing.pml).
"""

from __future__ import annotations

import numpy as np

from timerd.core.effects import Effects, ReadPage
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.storage import Page


class Sweep:
    """`scanned_ms`: every acknowledged row below it has been met."""

    def __init__(self, partition: Partition, scanned_ms: int) -> None:
        self.scanned_ms = scanned_ms
        self._partition = partition
        self._covers_ms = scanned_ms
        self._lo_ms: int | None = None

    @property
    def is_reading(self) -> bool:
        return self._lo_ms is not None

    def start(self, floor_ms: int, closing_ms: int, cursor: int) -> Effects:
        """Reads what became readable since `cursor`; `closing_ms` is in force. One read at a time."""
        if self.is_reading:
            return []
        self._covers_ms = closing_ms
        return self._read(floor_ms, cursor)

    def reload(self, lo_ms: int) -> Effects:
        """Reads everything at or after `lo_ms` once more, which covers nothing new."""
        self._covers_ms = self.scanned_ms
        return self._read(lo_ms, 0)

    def turned(self, page: Page) -> Effects:
        """The page has been merged: the next one, if there is one."""
        lo_ms, self._lo_ms = self._lo_ms, None
        if not page.done and lo_ms is not None:
            return self._read(lo_ms, page.cursor)
        self.scanned_ms = max(self.scanned_ms, self._covers_ms)
        return []

    def _read(self, lo_ms: int, cursor: int) -> Effects:
        self._lo_ms = lo_ms
        return [ReadPage(self._partition, lo_ms, self._partition.end_ms, cursor)]


def from_floor(rows: RowGroup, floor_ms: int) -> RowGroup:
    """Of a page that may have been asked for before the floor rose: what is new below it was refused, or will be."""
    if int(rows.columns["position_ms"][0]) >= floor_ms:
        return rows
    return rows.select(np.flatnonzero(rows.columns["position_ms"] >= floor_ms))
