"""Asks the homes for credit where tasks are due here for their workers, and gives back what is not needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from timerd.core.dispatch import AHEAD_MS, FAR_AHEAD_MS, MAX_ASKED, Ask, DeliveryMachine, Demand
from timerd.core.taken import QueueKey
from timerd.services.engine.verbs import Firing

# So many queues are looked at in one millisecond, on average.
QUEUES_PER_MS = 16


def at_once(_: QueueKey, now_ms: int) -> float:
    """No rules keep a queue back."""
    return now_ms


class AskedHome(Protocol):
    """A stream from a home."""

    number: int

    def ask(self, ask: Ask) -> None: ...

    def give_back(self, queue: QueueKey) -> None: ...


class Asking:
    """Of one instance. `opens_ms`: when rows of a queue may be sent, at what time or later."""

    def __init__(
        self, machine: DeliveryMachine, firing: Firing, opens_ms: Callable[[QueueKey, int], float] = at_once
    ) -> None:
        self._opens_ms = opens_ms
        self._machine = machine
        self._firing = firing
        self._demand = Demand()
        self._homes: dict[int, AskedHome] = {}
        self._draining = False
        self._looked_ms = self._next_ms = -math.inf

    def serve(self, home: AskedHome, queue: QueueKey) -> None:
        self._homes[home.number] = home
        self._demand.serve(home.number, queue)
        self._looked_ms = -math.inf

    def leave(self, home: int, queue: QueueKey) -> None:
        self._demand.leave(home, queue)

    def home_gone(self, home: int) -> None:
        self._demand.home_gone(home)
        self._homes.pop(home, None)

    def granted(self, home: int, queue: QueueKey, tasks: int) -> None:
        self._demand.granted(home, queue, tasks)

    def drain(self) -> None:
        """Nothing is sent any more: all credit goes back."""
        self._draining = True
        for queue in self._demand.queues():
            self._give_back(queue)

    def look(self, now_ms: int) -> float:
        """Once a round, and with many queues less often. Returns when to come again."""
        queues = self._demand.queues()
        again_ms = self._looked_ms + len(queues) // QUEUES_PER_MS
        if now_ms < again_ms:
            return min(self._next_ms, again_ms)
        self._looked_ms = now_ms
        self._next_ms = min((self._look_at(queue, now_ms) for queue in queues), default=math.inf)
        return self._next_ms

    def _look_at(self, queue: QueueKey, now_ms: int) -> float:
        opens_ms = self._opens_ms(queue, now_ms)
        due_ms = None if self._draining or opens_ms > now_ms else self._firing.next_due_ms(queue)
        near = far = 0
        if due_ms is not None and due_ms <= now_ms + FAR_AHEAD_MS:
            most = MAX_ASKED + self._machine.wanted(queue)
            near = self._firing.due_rows(queue, now_ms + AHEAD_MS, most)
            far = self._firing.due_rows(queue, now_ms + FAR_AHEAD_MS, most)
        # What waits for a limit key has no order key: it goes by when it may be sent, as in `PoolRound`.
        key = self._firing.head_key(queue, now_ms + AHEAD_MS) if near else None
        for ask in self._demand.asks(queue, near, far, self._machine.wanted(queue), now_ms if key is None else key):
            self._homes[ask.home].ask(ask)
        if not far:
            self._give_back(queue)
        if opens_ms > now_ms:
            return opens_ms
        # Rows that wait for the turn of their key may be due in a partition that gives nothing now: it says when.
        times = () if due_ms is None or near else (due_ms - AHEAD_MS, due_ms)
        return min((float(ms) for ms in times if ms > now_ms), default=math.inf)

    def _give_back(self, queue: QueueKey) -> None:
        for home in self._homes.values():
            home.give_back(queue)
