"""The rows of a partition that wait, in the order in which they fire."""

from timerd.core.due_queue.due_queue import DueQueue, each_of, split
from timerd.core.due_queue.runs import by_position
from timerd.core.due_queue.standing import rows_left
from timerd.core.due_queue.tie_order import RowsAt, before, behind, tie_of, ties_of

__all__ = [
    "DueQueue",
    "RowsAt",
    "before",
    "behind",
    "by_position",
    "each_of",
    "rows_left",
    "split",
    "tie_of",
    "ties_of",
]
