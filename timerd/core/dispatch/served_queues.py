"""Which queues have workers, and how many: those of which a worker has said that it takes them."""

from __future__ import annotations

from collections.abc import Iterable

from timerd.core.taken import QueueKey


class ServedQueues:
    def __init__(self) -> None:
        self._workers: dict[QueueKey, int] = {}

    def __len__(self) -> int:
        return len(self._workers)

    def serve(self, queue: QueueKey) -> bool:
        """One worker more; whether it is the first."""
        self._workers[queue] = self._workers.get(queue, 0) + 1
        return self._workers[queue] == 1

    def leave(self, queue: QueueKey) -> bool:
        """One worker less; whether it was the last."""
        self._workers[queue] -= 1
        if self._workers[queue]:
            return False
        del self._workers[queue]
        return True

    def check(self, each: Iterable[Iterable[QueueKey]]) -> None:
        """Invariants, for tests. `each`: the queues of each worker."""
        present: dict[QueueKey, int] = {}
        for queues in each:
            for queue in queues:
                present[queue] = present.get(queue, 0) + 1
        assert present == self._workers
