"""Due rows of a queue that has limit keys, in turn: they are filed by key, and a take picks of each what it may. Those
of a queue that goes by deadlines are filed by these."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby

import numpy as np

from timerd.core.dispatch import Admission
from timerd.core.fairness import DeadlineTurn, KeyTurn, Pick
from timerd.core.partition import PartitionMachine
from timerd.core.taken import QueueKey, Taken
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup, concat
from timerd.services.engine.loaded import Loaded
from timerd.services.holding.scheduler import Scheduler

# So many are filed of a partition at once: about a millisecond.
FILED_AT_ONCE = 4_096
GatesHeard = Callable[[PartitionMachine, Admission], None]


class TakingTurns:
    """`heard`: of what the gates have said of a partition. `most_kept_back`: with so many rows that gates object to a
    take is over."""

    def __init__(self, scheduler: Scheduler, loaded: Loaded, heard: GatesHeard, most_kept_back: int) -> None:
        self._machines, self._guard = scheduler.machines, scheduler.deliveries.guard
        self._loaded = loaded
        self._heard = heard
        self._most_kept_back = most_kept_back
        self.limit_keys = scheduler.memory.limit_keys
        # Queues that have more due than was filed at once.
        self._filing: set[QueueKey] = set()

    def take(self, queue: QueueKey, limit: int, now_ms: int, admission: Admission) -> list[Taken]:
        if self._loaded.is_opening(queue):
            return []
        self._file(queue, now_ms)
        turn, taken = self.limit_keys.turn(queue, now_ms), list[Taken]()
        try:
            while limit > 0 and admission.kept_back < self._most_kept_back and (picks := turn.pick(limit)):
                batches = list(self._sent(picks, now_ms, admission, turn))
                taken += batches
                limit -= sum(map(len, batches))
        finally:
            turn.end()
        return taken

    def _file(self, queue: QueueKey, now_ms: int) -> None:
        """What is due. Of much, the rest in the next turns of the loop: else those who came last would not be seen
        before a worker had taken of the others many times."""
        self._filing.discard(queue)
        has_more = [machine.file_due(queue, FILED_AT_ONCE, now_ms) for machine in self._loaded.giving(queue)]
        if any(has_more):
            self._filing.add(queue)
            asyncio.get_running_loop().call_soon(self._file_on, queue, now_ms)

    def _file_on(self, queue: QueueKey, now_ms: int) -> None:
        if queue in self._filing:
            self._file(queue, now_ms)

    def _sent(
        self, picks: list[Pick], now_ms: int, admission: Admission, turn: KeyTurn | DeadlineTurn
    ) -> Iterator[Taken]:
        """What of the picks may be sent; the turn is told."""
        sent: Counter[str] = Counter()
        for partition, rows in _by_partition(turn.arranged(picks)):
            machine, expires = self._machines[partition], not self._guard.is_active(now_ms)
            batch = machine.take_filed(rows, now_ms, expires=expires, gates=(admission,))
            if admission.news:
                self._heard(machine, admission)
            if batch is not None:
                sent.update(batch.rows.template_of(row).limit_key for row in range(len(batch)))
                yield batch
        turn.taken(sent)


def _by_partition(picks: list[Pick]) -> Iterator[tuple[Partition, RowGroup]]:
    """In that order."""
    for partition, own in groupby(picks, key=lambda pick: pick[0].home.partition):
        parts = [
            chunk.rows.select(np.array([row for _, row in some], np.intp))
            for chunk, some in groupby(own, key=lambda pick: pick[0])
        ]
        yield partition, concat(parts)
