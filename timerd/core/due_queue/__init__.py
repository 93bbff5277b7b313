"""The rows of a partition that wait, in the order in which they fire."""

from timerd.core.due_queue.due_queue import DueQueue, each_of, split
from timerd.core.due_queue.runs import by_position
from timerd.core.due_queue.tie_order import before, behind, tie_of

__all__ = [
    "DueQueue",
    "before",
    "behind",
    "by_position",
    "each_of",
    "split",
    "tie_of",
]
