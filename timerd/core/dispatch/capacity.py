"""What the workers may still be sent: credit for one queue, and free slots of pools, which several queues share.

A worker gives one or the other for a queue. What was lent of it to another instance comes back to where it was from.
"""

from __future__ import annotations

from collections.abc import Iterable

from timerd.core.assignment import Pools
from timerd.core.dispatch.fair_share import FairShare
from timerd.core.taken import QueueKey


class Capacity:
    """`share`: the credit. Where there are no pools they are not asked."""

    def __init__(self) -> None:
        self.share = FairShare()
        self.pools = Pools()

    def wanted(self, queue: QueueKey) -> int:
        """How many tasks of the queue the workers may be sent in all."""
        wanted = self.share.wanted(queue)
        return wanted + self.pools.free(queue) if self.pools else wanted

    def turn(self) -> list[QueueKey]:
        """The queues that have any, those with credit first, next in turn first."""
        turn = self.share.turn()
        if not self.pools:
            return turn
        return [*turn, *set(self.pools.free_queues()).difference(turn)]

    def in_turn(self, queues: Iterable[QueueKey]) -> list[QueueKey]:
        """Some of them; those without credit first."""
        return self.share.in_turn(queues)

    def arrived(self) -> set[QueueKey]:
        """The queues that had nothing and got some since this was last asked."""
        return self.share.credited() | self.pools.freed() if self.pools else self.share.credited()

    def give_back(self, worker: int, queue: QueueKey, tasks: int) -> None:
        """It was lent, and was not used."""
        if not self.pools.give_back(worker, queue, tasks):
            self.share.add(worker, queue, tasks)

    def block(self, worker: int) -> None:
        """Nothing more until `unblock`."""
        self.share.block(worker)
        self.pools.block(worker)

    def unblock(self, worker: int) -> None:
        self.share.unblock(worker)
        self.pools.unblock(worker)

    def void(self, worker: int) -> None:
        """Nothing until the worker says so again."""
        self.share.drop(worker)
        self.pools.void(worker)

    def drop(self, worker: int) -> None:
        """The worker is gone."""
        self.share.drop(worker)
        self.pools.leave(worker)

    def check(self) -> None:
        """Invariants, for tests."""
        self.share.check()
        self.pools.check()
