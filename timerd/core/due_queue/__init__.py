"""The rows of a partition that wait, in the order in which they fire."""

from timerd.core.due_queue.due_queue import SAMPLE_ROWS, DueQueue
from timerd.core.due_queue.key_places import (
    MOST_KEYS,
    NOWHERE,
    CutPlace,
    Cuts,
    KeyPlace,
    KeyPlaces,
    before_own,
    cuts_of,
    is_kept,
    sampled,
)
from timerd.core.due_queue.runs import by_position, each_of, split
from timerd.core.due_queue.standing import rows_left
from timerd.core.due_queue.tie_order import RowsAt, before, behind, tie_of, ties_of
from timerd.core.due_queue.waiting_bytes import waiting_bytes as bytes_of

__all__ = [
    "MOST_KEYS",
    "NOWHERE",
    "SAMPLE_ROWS",
    "Cuts",
    "DueQueue",
    "KeyPlace",
    "KeyPlaces",
    "CutPlace",
    "RowsAt",
    "before",
    "before_own",
    "behind",
    "by_position",
    "cuts_of",
    "each_of",
    "is_kept",
    "rows_left",
    "sampled",
    "split",
    "tie_of",
    "ties_of",
    "bytes_of",
]
