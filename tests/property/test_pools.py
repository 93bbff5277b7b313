"""Pools in any order of events: what is free is what their workers have said and nobody has taken."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from timerd.core.assignment import Pools
from timerd.core.taken import QueueKey

QUEUES = [QueueKey("n", name) for name in "abcd"]
WORKERS = st.integers(1, 5)
SOME = st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3, unique=True)


class PoolsModel(RuleBasedStateMachine):
    """Each worker has one pool. `free` is told once more beside the pools."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = Pools()
        self.queues: dict[int, frozenset[QueueKey]] = {}
        self.slots: dict[int, int] = {}
        self.free: dict[int, int] = {}
        self.blocked: set[int] = set()
        self.asked: set[QueueKey] = set()

    def able(self, queue: QueueKey) -> list[int]:
        """Workers with a free slot for it."""
        able = [worker for worker, queues in self.queues.items() if queue in queues]
        return [worker for worker in able if self.free[worker] and worker not in self.blocked]

    @rule(worker=WORKERS, queues=SOME, slots=st.integers(1, 3))
    def join(self, worker: int, queues: list[QueueKey], slots: int) -> None:
        if worker not in self.queues:
            self.pools.join(worker, "p", queues, slots)
            self.queues[worker], self.slots[worker], self.free[worker] = frozenset(queues), slots, 0

    @rule(worker=WORKERS, slots=st.integers(0, 4))
    def say_free(self, worker: int, slots: int) -> None:
        """Also of a worker that is gone."""
        self.pools.add(worker, "p", slots)
        if worker in self.free:
            self.free[worker] = min(self.slots[worker], self.free[worker] + slots)

    @rule(queue=st.sampled_from(QUEUES), data=st.data())
    def take(self, queue: QueueKey, data: st.DataObject) -> None:
        if not (able := self.able(queue)):
            return
        tasks = data.draw(st.integers(1, sum(self.free[worker] for worker in able)))
        for worker, count in self.pools.take(queue, tasks):
            assert worker in able
            self.free[worker] -= count
            tasks -= count
        assert tasks == 0

    @rule(worker=WORKERS)
    def leave(self, worker: int) -> None:
        self.pools.leave(worker)
        self.blocked.discard(worker)
        for kept in (self.queues, self.slots, self.free):
            kept.pop(worker, None)

    @rule(worker=WORKERS)
    def void(self, worker: int) -> None:
        self.pools.void(worker)
        if worker in self.free:
            self.free[worker] = 0

    @precondition(lambda self: self.queues)
    @rule(worker=WORKERS)
    def block(self, worker: int) -> None:
        self.pools.block(worker)
        self.blocked |= {worker} & self.queues.keys()

    @rule(worker=WORKERS)
    def unblock(self, worker: int) -> None:
        self.pools.unblock(worker)
        self.blocked.discard(worker)

    @invariant()
    def what_is_free_is_what_was_said_and_not_taken(self) -> None:
        self.pools.check()
        for queue in QUEUES:
            assert self.pools.free(queue) == sum(self.free[worker] for worker in self.able(queue))
            runs = [worker for worker, queues in self.queues.items() if queue in queues]
            assert self.pools.declared(queue) == sum(self.slots[worker] for worker in runs)
        assert set(self.pools.free_queues()) == {queue for queue in QUEUES if self.able(queue)}


TestPools = PoolsModel.TestCase
TestPools.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
