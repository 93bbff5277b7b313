"""Who may be sent something: credit per worker and queue, queues in rotation, workers of a queue in rotation.

Only queues that have a worker with credit are listed, so a queue that nobody works costs nothing here. A worker that
reads slowly is blocked: its credit is withheld until it has caught up, and nobody else waits for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from timerd.core.taken import QueueKey

# More credit than any worker can use; the sum stays a small number.
MAX_CREDIT = 1_000_000


@dataclass(slots=True)
class Lane:
    """One queue; the one of the least `turn` is next. `credits`: worker -> what it may still be sent (> 0), next in
    turn first."""

    turn: int
    credits: OrderedDict[int, int] = field(default_factory=OrderedDict)
    total: int = 0


class FairShare:
    def __init__(self) -> None:
        self._lanes: OrderedDict[QueueKey, Lane] = OrderedDict()
        # Blocked worker -> the credit that it has not lost.
        self._withheld: dict[int, dict[QueueKey, int]] = {}
        self._queues: dict[int, set[QueueKey]] = {}
        self._turns = count()
        self._credited: set[QueueKey] = set()

    def add(self, worker: int, queue: QueueKey, tasks: int) -> None:
        """More credit."""
        self._queues.setdefault(worker, set()).add(queue)
        withheld = self._withheld.get(worker)
        if withheld is not None:
            withheld[queue] = min(MAX_CREDIT, withheld.get(queue, 0) + tasks)
        else:
            self._put(worker, queue, tasks)

    def block(self, worker: int) -> None:
        """Nothing more until `unblock`."""
        if worker not in self._withheld:
            self._withheld[worker] = self._withdraw(worker)

    def unblock(self, worker: int) -> None:
        for queue, tasks in self._withheld.pop(worker, {}).items():
            self._put(worker, queue, tasks)

    def drop(self, worker: int) -> None:
        """The worker is gone, its credit with it."""
        self._withdraw(worker)
        self._withheld.pop(worker, None)
        self._queues.pop(worker, None)

    def withdraw(self, worker: int, queue: QueueKey) -> int:
        """Takes back what the worker may still be sent of the queue; how much that was."""
        withheld = self._withheld.get(worker)
        return withheld.pop(queue, 0) if withheld is not None else self._take_out(worker, queue)

    def leave(self, worker: int, queue: QueueKey) -> None:
        """The worker serves the queue no more: one that stands for another instance serves ever new ones for months."""
        self.withdraw(worker, queue)
        self._queues.get(worker, set()).discard(queue)

    def free(self, queue: QueueKey) -> list[tuple[int, int]]:
        """(worker, what it may be sent now), next in turn first; without those that are blocked."""
        lane = self._lanes.get(queue)
        return list(lane.credits.items()) if lane else []

    def spend(self, worker: int, queue: QueueKey, tasks: int) -> None:
        """Uses some of what is `free` up."""
        self._spend(queue, self._lanes[queue], worker, tasks)

    def turn(self) -> list[QueueKey]:
        """The queues that have credit, next in turn first."""
        return list(self._lanes)

    def in_turn(self, queues: Iterable[QueueKey]) -> list[QueueKey]:
        """Some of them; those without credit first."""
        lanes = self._lanes
        return sorted(queues, key=lambda queue: lanes[queue].turn if queue in lanes else -1)

    def credited(self) -> set[QueueKey]:
        """Those that had no credit and got some since this was last asked."""
        credited, self._credited = self._credited, set()
        return credited

    def wanted(self, queue: QueueKey) -> int:
        """How many tasks the queue's workers may be sent in all."""
        lane = self._lanes.get(queue)
        return lane.total if lane else 0

    def split(self, queue: QueueKey, tasks: int) -> list[tuple[int, int]]:
        """Shares `tasks` (<= wanted) out evenly: (worker, how many). Queue and workers go to the end of their turns."""
        shares: dict[int, int] = {}
        while tasks > 0:
            lane = self._lanes[queue]
            fair = -(-tasks // len(lane.credits))
            worker, credit = next(iter(lane.credits.items()))
            given = min(fair, credit, tasks)
            shares[worker] = shares.get(worker, 0) + given
            self._spend(queue, lane, worker, given)
            tasks -= given
        if queue in self._lanes:
            self._lanes.move_to_end(queue)
            self._lanes[queue].turn = next(self._turns)
        return list(shares.items())

    def credit(self, worker: int, queue: QueueKey) -> int:
        if worker in self._withheld:
            return self._withheld[worker].get(queue, 0)
        lane = self._lanes.get(queue)
        return lane.credits.get(worker, 0) if lane else 0

    def check(self) -> None:
        """Invariants, for tests."""
        assert self.in_turn(self._lanes) == self.turn()
        for lane in self._lanes.values():
            assert lane.total == sum(lane.credits.values()) > 0
            assert all(0 < c <= MAX_CREDIT for c in lane.credits.values())
            assert not self._withheld.keys() & lane.credits.keys()
            assert lane.credits.keys() <= self._queues.keys()

    def _put(self, worker: int, queue: QueueKey, tasks: int) -> None:
        if tasks <= 0:
            return
        lane = self._lanes.get(queue)
        if lane is None:
            lane = self._lanes[queue] = Lane(next(self._turns))
            self._credited.add(queue)
        had = lane.credits.get(worker, 0)
        lane.credits[worker] = min(MAX_CREDIT, had + tasks)
        lane.total += lane.credits[worker] - had

    def _spend(self, queue: QueueKey, lane: Lane, worker: int, tasks: int) -> None:
        lane.total -= tasks
        lane.credits[worker] -= tasks
        if lane.credits[worker]:
            lane.credits.move_to_end(worker)
        else:
            del lane.credits[worker]
        self._forget_empty(queue, lane)

    def _withdraw(self, worker: int) -> dict[QueueKey, int]:
        return {q: taken for q in self._of(worker) if (taken := self._take_out(worker, q))}

    def _take_out(self, worker: int, queue: QueueKey) -> int:
        lane = self._lanes.get(queue)
        tasks = lane.credits.pop(worker, 0) if lane else 0
        if lane and tasks:
            lane.total -= tasks
            self._forget_empty(queue, lane)
        return tasks

    def _of(self, worker: int) -> Iterable[QueueKey]:
        return self._queues.get(worker, ())

    def _forget_empty(self, queue: QueueKey, lane: Lane) -> None:
        if not lane.total:
            del self._lanes[queue]
