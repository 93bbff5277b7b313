"""The order of rows of one instant, and what of a run lies before a place in it.

A place is a position and, among the rows of that instant, a tie: a million may be due at once, and a queue that has not
room for all of them is cut between two.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from timerd.model.rows import RowGroup


def tie_of(rows: RowGroup) -> npt.NDArray[np.uint64]:
    """Orders rows of equal position: a function of the digest alone, so that every scan cuts at the same place."""
    heads = np.ascontiguousarray(rows.prefixes).view("u1").reshape(-1, 12)[:, :8]
    numbers = np.ascontiguousarray(heads).view(">u8").reshape(-1).astype(np.uint64)
    items = rows.columns["index"].astype(np.uint64)
    ties: npt.NDArray[np.uint64] = numbers[rows.columns["prefix"]] + items * np.uint64(0x9E3779B97F4A7C15)
    return ties


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
