"""Reading the rows of a partition, one page at a time, and how far they are known (protocol section 4, close).

A sweep covers only what was closed before it began: a row may be written below a `closing` that is raised while pages
are on their way, and only a scan that begins after the raise is sure to meet it (tests/models/closing.pml).

A store with cursors brings only what is new, so a sweep asks for everything. Without them each sweep would bring the
whole partition again: after the first one it reads from where the last one was sure up to what is due in a moment, and
keys first.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from timerd.core.partition.effects import Effects, ReadPage
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.storage import Page
from timerd.model.store_traits import StoreTraits

# What is due so soon is met by a sweep a second before, also where every hint was lost.
AHEAD_MS = 2_000
# Later than whatever has a position.
WHOLE_MS = 1 << 62
# Keys are read again and again until `closing` has passed them: where nothing else raises it, it is raised this often.
WIDE_MS = 10_000


class Sweep:
    """`scanned_ms`: every acknowledged row below it has been met."""

    def __init__(self, partition: Partition, scanned_ms: int, traits: StoreTraits) -> None:
        self.scanned_ms = scanned_ms
        # What is below it has been read once, rows and marks, as far as pages say so; in the end that is everything.
        self.loaded_ms = 0
        self._partition = partition
        self._covers_ms = scanned_ms
        self._reading: ReadPage | None = None
        self._traits = traits

    @property
    def is_reading(self) -> bool:
        return self._reading is not None

    def start(self, floor_ms: int, closing_ms: int, cursor: int, now_ms: int) -> Effects:
        """Reads what became readable since `cursor`; `closing_ms` is in force. One read at a time."""
        if self.is_reading:
            return []
        self._covers_ms = closing_ms
        if self._traits.has_cursors or self.loaded_ms < WHOLE_MS:
            return self._read(ReadPage(self._partition, floor_ms, self._partition.end_ms, cursor))
        hi_ms = min(self._partition.end_ms, max(closing_ms, now_ms + AHEAD_MS))
        if self.scanned_ms >= hi_ms:
            return []
        return self._read(ReadPage(self._partition, self.scanned_ms, hi_ms, 0, keys_first=True))

    def reload(self, lo_ms: int) -> Effects:
        """Reads everything at or after `lo_ms` once more, which covers nothing new."""
        self._covers_ms = self.scanned_ms
        return self._read(ReadPage(self._partition, lo_ms, self._partition.end_ms, 0))

    def turned(self, page: Page) -> Effects:
        """The page has been merged: the next one, if there is one."""
        read, self._reading = self._reading, None
        if not page.done and read is not None:
            if self._traits.pages_in_order:
                self.loaded_ms = max(self.loaded_ms, page.through_ms)
            return self._read(replace(read, cursor=page.cursor))
        self.loaded_ms = WHOLE_MS
        self.scanned_ms = max(self.scanned_ms, self._covers_ms)
        return []

    def is_ahead(self, now_ms: int) -> bool:
        """Whether all that is due now and in the next moment has been read."""
        return self.loaded_ms > now_ms + AHEAD_MS

    def is_wide(self, closing_ms: int, now_ms: int) -> bool:
        """Whether what is read at each sweep should be made less."""
        return not self._traits.has_cursors and now_ms - closing_ms >= WIDE_MS

    def _read(self, read: ReadPage) -> Effects:
        self._reading = read
        return [read]


def from_floor(rows: RowGroup, floor_ms: int) -> RowGroup:
    """Of a page that may have been asked for before the floor rose: what is new below it was refused, or will be. Of a
    hint that may have come late, for its writer was paused: what is below it was met by now, and is over."""
    if int(rows.columns["position_ms"].min()) >= floor_ms:
        return rows
    return rows.select(np.flatnonzero(rows.columns["position_ms"] >= floor_ms))
