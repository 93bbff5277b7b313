"""A scan of everything, cut into pages as Cassandra cuts it: rows and marks in the order of their positions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from timerd.adapters.cassandra.codec import RowPlace, cursor_after, place_of
from timerd.model.rows import RowGroup
from timerd.model.storage import Mark, Page

# A row stands behind all marks on it.
_ROW = 100


def cut(whole: Page, cursor: int, most: int) -> Page:
    """The next `most` rows and marks behind `cursor`; 0: all."""
    things: list[tuple[RowPlace, RowGroup | Mark]] = [((*mark.key, int(mark.kind)), mark) for mark in whole.marks]
    things += [(_place(row), row) for group in whole.groups for row in _rows(group)]
    things.sort(key=lambda pair: pair[0])
    left = [pair for pair in things if not cursor or pair[0] > place_of(cursor)]
    taken = left[:most] if most else left
    groups = [thing for _, thing in taken if isinstance(thing, RowGroup)]
    marks = [thing for _, thing in taken if isinstance(thing, Mark)]
    if len(taken) == len(left):
        return Page(groups, marks, 0, done=True)
    last = taken[-1][0]
    return Page(groups, marks, cursor_after(last), done=False, through_ms=last[0])


def _rows(group: RowGroup) -> list[RowGroup]:
    """One by one and without a name."""
    return [replace(group.select(np.arange(at, at + 1)), source=0) for at in range(len(group))]


def _place(row: RowGroup) -> RowPlace:
    return *row.keys()[0], _ROW
