"""Earliest deadline first, in the queues that ask for it: of what is due, the row that is late soonest.

A row that is late already could only make others late, so it goes behind those that can still be in time, with what has
no deadline: these go by age. Every eighth that is sent is the oldest of them, for under overload all is late, and
nothing old would end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np

from timerd.core.fairness.lines import FiledChunk, FiledNumbers, FiledOrder, RowLine, RowRun
from timerd.model.expiries import NEVER_MS, expiries_ms, soft_expiries_ms
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup

OLD_EVERY = 8
# A row that is picked: the rows that it was filed with, and its number among them.
Pick = tuple[FiledChunk, int]


class _Ends(NamedTuple):
    """Of the rows of a chunk: when each is late, and when it is not delivered any more."""

    late_ms: FiledOrder
    firm_ms: FiledOrder


class DeadlineOrder:
    """Of one queue. `rows`: that wait here."""

    def __init__(self) -> None:
        self.rows = 0
        # By deadline; and those that are late or have none, by age.
        self._timely, self._others = RowLine(), RowLine()
        self._ends: dict[FiledChunk, _Ends] = {}
        # How many were sent since the last one that was sent for its age.
        self._since_old = 0

    def add(self, chunk: FiledChunk) -> None:
        self._ends = {each: ends for each, ends in self._ends.items() if each.count}
        ends = self._ends[chunk] = _ends_of(chunk.rows)
        self.rows += chunk.count
        by_deadline = np.lexsort((chunk.order, ends.late_ms))
        timely = int(np.searchsorted(ends.late_ms[by_deadline], NEVER_MS))
        self._timely.add(RowRun(chunk, by_deadline[:timely], ends.late_ms))
        self._others.add(RowRun(chunk, _by_age(chunk, by_deadline[timely:]), chunk.order))

    def lose(self, rows: int) -> None:
        """So many wait here no more, and were not picked."""
        self.rows -= rows

    def chunks(self) -> Collection[FiledChunk]:
        """All that waits here."""
        return [chunk for chunk in self._ends if chunk.count]

    def head_order(self) -> int | None:
        """By what the next row goes among those of other queues; None: there is none."""
        head = self._timely.head() or self._others.head()
        return None if head is None else int(head[0].order[head[1]])

    def next(self, now_ms: int) -> Pick | None:
        """The row that is to be sent now; None: none waits. It waits on until `take`."""
        self._part_late(now_ms)
        if self._since_old >= OLD_EVERY - 1 and (old := self._others.head()) is not None:
            return old
        return self._timely.head() or self._others.head()

    def take(self, pick: Pick, now_ms: int) -> None:
        """The row that `next` has named is picked. One that has expired ends, and is not sent."""
        chunk, row = pick
        ends = self._ends[chunk]
        chunk.remove(row)
        self.rows -= 1
        if ends.firm_ms[row] > now_ms:
            is_old = ends.late_ms[row] <= now_ms or ends.late_ms[row] == NEVER_MS
            self._since_old = 0 if is_old else self._since_old + 1

    def _part_late(self, now_ms: int) -> None:
        """What is late by now goes by its age."""
        while (head := self._timely.head()) is not None and self._ends[head[0]].late_ms[head[1]] <= now_ms:
            chunk, late = head[0], self._timely.cut(now_ms)
            self._others.add(RowRun(chunk, _by_age(chunk, late), chunk.order))


class DeadlineTurn:
    """One take of a queue."""

    def __init__(self, order: DeadlineOrder, gives: Callable[[Partition], bool], now_ms: int) -> None:
        self._order, self._gives, self._now_ms = order, gives, now_ms

    def pick(self, most: int) -> list[Pick]:
        """Up to so many rows, in order; they wait no more. A partition that gives nothing now gets back what was filed
        of it."""
        picks: list[Pick] = []
        while len(picks) < most and (found := self._order.next(self._now_ms)) is not None:
            chunk = found[0]
            if not self._gives(chunk.home.partition):
                chunk.home.give_back(chunk)
                continue
            self._order.take(found, self._now_ms)
            picks.append(found)
        return picks

    def arranged(self, picks: list[Pick]) -> list[Pick]:
        """As they are to be delivered."""
        return picks

    def taken(self, sent: Counter[str]) -> None:
        """So many of each limit key are sent of what was picked last."""

    def end(self) -> None:
        """All of it was said."""


def _by_age(chunk: FiledChunk, rows: FiledNumbers) -> FiledNumbers:
    in_order: FiledNumbers = rows[np.argsort(chunk.order[rows], kind="stable")]
    return in_order


def _ends_of(rows: RowGroup) -> _Ends:
    never = np.full(len(rows), NEVER_MS, np.int64)
    firm, soft = expiries_ms(rows), soft_expiries_ms(rows)
    firm_ms = never if firm is None else firm
    return _Ends(firm_ms if soft is None else np.where(soft < NEVER_MS, soft, firm_ms), firm_ms)
