"""A queue of which memory kept the beginning only: the rest is read from the store once more.

Each row behind the cut comes once. What may have met it before is what was open, blocked by a move or ended there when
the reload began; where nothing was open or blocked, what is sent and acked meanwhile is nothing that a later page could
bring again.

What is written meanwhile is taken in at once where it is another queue's: the reload may last as long as its queue
takes to leave. Of its own it could not be said whether a row comes with the reload or not; the next sweep finds it.
Where keys are reloaded it can be said: rows of other keys, and those before the places of these, come as ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from timerd.core.due_queue import CutPlace, KeyPlaces, before, before_own, behind, by_position, each_of
from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey
from timerd.model.rows import FLAG_ORDERED, RowGroup, concat

MoveAnswer = TypeVar("MoveAnswer")


class Reload(NamedTuple):
    """`place`: from which on its rows come, of all keys, and `keys`: of these. `is_plain`: when it began none of them
    was in hand."""

    queue: QueueKey
    place: CutPlace
    is_plain: bool
    keys: KeyPlaces = MappingProxyType({})

    @property
    def first_ms(self) -> int:
        """Position from which on its rows come."""
        return min([self.place[0], *(own.place[0] for own in self.keys.values())])

    def leaves(self, rows: RowGroup) -> npt.NDArray[np.bool_]:
        """(n,): which rows of the queue it does not bring."""
        left = before(rows, *self.place)
        return left & before_own(rows, slice(0, len(rows)), self.keys) if self.keys else left

    def brought(self, rows: RowGroup) -> RowGroup:
        """Of rows of the queue, which are sorted."""
        return rows.select(np.flatnonzero(~self.leaves(rows))) if self.keys else behind(rows, *self.place)


def one_run(reload: Reload, groups: Iterable[RowGroup]) -> RowGroup:
    """What the reload brings of them. As one run: what waits in many is put together again and again."""
    parts = [reload.brought(part) for part in each_of(reload.queue, groups)]
    return by_position(concat([part for part in parts if len(part)]))


def put_together(reload: Reload, groups: Sequence[RowGroup], cursor: int) -> Sequence[RowGroup]:
    """A page of the reload as one run, where a sweep has met all of it (up to `cursor`), else as it is. It goes by
    nothing that changes, so it may be done beside the loop."""
    if not all(0 < rows.source <= cursor for rows in groups):
        return groups
    rows = one_run(reload, groups)
    return [replace(rows, source=cursor)] if len(rows) else []


def beside(reload: Reload | None, rows: RowGroup) -> RowGroup:
    """Those that are no matter of the reload: of other queues, of ordering keys, which are never left in the store, or
    of limit keys that it does not bring."""
    if reload is None:
        return rows
    own = [QueueKey(t.namespace, t.queue) == reload.queue for t in rows.templates]
    if not any(own):
        return rows
    is_own, is_ordered = np.array(own)[rows.columns["template"]], rows.columns["flags"] & FLAG_ORDERED != 0
    is_left = reload.leaves(rows) if reload.keys else False
    return rows.select(np.flatnonzero(~is_own | is_ordered | is_left))


def answers_beside(
    reload: Reload | None, blocked: Mapping[bytes, Mapping[RowKey, RowGroup]], answers: Mapping[bytes, MoveAnswer]
) -> Mapping[bytes, MoveAnswer]:
    """By digest: those about tasks whose rows are blocked by a move and are no matter of the reload. The others are
    asked for again after it."""
    if reload is None:
        return answers
    rows_of = {digest: blocked.get(digest, {}).values() for digest in answers}
    return {
        d: answer for d, answer in answers.items() if rows_of[d] and all(len(beside(reload, r)) for r in rows_of[d])
    }
