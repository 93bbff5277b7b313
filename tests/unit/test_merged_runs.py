"""What was merged is let go at once: else a partition that is filled live holds its payloads several times over, and
nothing counts them. And no merge is so large that the loop, which does it, would hold up firing.
"""

from __future__ import annotations

import gc

import numpy as np

from timerd.core.due_queue.due_queue import LARGEST_MERGE_BYTES, LARGEST_MERGE_ROWS, MERGE_ROWS, MERGE_RUNS, DueQueue
from timerd.core.taken import QueueKey
from timerd.core.urgency import Urgency
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Extra, Template


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
    # Not isinstance: it asks lazy objects of libraries what they are.
    return sum(type(one) is Marked for one in gc.get_objects())


def test_runs_are_let_go_when_they_are_merged() -> None:
    due = DueQueue()
    for number in range(1, MERGE_RUNS):
        due.add(group(number))
    assert marked() == MERGE_RUNS - 1
    due.add(group(MERGE_RUNS))
    assert marked() == 0
    assert due.rows == 2 * MERGE_RUNS
    due.check()


def page(number: int, rows: int, payload_bytes: int) -> RowGroup:
    """As the load of a full bucket brings them: all over its time."""
    columns = np.zeros(rows, ROW)
    columns["position_ms"] = np.arange(rows) * 1_000 + number
    columns["length"], columns["offset"] = payload_bytes, payload_bytes * np.arange(rows)
    prefix = np.frombuffer(number.to_bytes(12), PREFIX)
    return RowGroup(columns, prefix, [Template("default", "mails")], bytes(rows * payload_bytes), [])


def longest_run(due: DueQueue) -> int:
    heap = due._lanes[QueueKey("default", "mails")].heaps[Urgency(0)]
    return max(len(segment.run) for _, _, segment in heap)


def test_runs_that_are_nearly_the_largest_are_merged_by_few() -> None:
    due, rows = DueQueue(), LARGEST_MERGE_ROWS - 1
    for number in range(2 * MERGE_RUNS):
        due.add(page(number, rows, 1))
    assert rows < longest_run(due) < MERGE_ROWS + LARGEST_MERGE_ROWS
    due.check()


def test_so_are_runs_of_large_payloads() -> None:
    due, rows = DueQueue(), 100
    payload_bytes = LARGEST_MERGE_BYTES // rows - 200
    for number in range(2 * MERGE_RUNS):
        due.add(page(number, rows, payload_bytes))
    assert longest_run(due) == 2 * rows
    due.check()


def test_a_take_has_the_tables_of_its_own_rows_only() -> None:
    """The tasks of schedules: a template and a note each. Who delivers one looks at all that its group has."""
    due, count = DueQueue(), 500
    columns = np.zeros(count, ROW)
    columns["position_ms"], columns["index"] = np.arange(count), np.arange(count)
    columns["template"], columns["extra"] = np.arange(count), np.arange(count) + 1
    templates = [Template("default", "mails", expire_at_ms=1_000 + n) for n in range(count)]
    extras = [Extra(occurrence=f"{n}") for n in range(count)]
    due.add(RowGroup(columns, np.frombuffer(bytes(12), PREFIX), templates, b"", extras))
    taken = due.take(QueueKey("default", "mails"), 3, count)
    assert taken is not None
    assert (taken.templates, taken.extras) == (templates[:3], extras[:3])
    assert [taken.extra_of(row).occurrence for row in range(3)] == ["0", "1", "2"]
