"""The order of rows of one instant, and what of a run lies before a place in it.

A place is a position and, among the rows of that instant, a tie: a million may be due at once, and a queue that has not
room for all of them is cut between two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from timerd.model.columns import Columns
from timerd.model.row_keys import Digests, Positions
from timerd.model.rows import RowGroup

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_ITEM = np.uint64((1 << 32) - 1)
Ties = npt.NDArray[np.uint64]


def tie_of(rows: RowGroup) -> Ties:
    """Orders rows of equal position: a function of the digest alone, so that every scan cuts at the same place."""
    return ties_by(rows, rows.columns["prefix"], rows.columns["index"])


def ties_by(tables: RowGroup, prefix: Columns, index: Columns) -> Ties:
    """As `tie_of`, of columns that belong to these tables."""
    heads = np.ascontiguousarray(tables.prefixes).view("u1").reshape(-1, 12)[:, :8]
    numbers = np.ascontiguousarray(heads).view(">u8").reshape(-1).astype(np.uint64)
    ties: Ties = numbers[prefix] + index.astype(np.uint64) * _SPREAD
    return ties


def ties_of(digests: Digests) -> Ties:
    """As `tie_of`, of digests alone."""
    halves = np.ascontiguousarray(digests).view(">u8").reshape(-1, 2).astype(np.uint64)
    ties: Ties = halves[:, 0] + (halves[:, 1] & _ITEM) * _SPREAD
    return ties


@dataclass(frozen=True, slots=True)
class RowsAt:
    """Rows that are looked for, by positions and by ties, each sorted. What is found may be another one now and then:
    who asks looks at it."""

    positions_ms: Positions
    ties: Ties

    def near(self, positions_ms: Positions) -> npt.NDArray[np.intp]:
        """Which of these positions, which are sorted, are among them."""
        first_ms, last_ms = self.positions_ms[0], self.positions_ms[-1]
        if not len(positions_ms) or positions_ms[0] > last_ms or positions_ms[-1] < first_ms:
            return np.empty(0, np.intp)
        return np.flatnonzero(np.isin(positions_ms, self.positions_ms))

    def ties_among(self, ties: Ties) -> npt.NDArray[np.bool_]:
        """(n,): which are those of such a row."""
        return np.isin(ties, self.ties)

    def among(self, rows: RowGroup) -> npt.NDArray[np.bool_]:
        """(n,): which rows are meant."""
        is_near = np.isin(rows.columns["position_ms"], self.positions_ms)
        return is_near & np.isin(tie_of(rows), self.ties) if is_near.any() else is_near


def before(rows: RowGroup, position_ms: int, tie: int) -> npt.NDArray[np.bool_]:
    """Which rows come before (position, tie)."""
    positions = rows.columns["position_ms"]
    early: npt.NDArray[np.bool_] = (positions < position_ms) | (
        (positions == position_ms) & (tie_of(rows) < np.uint64(tie))
    )
    return early


def behind(rows: RowGroup, position_ms: int, tie: int) -> RowGroup:
    """Of rows that are sorted those that do not come before (position, tie)."""
    if not len(rows) or int(rows.columns["position_ms"][0]) > position_ms:
        return rows
    return rows.select(np.flatnonzero(~before(rows, position_ms, tie)))
