"""How far rows of ordering keys are known to be in memory: all partitions before have been read (rule O1).

A partition that is held says so by itself. Of those that are not held the catalogue tells, which is read each second:
missed buckets are loaded one after the other, and the backlog of a queue when it has its first worker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from timerd.core.instance_machine import shards_of
from timerd.core.taken import LAST, QueueKey
from timerd.model.partition import TIME_SCOPE, Partition, scope_of
from timerd.model.storage import BucketEntry
from timerd.services.holding.held import Machines

# Nothing was read yet.
NOTHING_MS = -LAST


class ReadThrough:
    """`mine`: what is to be held here, and is not done yet."""

    def __init__(self, machines: Machines, mine: Callable[[Partition], bool]) -> None:
        self._machines = machines
        self._mine = mine
        # Scope -> start of the first bucket that is not held.
        self._unheld_ms: dict[int, int] = {}
        self._opened: set[int] = set()

    def opened(self, scope: int) -> None:
        """A queue has a worker again: its backlog has to be looked for."""
        self._unheld_ms.pop(scope, None)
        self._opened.add(scope)

    def begin_look(self) -> None:
        """The catalogue is about to be read."""
        self._opened.clear()

    def looked(
        self, catalogue: Sequence[BucketEntry], scopes: Mapping[int, Sequence[BucketEntry]], asked: Collection[int]
    ) -> None:
        """`asked`: the scopes that were looked for, some of which have nothing."""
        found = {TIME_SCOPE: catalogue} | {scope: scopes.get(scope, ()) for scope in asked}
        self._unheld_ms = {
            scope: self._first_unheld(each) for scope, each in found.items() if scope not in self._opened
        }

    def known_ms(self, queue: QueueKey) -> int:
        """Every row of the queue before that instant is in memory, or over."""
        scope = scope_of(*queue)
        unheld_ms = min(self._unheld_ms.get(TIME_SCOPE, NOTHING_MS), self._unheld_ms.get(scope, NOTHING_MS))
        by_scope = self._machines.by_scope
        held = (machine for each in (TIME_SCOPE, scope) for machine in by_scope.get(each, {}).values())
        return min([unheld_ms, *(machine.ordered_from_ms(scope) for machine in held)])

    def _first_unheld(self, entries: Iterable[BucketEntry]) -> int:
        buckets = (entry for entry in entries if not entry.finished)
        unheld = (e.bucket_ms for e in buckets if any(map(self._is_unheld, shards_of(e))))
        return min(unheld, default=LAST)

    def _is_unheld(self, partition: Partition) -> bool:
        return partition not in self._machines and self._mine(partition)
