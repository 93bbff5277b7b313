"""Which queues a round of delivery visits: those for which something is due, not all that have workers.

A queue is looked at again when it got rows and when it was visited; where its workers have credit again what was known
still holds. Beside these a few are looked at in turn, so that one that was missed, whatever the reason, is found.
"""

from __future__ import annotations

import math

from timerd.core.dispatch import DeliveryMachine, DueTimes
from timerd.core.taken import QueueKey
from timerd.services.engine.verbs import Firing

# In turn, so often at most: at a steady rate there is a round for each task.
LOOKED_AT, LOOK_EVERY_MS = 8, 5


class DueLooks:
    """Of one instance."""

    def __init__(self, machine: DeliveryMachine, firing: Firing) -> None:
        self._capacity = machine.capacity
        self._machine = machine
        self._firing = firing
        self._times = DueTimes()
        # To be looked at in the next round, whatever happens; and those whose turn is still to come.
        self._again: set[QueueKey] = set()
        self._in_turn: list[QueueKey] = []
        self._turn_ms = 0

    def look(self, now_ms: int) -> list[QueueKey]:
        """Those with something due, next in turn first."""
        unsure = {*self._firing.touched(), *self._again, *self._next_in_turn(now_ms)}
        unsure.update(queue for queue in self._capacity.arrived() if not self._times.resume(queue))
        for queue in unsure:
            self._look_at(queue)
        self._again.clear()
        return self._capacity.in_turn(self._times.due(now_ms))

    def due_ms(self, queue: QueueKey) -> float:
        """When the queue may next have something for a worker that wants it."""
        due_ms = self._firing.next_due_ms(queue) if self._machine.wanted(queue) else None
        return math.inf if due_ms is None else due_ms

    def seen(self, queue: QueueKey, due_ms: float) -> None:
        """It was visited, and is to be again by then; if its workers want nothing more, when they do."""
        if self._machine.wanted(queue):
            self._times.set(queue, due_ms)
        else:
            self._times.rest(queue)

    def held_up(self, queue: QueueKey) -> None:
        """What is due waits for more than time: it is looked at in each round."""
        self._times.rest(queue)
        self._again.add(queue)

    def forget(self, queue: QueueKey) -> None:
        """It has no workers any more."""
        self._times.forget(queue)

    def soon(self, until_ms: int, most: int) -> int:
        """How many queues have something due by then; more than `most` are said as `most`."""
        return self._times.count(until_ms, most)

    def next_ms(self) -> float:
        return self._times.next_ms()

    def _look_at(self, queue: QueueKey) -> None:
        if self._machine.wanted(queue):
            self._times.set(queue, self.due_ms(queue))
        else:
            self._times.forget(queue)

    def _next_in_turn(self, now_ms: int) -> list[QueueKey]:
        if self._turn_ms <= now_ms < self._turn_ms + LOOK_EVERY_MS:
            return []
        self._turn_ms = now_ms
        if not self._in_turn:
            self._in_turn = self._capacity.turn()
        looked_at, self._in_turn = self._in_turn[:LOOKED_AT], self._in_turn[LOOKED_AT:]
        return looked_at
