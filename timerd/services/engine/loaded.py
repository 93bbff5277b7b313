"""What the partitions in memory have of a queue, and when: a look at all of them, for nothing but to know."""

from __future__ import annotations

import math

from timerd.core.partition import PartitionMachine, Phase
from timerd.core.taken import QueueKey
from timerd.model.partition import TIME_SCOPE, scope_of
from timerd.services.holding.scheduler import Scheduler


class Loaded:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.limit_keys = scheduler.memory.limit_keys

    def is_opening(self, queue: QueueKey) -> bool:
        """Its backlog is being loaded, which comes first."""
        opening = self._scheduler.opening
        return bool(opening) and scope_of(*queue) in opening

    def next_due_ms(self, queue: QueueKey) -> int | None:
        if self.is_opening(queue):
            return None
        found = (machine.next_ms(queue) for machine in self.giving(queue))
        next_ms = min((ms for ms in found if ms is not None), default=None)
        return self._in_turn_ms(queue, next_ms) if queue in self.limit_keys.queues else next_ms

    def due_rows(self, queue: QueueKey, until_ms: int, most: int) -> int:
        if self.is_opening(queue):
            return 0
        found = 0
        for machine in self.giving(queue):
            found += machine.due_rows(queue, until_ms, most)
            if found >= most:
                return most
        return found

    def head_key(self, queue: QueueKey, now_ms: int) -> int | None:
        if self.is_opening(queue):
            return None
        orders = [key for key, _ in self._keys(queue, now_ms)]
        if queue in self.limit_keys.queues and (order := self.limit_keys.head_order(queue)) is not None:
            orders.append(order)
        return min(orders, default=None)

    def heads(self, queue: QueueKey, now_ms: int) -> list[tuple[int, PartitionMachine]]:
        """Who has something due, the first to give first; nobody while the backlog is being loaded."""
        return [] if self.is_opening(queue) else sorted(self._keys(queue, now_ms), key=lambda pair: pair[0])

    def prepare(self, queue: QueueKey, until_ms: int) -> None:
        """In one partition: what there is in others waits for its turn, or is put together when it is taken."""
        any(machine.prepare(queue, until_ms) for machine in self.giving(queue))

    def _in_turn_ms(self, queue: QueueKey, next_ms: int | None) -> int | None:
        """The earlier one of that and of when something filed may be sent, which is never before 0."""
        filed_ms = self.limit_keys.next_ms(queue)
        if filed_ms == math.inf:
            return next_ms
        due_ms = int(max(0.0, filed_ms))
        return due_ms if next_ms is None else min(next_ms, due_ms)

    def _keys(self, queue: QueueKey, now_ms: int) -> list[tuple[int, PartitionMachine]]:
        keys = [(m.head_key(queue, now_ms), m) for m in self.giving(queue)]
        return [(key, m) for key, m in keys if key is not None]

    def giving(self, queue: QueueKey) -> list[PartitionMachine]:
        """A partition that still loads has rows and keeps them. What is another queue's backlog is not looked at."""
        by_scope = self._scheduler.machines.by_scope
        machines = list(by_scope.get(TIME_SCOPE, {}).values())
        if len(by_scope) > (TIME_SCOPE in by_scope):
            machines += by_scope.get(scope_of(*queue), {}).values()
        return [machine for machine in machines if machine.phase is Phase.HOT]
