"""A queue of which memory kept the beginning only: the rest is read from the store once more.

Each row behind the cut comes once. What may have met it before is what was open, aside or ended there when the reload
began; where nothing was open or aside, what is sent and acked meanwhile is nothing that a later page could bring again.

What is written meanwhile is taken in at once where it is another queue's: the reload may last as long as its queue
takes to leave. Of its own it could not be said whether a row comes with the reload or not; the next sweep finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey
from timerd.model.rows import RowGroup

Answer = TypeVar("Answer")


class Reload(NamedTuple):
    """`place`: (position, tie) from which on its rows come. `is_plain`: when it began none of them was in hand."""

    queue: QueueKey
    place: tuple[int, int]
    is_plain: bool


def beside(reload: Reload | None, rows: RowGroup) -> RowGroup:
    """Those that are no matter of the reload."""
    if reload is None:
        return rows
    own = [QueueKey(t.namespace, t.queue) == reload.queue for t in rows.templates]
    return rows.select(np.flatnonzero(~np.array(own)[rows.columns["template"]])) if any(own) else rows


def answers_beside(
    reload: Reload | None, aside: Mapping[bytes, Mapping[RowKey, RowGroup]], answers: Mapping[bytes, Answer]
) -> Mapping[bytes, Answer]:
    """By digest: those about tasks whose rows are aside and are no matter of the reload. The others are asked for again
    after it."""
    if reload is None:
        return answers
    rows_of = {digest: aside.get(digest, {}).values() for digest in answers}
    return {
        d: answer for d, answer in answers.items() if rows_of[d] and all(len(beside(reload, r)) for r in rows_of[d])
    }
