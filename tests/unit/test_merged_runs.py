"""What was merged is let go at once: else a partition that is filled live holds its payloads several times over, and
nothing counts them.
"""

from __future__ import annotations

import gc

import numpy as np

from timerd.core.due_queue import MERGE_RUNS, DueQueue
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Template


class Marked(RowGroup):
    """Can be told from what it is merged into."""


def group(number: int) -> RowGroup:
    columns = np.zeros(2, ROW)
    columns["position_ms"] = [number, number + 1_000]
    columns["length"], columns["offset"] = 3, [0, 3]
    prefix = np.frombuffer(number.to_bytes(12), PREFIX)
    return Marked(columns, prefix, [Template("default", "mails")], b"abcdef", [])


def marked() -> int:
    gc.collect()
    return sum(isinstance(one, Marked) for one in gc.get_objects())


def test_runs_are_let_go_when_they_are_merged() -> None:
    due = DueQueue()
    for number in range(1, MERGE_RUNS):
        due.add(group(number))
    assert marked() == MERGE_RUNS - 1
    due.add(group(MERGE_RUNS))
    assert marked() == 0
    assert due.rows == 2 * MERGE_RUNS
    due.check()
