"""Attempts whose handlers have said no progress for too long.

To extend the lease is the sign of life of the worker, whose handler may hang all the same: only what that says counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from timerd.core.taken import Taken

# A worker ends an attempt by itself when its time is over, and says where it was: so long that may be under way.
WORD_MS = 2_000


class Stalls:
    """Of the rows of a batch. `spans_ms`: of each, for how long its handler may be silent; 0: for any time."""

    __slots__ = ("_spans_ms", "_until_ms")

    def __init__(self, spans_ms: Sequence[int], until_ms: Sequence[float]) -> None:
        self._spans_ms = spans_ms
        self._until_ms = [*until_ms]

    @property
    def first_ms(self) -> float:
        """When to look first."""
        return min(self._until_ms)

    def until_ms(self, row: int) -> float:
        """When the row has stalled unless its handler says something before."""
        return self._until_ms[row]

    def heard(self, row: int, at_ms: int) -> None:
        """Its handler had said something then. Words may overtake each other."""
        if span_ms := self._spans_ms[row]:
            self._until_ms[row] = max(self._until_ms[row], at_ms + span_ms + WORD_MS)

    def part(self, rows: Sequence[int]) -> Stalls:
        return Stalls([self._spans_ms[row] for row in rows], [self._until_ms[row] for row in rows])


def stalls_of(taken: Taken, now_ms: int) -> Stalls | None:
    """Of rows that are sent now. None: all of them may be silent."""
    templates = taken.rows.templates
    if not any(template.stall_timeout_ms for template in templates):
        return None
    spans_ms = [templates[kind].stall_timeout_ms for kind in taken.rows.columns["template"].tolist()]
    return Stalls(spans_ms, [now_ms + span_ms + WORD_MS if span_ms else math.inf for span_ms in spans_ms])
