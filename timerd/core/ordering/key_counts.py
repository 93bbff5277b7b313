"""How many keys have something in memory, and how many of the rows that wait behind them are due.

Counted as it changes, so that a look costs the same with ten tasks and with ten million.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from enum import StrEnum
from itertools import count
from typing import Protocol

from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey


class Waits(Protocol):
    """A row of an ordering key that has not been sent."""

    key: RowKey
    is_given: bool
    is_gone: bool
    is_due: bool

    @property
    def queue(self) -> QueueKey: ...


class KeyPhase(StrEnum):
    """Of one ordering key that has something in memory, or stands still. WAITING: for an instant, a worker or a retry.
    IN_HAND: one of its tasks is with a worker, or ends. HALTED: since a dead letter."""

    WAITING = "waiting"
    IN_HAND = "in_hand"
    HALTED = "halted"


class KeyCounts:
    """Of one instance: by queue and phase, how many keys. What halts is counted apart (halts.py)."""

    def __init__(self) -> None:
        self._keys: dict[tuple[QueueKey, KeyPhase], int] = {}

    def turn(self, queue: QueueKey, was: KeyPhase | None, phase: KeyPhase | None) -> None:
        """A key of the queue was in that phase and is in this one now; None: it has nothing in memory."""
        for each, by in ((was, -1), (phase, 1)):
            if each is None:
                continue
            keys = self._keys.get((queue, each), 0) + by
            if keys:
                self._keys[queue, each] = keys
            else:
                del self._keys[queue, each]

    def all(self) -> Mapping[tuple[QueueKey, KeyPhase], int]:
        return self._keys


class RowsBehind:
    """Of one partition: rows that wait behind their ordering keys, and are not in the due queue; which of them are due.
    `waiting`: how many they are."""

    def __init__(self) -> None:
        self.waiting = 0
        self._rows: dict[QueueKey, int] = {}
        # Those that may not be due yet.
        self._ahead: dict[QueueKey, list[tuple[int, int, Waits]]] = {}
        self._numbers = count()

    def queues(self) -> set[QueueKey]:
        return {*self._ahead, *(queue for queue, rows in self._rows.items() if rows)}

    def add(self, filed: Waits) -> None:
        """It waits from now on."""
        self.waiting += 1
        queue = filed.queue
        heapq.heappush(self._ahead.setdefault(queue, []), (filed.key.position_ms, next(self._numbers), filed))

    def more(self, filed: Waits, rows: int) -> None:
        """It waits here, or does so no more."""
        self.waiting += rows
        if filed.is_due:
            self._rows[filed.queue] += rows

    def rows(self, queue: QueueKey, now_ms: int) -> int:
        ahead = self._ahead.get(queue)
        while ahead and ahead[0][0] <= now_ms:
            filed = heapq.heappop(ahead)[2]
            if not filed.is_gone:
                filed.is_due = True
                self._rows[queue] = self._rows.get(queue, 0) + (not filed.is_given)
        if ahead is not None and not ahead:
            del self._ahead[queue]
        return self._rows.get(queue, 0)

    def clear(self) -> None:
        self.waiting = 0
        self._rows.clear()
        self._ahead.clear()
