"""The tasks of a message that count, where not all of them do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from timerd.model.first_reply import indexes_of
from timerd.services.engine.verbs import NewTasks


def keep_stored(tasks: NewTasks, reply: bytes) -> None:
    """Of the tasks of a repeat those that were stored the first time: a limit may have been another one then."""
    indexes = indexes_of(reply)
    if len(indexes) == len(tasks.rows):
        return
    keep(tasks, np.flatnonzero(np.isin(tasks.rows.columns["index"], indexes)).tolist())


def keep(tasks: NewTasks, rows: Sequence[int]) -> None:
    """These rows of it, and no other ones."""
    delayed = set(tasks.delayed)
    tasks.keys = {at: tasks.keys[row] for at, row in enumerate(rows) if row in tasks.keys}
    tasks.delayed = [at for at, row in enumerate(rows) if row in delayed]
    tasks.rows = tasks.rows.select(np.array(rows, dtype=np.intp))
