"""Rows that a holder leaves in the store: the ends of queues for which there is no memory, and what a later release
wrote. They hold `verified` back.

A queue is cut at one place. Where it has limit keys the longest of them are cut first, each at a place of its own: what
others have is not in the store for them (tests/models/cuts.pml).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from timerd.core.due_queue import NOWHERE, CutPlace, KeyPlace, before, before_own
from timerd.core.partition.foreign_rows import ForeignRows
from timerd.core.partition.reload import Reload
from timerd.core.taken import LAST, QueueKey
from timerd.model.rows import RowGroup

# Of what a key was left: with so much it is refilled if another one has less than a quarter, which begins it.
HALF, QUARTER = 2, 4


class LeftInStore:
    """Those of one held partition."""

    def __init__(self) -> None:
        # Queues whose rows at or after (position, tie) were cut off.
        self.cut: dict[QueueKey, CutPlace] = {}
        # Those of limit keys that were cut off before that.
        self.keys: dict[QueueKey, dict[str, KeyPlace]] = {}
        # Both, in the order in which they are read again: what was read last comes last.
        self._in_turn: dict[QueueKey, None] = {}
        # The queue whose end is being read again.
        self.reload: Reload | None = None
        self.foreign = ForeignRows()

    def oldest_ms(self) -> int | None:
        """Position from which on rows may be left."""
        found = [self.first_ms(queue) for queue in self.queues()]
        found += [self.reload.first_ms] if self.reload is not None else []
        found += [self.foreign.oldest_ms] if self.foreign.oldest_ms is not None else []
        return min(found, default=None)

    def queues(self) -> Iterable[QueueKey]:
        """Those that were cut."""
        return self._in_turn

    def first_ms(self, queue: QueueKey) -> int:
        """From which position on rows of a queue are left."""
        own = (each.place[0] for each in self.keys.get(queue, {}).values())
        return min([self.cut.get(queue, NOWHERE)[0], *own])

    def is_kept(self, queue: QueueKey, rows: RowGroup) -> npt.NDArray[np.bool_] | None:
        """(n,): which rows of the queue are not left; None: all of them."""
        place, keys = self.cut.get(queue), self.keys.get(queue)
        kept = None if place is None else before(rows, *place)
        if keys is None:
            return kept
        own = before_own(rows, slice(0, len(rows)), keys)
        return own if kept is None else kept & own

    def kept(self, queue: QueueKey, rows: RowGroup) -> RowGroup:
        kept = self.is_kept(queue, rows)
        return rows if kept is None else rows.select(np.flatnonzero(kept))

    def leave(self, queue: QueueKey, place: CutPlace) -> None:
        """The queue was cut there. Keys that were cut later are cut there now."""
        place = self.cut[queue] = min(place, self.cut.get(queue, place))
        self._put(queue, {key: own for key, own in self.keys.get(queue, {}).items() if own.place < place})

    def leave_of_keys(self, queue: QueueKey, places: Mapping[str, KeyPlace]) -> None:
        """These keys of the queue were cut there, or are cut before that."""
        keys = self.keys.get(queue, {})
        lower = {key: own for key, own in places.items() if key not in keys or own.place < keys[key].place}
        self._put(queue, {**keys, **lower})

    def dry(self, queue: QueueKey, reached_ms: int | None, filed: Mapping[str, int]) -> Collection[str]:
        """Keys that were cut and have half of what they were left, or less, if one of them has less than a quarter.
        `reached_ms`: all that comes before it has been filed, None: whatever was left; `filed`: rows of each key."""
        keys, until_ms = self.keys.get(queue, {}), LAST if reached_ms is None else reached_ms
        if not any(own.low_ms < until_ms and filed.get(key, 0) <= own.rows // QUARTER for key, own in keys.items()):
            return ()
        return [key for key, own in keys.items() if own.half_ms < until_ms and filed.get(key, 0) <= own.rows // HALF]

    def taken_out(self, queue: QueueKey, dry: Collection[str]) -> Reload:
        """A reload of these keys; where there are none, of all that is left of the queue. What it brings is left no
        more."""
        # What is cut anew comes last: each queue has its turn.
        keys = self.keys.pop(queue, {})
        self._in_turn.pop(queue, None)
        place = NOWHERE if dry else self.cut.pop(queue, NOWHERE)
        wanted = {key: own for key, own in keys.items() if key in dry or not dry}
        self._put(queue, {key: own for key, own in keys.items() if key not in wanted})
        return Reload(queue, place, False, wanted)

    def _put(self, queue: QueueKey, keys: dict[str, KeyPlace]) -> None:
        if keys:
            self.keys[queue] = keys
        else:
            self.keys.pop(queue, None)
        if queue in self.keys or queue in self.cut:
            self._in_turn.setdefault(queue)
        else:
            self._in_turn.pop(queue, None)
