"""How long the attempts may take that begin together: as their retry policies say, and no longer than their tasks are
worth something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from timerd.core.dispatch.stalls import WORD_MS, Stalls, stalls_of
from timerd.core.taken import Taken
from timerd.model.expiries import deadlines_ms


class AttemptEnds(NamedTuple):
    """`last_ms`: when the last is ended from here; `each_ms`: of each, where some have deadlines; else all are ended
    then. `stalls`: where some are ended before, unless their handlers say something."""

    last_ms: int
    each_ms: list[int] | None = None
    stalls: Stalls | None = None


def attempt_ends(taken: Taken, timeout_ms: int, now_ms: int) -> AttemptEnds:
    """Of rows with this attempt time-out."""
    deadlines, stalls = deadlines_ms(taken.rows), stalls_of(taken, now_ms)
    if deadlines is None:
        return AttemptEnds(now_ms + timeout_ms + WORD_MS, stalls=stalls)
    each_ms: list[int] = (np.minimum(deadlines, now_ms + timeout_ms) + WORD_MS).tolist()
    return AttemptEnds(max(each_ms), each_ms, stalls)


def attempt_timeouts(taken: Taken) -> list[tuple[int, Sequence[int]]]:
    """(attempt_timeout_ms, rows) for each time-out among the rows; nearly always one for all."""
    templates, column = taken.rows.templates, taken.rows.columns["template"]
    if len(templates) == 1:
        return [(templates[0].retry.attempt_timeout_ms, range(len(taken)))]
    parts: dict[int, list[int]] = {}
    for row, kind in enumerate(column.tolist()):
        parts.setdefault(templates[kind].retry.attempt_timeout_ms, []).append(row)
    return list(parts.items())
