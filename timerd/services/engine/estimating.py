"""How many tasks are due in each minute, roughly: counted as they are scheduled, written every 10 s.

For Count without a range and for the forecast. What is cancelled or purged is taken off again in the minute in
which it was counted, where its queue is known (it has been scheduled to since the start). What is moved stays in its
first minute, what is overdue is in none that is counted, and a crash loses the last seconds: it is an estimate and is
called so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from timerd.core.dispatch import MOST_QUEUES, OTHERS
from timerd.core.taken import QueueKey
from timerd.model.identity import TaskId
from timerd.model.rows import RowGroup
from timerd.model.task import Template
from timerd.model.task_ids import TaskIds
from timerd.ports import EstimatedTotal, Store
from timerd.services.engine.minute_counts import MinuteCounts

MINUTE_MS = 60_000
FOR_EVER_MS = 1 << 62
MAX_QUEUES = 100_000
# Of so many rows at once, which with FEW_ROWS in a message are those of 64 messages: a millisecond or two of the loop.
COUNTED_AT_ONCE = 4_096
FEW_ROWS = 64


class Estimating:
    """`add` is cheap; `flush` writes what came since."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # Since the start, by queue.
        self.scheduled: Counter[QueueKey] = Counter()
        # Minutes of each queue; and of large messages what is still to be counted, many of them at a time: row by row
        # it costs a tenth of all that a server does for them.
        self._new: defaultdict[tuple[str, str], MinuteCounts] = defaultdict(MinuteCounts)
        self._waiting: list[tuple[tuple[str, str], npt.NDArray[np.int64]]] = []
        self._waiting_rows = 0
        # What a task id says of its queue -> the queue.
        self._queues: dict[int, tuple[str, str]] = {}

    def add(self, rows: RowGroup) -> None:
        minutes = rows.columns["position_ms"] // MINUTE_MS
        for number, template in enumerate(rows.templates):
            queue = QueueKey(template.namespace, template.queue)
            if queue.is_internal:
                continue
            own = minutes[rows.columns["template"] == number] if len(rows.templates) > 1 else minutes
            self._put(queue, own)
            self._count(queue, len(own))
            self._remember(template)

    def _put(self, queue: tuple[str, str], minutes: npt.NDArray[np.int64]) -> None:
        if len(minutes) < FEW_ROWS:
            self._new[queue].add_few(minutes.tolist())
            return
        self._waiting.append((queue, minutes))
        self._waiting_rows += len(minutes)
        if self._waiting_rows >= COUNTED_AT_ONCE:
            self._counted()

    def _counted(self) -> defaultdict[tuple[str, str], MinuteCounts]:
        by_queue: defaultdict[tuple[str, str], list[npt.NDArray[np.int64]]] = defaultdict(list)
        for queue, minutes in self._waiting:
            by_queue[queue].append(minutes)
        for queue, parts in by_queue.items():
            self._new[queue].add_many(np.concatenate(parts))
        self._waiting, self._waiting_rows = [], 0
        return self._new

    def remove(self, tasks: Sequence[TaskId]) -> None:
        """They were cancelled or purged."""
        if isinstance(tasks, TaskIds):
            self._remove_many(tasks)
            return
        for (scope, minute), ended in Counter([(task.scope, task.position_ms // MINUTE_MS) for task in tasks]).items():
            queue = self._queues.get(scope)
            if queue is not None:
                self._new[queue].take_off(minute, ended)

    def _remove_many(self, tasks: TaskIds) -> None:
        scopes, minutes = tasks.columns["scope"], tasks.positions_ms // MINUTE_MS
        for scope in set(scopes.tolist()):
            queue = self._queues.get(scope)
            if queue is not None:
                self._new[queue].take_off_many(minutes[scopes == scope])

    async def total(self, namespace: str, queue: str, now_ms: int) -> EstimatedTotal:
        """From this minute on. Empty queue = all."""
        start_ms = now_ms // MINUTE_MS * MINUTE_MS
        tasks, minutes = await self._store.estimated(namespace, queue, start_ms, FOR_EVER_MS)
        tasks += sum(sum(each.values()) for each in self._unwritten(namespace, queue, start_ms, FOR_EVER_MS))
        return EstimatedTotal(max(0, tasks), minutes)

    async def by_minute(self, namespace: str, queue: str, start_ms: int, end_ms: int) -> dict[int, int]:
        """minute_ms -> tasks, what is not written yet included; a number may be below 0. Empty queue = all."""
        counts = Counter(await self._store.estimates(namespace, queue, start_ms, end_ms))
        for new in self._unwritten(namespace, queue, start_ms, end_ms):
            counts.update(new)
        return counts

    def _unwritten(self, namespace: str, queue: str, start_ms: int, end_ms: int) -> Iterator[dict[int, int]]:
        """What came since the last flush, of each of the queues."""
        for (space, name), new in self._counted().items():
            if space == namespace and queue in ("", name):
                fresh = {minute * MINUTE_MS: tasks for minute, tasks in new.counts().items()}
                yield {at_ms: tasks for at_ms, tasks in fresh.items() if start_ms <= at_ms < end_ms}

    def _remember(self, template: Template) -> None:
        if len(self._queues) >= MAX_QUEUES:
            self._queues.clear()
        self._queues[template.scope] = template.namespace, template.queue

    def _count(self, queue: QueueKey, tasks: int) -> None:
        # The last place is for all others.
        known = queue in self.scheduled or len(self.scheduled) < MOST_QUEUES - 1
        self.scheduled[queue if known else OTHERS] += tasks

    async def flush(self) -> None:
        taken, self._new = self._counted(), defaultdict(MinuteCounts)
        counts = {(*q, minute * MINUTE_MS): n for q, new in taken.items() for minute, n in new.counts().items()}
        if counts:
            await self._store.save_estimates(counts)
