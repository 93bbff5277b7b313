"""How many keys have something in memory, and how many of the rows that wait behind them are due.

Counted as it changes, so that a look costs the same with ten tasks and with ten million.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey


class Waits(Protocol):
    """A row of an ordering key that has not been sent."""

    key: RowKey
    is_given: bool
    is_gone: bool
    is_due: bool
    is_over: bool

    @property
    def queue(self) -> QueueKey: ...

    @property
    def expiry_ms(self) -> int:
        """From when on it is over without a word; 0: never."""
        ...


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
    `waiting`: how many they are. What is cancelled, or has expired, ends when its turn comes, and is due no more."""

    def __init__(self) -> None:
        self.waiting = 0
        self._rows: dict[QueueKey, int] = {}
        # Those that may not be due yet, and those that are and expire, by when that is.
        self._ahead: dict[QueueKey, list[tuple[int, int, Waits]]] = {}
        self._expiring: dict[QueueKey, list[tuple[int, int, Waits]]] = {}
        # By position, whatever their queues.
        self._standing: list[tuple[int, int, Waits]] = []

    def queues(self) -> set[QueueKey]:
        return {*self._ahead, *(queue for queue, rows in self._rows.items() if rows)}

    def add(self, entry: tuple[int, int, Waits]) -> None:
        """It waits from now on: its position, a number that no other one has, and the row."""
        self.waiting += 1
        heapq.heappush(self._ahead.setdefault(entry[2].queue, []), entry)
        heapq.heappush(self._standing, entry)

    def more(self, filed: Waits, rows: int) -> None:
        """It waits here, or does so no more."""
        self.waiting += rows
        if filed.is_due:
            self._rows[filed.queue] += rows

    def rows(self, queue: QueueKey, now_ms: int) -> int:
        ahead = self._ahead.get(queue)
        while ahead and ahead[0][0] <= now_ms:
            _, number, filed = heapq.heappop(ahead)
            if not (filed.is_gone or filed.is_over):
                filed.is_due = True
                self._rows[queue] = self._rows.get(queue, 0) + (not filed.is_given)
                if filed.expiry_ms:
                    heapq.heappush(self._expiring.setdefault(queue, []), (filed.expiry_ms, number, filed))
        if ahead is not None and not ahead:
            del self._ahead[queue]
        self._expire(queue, now_ms)
        return self._rows.get(queue, 0)

    def over(self, filed: Waits) -> None:
        """It ends when its turn comes, whatever its worker would say."""
        if filed.is_due and not filed.is_given:
            self._rows[filed.queue] -= 1
        filed.is_due, filed.is_over = False, True

    def oldest_ms(self, now_ms: int) -> int | None:
        """Position of the first that is not over, whether it waits behind its key or is the next one of it."""
        for queue in list(self._expiring):
            self._expire(queue, now_ms)
        while self._standing and _is_past(self._standing[0][2], now_ms):
            heapq.heappop(self._standing)
        return self._standing[0][0] if self._standing else None

    def _expire(self, queue: QueueKey, now_ms: int) -> None:
        expiring = self._expiring.get(queue)
        while expiring and expiring[0][0] <= now_ms:
            filed = heapq.heappop(expiring)[2]
            if not filed.is_gone:
                self.over(filed)
        if expiring is not None and not expiring:
            del self._expiring[queue]

    def clear(self) -> None:
        self.waiting = 0
        self._rows.clear()
        self._ahead.clear()
        self._expiring.clear()
        self._standing.clear()


def _is_past(filed: Waits, now_ms: int) -> bool:
    return filed.is_gone or filed.is_over or 0 < filed.expiry_ms <= now_ms
