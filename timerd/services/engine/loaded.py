"""What the partitions in memory have of a queue, and when: a look at all of them, for nothing but to know."""

from __future__ import annotations

from timerd.core.holding import Phase
from timerd.core.partition_machine import PartitionMachine
from timerd.core.taken import QueueKey
from timerd.model.partition import scope_of
from timerd.services.holding.scheduler import Scheduler


class Loaded:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def is_opening(self, queue: QueueKey) -> bool:
        """Its backlog is being loaded, which comes first."""
        opening = self._scheduler.opening
        return bool(opening) and scope_of(*queue) in opening

    def next_due_ms(self, queue: QueueKey) -> int | None:
        if self.is_opening(queue):
            return None
        found = ((machine.rows.waiting.next_ms(queue), machine.sweep.loaded_ms) for machine in self._giving())
        return min((ms for ms, loaded_ms in found if ms is not None and ms < loaded_ms), default=None)

    def due_rows(self, queue: QueueKey, until_ms: int, most: int) -> int:
        if self.is_opening(queue):
            return 0
        found = 0
        for machine in self._giving():
            found += machine.rows.waiting.due_rows(queue, machine.known_ms(until_ms), most)
            if found >= most:
                return most
        return found

    def head_key(self, queue: QueueKey, now_ms: int) -> int | None:
        if self.is_opening(queue):
            return None
        return min((key for key, _ in self._keys(queue, now_ms)), default=None)

    def heads(self, queue: QueueKey, now_ms: int) -> list[tuple[int, PartitionMachine]]:
        """Who has something due, the first to give first; nobody while the backlog is being loaded."""
        return [] if self.is_opening(queue) else sorted(self._keys(queue, now_ms), key=lambda pair: pair[0])

    def prepare(self, queue: QueueKey, until_ms: int) -> None:
        """In one partition: what there is in others waits for its turn, or is put together when it is taken."""
        any(machine.rows.prepare(queue, machine.known_ms(until_ms)) for machine in self._giving())

    def _keys(self, queue: QueueKey, now_ms: int) -> list[tuple[int, PartitionMachine]]:
        keys = [(m.rows.waiting.head_key(queue, m.known_ms(now_ms)), m) for m in self._giving()]
        return [(key, m) for key, m in keys if key is not None]

    def _giving(self) -> list[PartitionMachine]:
        """A partition that still loads has rows and keeps them."""
        return [machine for machine in self._scheduler.machines.values() if machine.phase is Phase.HOT]
