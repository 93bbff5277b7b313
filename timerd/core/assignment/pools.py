"""The pools of workers: slots that several queues share, which of them are free, and which one a task takes.

A queue is a type of tasks. Pools that run the same types are a class, and a task takes a slot of the class that runs
the fewest types, so that a versatile worker stays free for what only it can run. A change of a slot touches its own
types and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from timerd.core.taken import QueueKey


@dataclass(slots=True, eq=False)
class PoolClass:
    """All pools that run the same types. `idle`: those with a free slot, the one that got nothing for longest first."""

    queues: frozenset[QueueKey]
    pools: int = 0
    idle: dict[Pool, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Pool:
    """`free`: how many of its slots nothing runs in, by what its worker says."""

    worker: int
    name: str
    slots: int
    of: PoolClass
    free: int = 0

    @property
    def namespace(self) -> str:
        return next(iter(self.of.queues)).namespace


@dataclass(slots=True, eq=False)
class PooledType:
    """`declared`: slots that can run it, free or not. `turn`: when it got the last one. `ready`: number of types ->
    classes of so many types that have a free slot, the one that got nothing for longest first."""

    declared: int = 0
    free: int = 0
    turn: int = 0
    ready: dict[int, dict[PoolClass, None]] = field(default_factory=dict)

    @property
    def best(self) -> PoolClass:
        """Of the fewest types. One has a free slot."""
        return next(iter(self.ready[min(self.ready)]))


class Pools:
    """`worker` is the number of one stream: what is said of one that is over counts for nothing."""

    def __init__(self) -> None:
        self._workers: dict[int, dict[str, Pool]] = {}
        self._classes: dict[frozenset[QueueKey], PoolClass] = {}
        self._types: dict[QueueKey, PooledType] = {}
        # Of a worker that reads slowly nothing is free until it has caught up.
        self._blocked: set[int] = set()
        self._freed: set[QueueKey] = set()
        self._turns = count(1)

    def __bool__(self) -> bool:
        return bool(self._types)

    def __iter__(self) -> Iterator[Pool]:
        return (pool for pools in self._workers.values() for pool in pools.values())

    def of(self, worker: int) -> list[Pool]:
        """Those of one worker."""
        return list(self._workers.get(worker, {}).values())

    def join(self, worker: int, name: str, queues: Iterable[QueueKey], slots: int) -> None:
        """A pool of the worker, in which nothing is free yet. No queue of it is in another pool of this worker."""
        of = self._classes.setdefault(frozenset(queues), PoolClass(frozenset(queues)))
        of.pools += 1
        self._workers.setdefault(worker, {})[name] = Pool(worker, name, slots, of)
        for queue in of.queues:
            self._types.setdefault(queue, PooledType()).declared += slots

    def add(self, worker: int, name: str, slots: int) -> None:
        """So many more are free; more than it has are taken as all."""
        pool = self._workers.get(worker, {}).get(name)
        if pool is not None:
            self._set(pool, min(pool.slots, pool.free + slots))

    def give_back(self, worker: int, queue: QueueKey, slots: int) -> bool:
        """They were taken for the queue and are free again, for nothing was sent. Whether they are of a pool."""
        pool = self.pool_of(worker, queue)
        if pool is not None:
            self.add(worker, pool.name, slots)
        return pool is not None

    def pool_of(self, worker: int, queue: QueueKey) -> Pool | None:
        """The one of this worker that runs the queue."""
        return next((pool for pool in self.of(worker) if queue in pool.of.queues), None)

    def void(self, worker: int) -> None:
        """None of its slots is free before it says so again."""
        for pool in self.of(worker):
            self._set(pool, 0)

    def leave(self, worker: int) -> None:
        """The worker is gone, its slots with it."""
        self.void(worker)
        self._blocked.discard(worker)
        for pool in self._workers.pop(worker, {}).values():
            for queue in pool.of.queues:
                self._types[queue].declared -= pool.slots
                if not self._types[queue].declared:
                    del self._types[queue]
                    self._freed.discard(queue)
            pool.of.pools -= 1
            if not pool.of.pools:
                del self._classes[pool.of.queues]

    def block(self, worker: int) -> None:
        """Nothing more until `unblock`."""
        for pool in self.of(worker):
            self._unlist(pool)
            self._blocked.add(worker)

    def unblock(self, worker: int) -> None:
        if worker in self._blocked:
            self._blocked.remove(worker)
            for pool in self.of(worker):
                self._list(pool)

    def declared(self, queue: QueueKey) -> int:
        """How many slots can run it, the busy ones counted."""
        found = self._types.get(queue)
        return found.declared if found is not None else 0

    def free(self, queue: QueueKey) -> int:
        """How many slots could take a task of it now."""
        found = self._types.get(queue)
        return found.free if found is not None else 0

    def turn(self, queue: QueueKey) -> int:
        """When it got its last slot, as a number that grows."""
        return self._types[queue].turn

    def free_queues(self) -> list[QueueKey]:
        """Those that could take a task now."""
        return [queue for queue, found in self._types.items() if found.free]

    def freed(self) -> set[QueueKey]:
        """Those that had no free slot and got one since this was last asked."""
        freed, self._freed = self._freed, set()
        return freed

    def take(self, queue: QueueKey, tasks: int) -> list[tuple[int, int]]:
        """Slots for so many tasks (<= free): (worker, how many)."""
        found = self._types[queue]
        taken: dict[int, int] = {}
        for _ in range(tasks):
            of = found.best
            pool = next(iter(of.idle))
            self._take_one(pool)
            taken[pool.worker] = taken.get(pool.worker, 0) + 1
        found.turn = next(self._turns)
        return list(taken.items())

    def check(self) -> None:
        """Invariants, for tests."""
        for queue, found in self._types.items():
            pools = [pool for pool in self if queue in pool.of.queues]
            listed = [pool for pool in pools if pool.worker not in self._blocked]
            assert found.declared == sum(pool.slots for pool in pools) > 0
            assert found.free == sum(pool.free for pool in listed)
            ready = {of for of in self._classes.values() if of.idle and queue in of.queues}
            assert {of for each in found.ready.values() for of in each} == ready
            assert all(found.ready.values())
        for pool in self:
            assert 0 <= pool.free <= pool.slots
            assert (pool in pool.of.idle) == (pool.free > 0 and pool.worker not in self._blocked)

    def _set(self, pool: Pool, free: int) -> None:
        """One that has a free slot already keeps its turn."""
        if pool.worker in self._blocked:
            pool.free = free
        elif pool.free and free:
            for queue in pool.of.queues:
                self._types[queue].free += free - pool.free
            pool.free = free
        else:
            self._unlist(pool)
            pool.free = free
            self._list(pool)

    def _take_one(self, pool: Pool) -> None:
        """The pool and its class go to the end of their turns."""
        of = pool.of
        pool.free -= 1
        del of.idle[pool]
        if pool.free:
            of.idle[pool] = None
        for queue in of.queues:
            found = self._types[queue]
            found.free -= 1
            self._unready(found, of)
            if of.idle:
                found.ready.setdefault(len(of.queues), {})[of] = None

    def _list(self, pool: Pool) -> None:
        if not pool.free:
            return
        of = pool.of
        of.idle[pool] = None
        for queue in of.queues:
            found = self._types[queue]
            if not found.free:
                self._freed.add(queue)
            found.free += pool.free
            found.ready.setdefault(len(of.queues), {})[of] = None

    def _unlist(self, pool: Pool) -> None:
        of = pool.of
        if of.idle.pop(pool, pool) is pool:
            return
        for queue in of.queues:
            found = self._types[queue]
            found.free -= pool.free
            if not of.idle:
                self._unready(found, of)

    @staticmethod
    def _unready(found: PooledType, of: PoolClass) -> None:
        same = found.ready[len(of.queues)]
        del same[of]
        if not same:
            del found.ready[len(of.queues)]
