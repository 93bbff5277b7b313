"""A run that waits, in fewer bytes: of its columns only those in which its rows differ.

Most rows of a run are of a first attempt, of one template and fire where they stand, so of 45 bytes a row 20 say
something. What is taken out of it is a row group like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from timerd.core.due_queue.own_pages import on_own_pages
from timerd.core.due_queue.tie_order import Ties, tie_of, ties_by
from timerd.core.due_queue.waiting_bytes import waiting_bytes
from timerd.model.columns import Columns
from timerd.model.row_keys import Positions
from timerd.model.rows import ROW, RowGroup

_NAMES = ("prefix", "index", "version", "template", "extra", "offset", "length", "flags")
_FIRE_AT = "fire_at_ms"
Chosen = slice | npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class LeanRun:
    """`own`: the columns in which the rows differ. `common`: one row with what is the same in all. `fire_after_ms`: how
    long after its position each fires; None: that differs."""

    positions: Positions
    own: Columns
    common: Columns
    fire_after_ms: int | None
    # Whose tables and arena these are, without rows.
    shared: RowGroup

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def saved_bytes(self) -> int:
        return len(self) * (ROW.itemsize - self.positions.itemsize - self.own.dtype.itemsize)

    def select(self, rows: Chosen) -> RowGroup:
        positions, own = self.positions[rows], self.own[rows]
        columns = np.repeat(self.common, len(positions))
        columns["position_ms"] = positions
        if self.fire_after_ms is not None:
            columns[_FIRE_AT] = positions + self.fire_after_ms
        for name in own.dtype.names or ():
            columns[name] = own[name]
        return replace(self.shared, columns=columns)

    def column(self, name: str, rows: Chosen) -> Columns:
        """One of those in which rows differ or do not, of these rows."""
        if name in (self.own.dtype.names or ()):
            return self.own[name][rows]
        return np.repeat(self.common[name], len(self.positions[rows]))

    def part(self, rows: Chosen) -> LeanRun:
        """These rows, in as few bytes. What they share stays with them."""
        return replace(self, positions=self.positions[rows], own=self.own[rows])


Run = RowGroup | LeanRun


def lean(rows: RowGroup) -> LeanRun:
    columns = rows.columns
    positions, fires = np.ascontiguousarray(columns["position_ms"]), columns[_FIRE_AT]
    fire_after_ms = int(fires[0]) - int(positions[0])
    is_even = bool((fires - positions == fire_after_ms).all())
    names = [name for name in _NAMES if (columns[name] != columns[name][0]).any()] + [_FIRE_AT] * (not is_even)
    own = np.empty(len(rows), [(name, ROW[name]) for name in names])
    for name in names:
        own[name] = columns[name]
    shared = replace(rows, columns=columns[:0].copy(), payloads=on_own_pages(rows.payloads))
    return LeanRun(positions, own, columns[:1].copy(), fire_after_ms if is_even else None, shared)


def positions_of(run: Run) -> Positions:
    positions: Positions = run.columns["position_ms"] if isinstance(run, RowGroup) else run.positions
    return positions


def column_of(run: Run, name: str, rows: slice) -> Columns:
    """Of these rows, without all of their columns."""
    return run.columns[name][rows] if isinstance(run, RowGroup) else run.column(name, rows)


def flagged(run: Run, rows: slice, flag: int) -> RowGroup:
    """Of these rows those that have the flag; mostly no row of a run differs in that."""
    if isinstance(run, LeanRun) and "flags" not in (run.own.dtype.names or ()):
        return run.select(slice(rows.start, rows.stop if int(run.common["flags"][0]) & flag else rows.start))
    part = run.select(rows)
    return part.select(np.flatnonzero(part.columns["flags"] & flag))


def ties_at(run: Run, rows: npt.NDArray[np.intp]) -> Ties:
    """Of these rows, without all of their columns."""
    if isinstance(run, RowGroup):
        return tie_of(run.select(rows))
    prefix, index = (run.column(name, rows) for name in ("prefix", "index"))
    return ties_by(run.shared, prefix, index)


def part_of(run: Run, rows: Chosen) -> Run:
    return run.select(rows) if isinstance(run, RowGroup) else run.part(rows)


def run_bytes(run: Run) -> int:
    """What it takes of the memory while it waits."""
    if isinstance(run, RowGroup):
        return waiting_bytes(run)
    return waiting_bytes(run.select(slice(None))) - run.saved_bytes
