"""The pools of workers: slots that several queues share, which of them are free, and which one a task takes.

A queue is a type of tasks. Pools that run the same types are a class, and a task takes a slot of the class that runs
the fewest types, so that a versatile worker stays free for what only it can run. A change of a slot touches its own
types and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from timerd.core.assignment.score import rarity_ms
from timerd.core.taken import QueueKey


@dataclass(slots=True, eq=False)
class PooledType:
    """One queue. `declared`: slots that can run it, free or not; `ahead_ms`: what its rarity is worth. `turn`: when it
    got its last slot. `ready`: number of types -> classes of so many types that have a free slot, the one that got
    nothing for longest first."""

    queue: QueueKey
    declared: int = 0
    ahead_ms: int = 0
    free: int = 0
    turn: int = 0
    ready: dict[int, dict[PoolClass, None]] = field(default_factory=dict)

    def declare(self, slots: int) -> None:
        """So many more, or less."""
        self.declared += slots
        self.ahead_ms = rarity_ms(self.declared) if self.declared else 0

    @property
    def best(self) -> PoolClass:
        """Of the fewest types. One has a free slot."""
        return next(iter(self.ready[min([size for size, classes in self.ready.items() if classes])]))


@dataclass(slots=True, eq=False)
class PoolClass:
    """All pools that run the same types. `idle`: those with a free slot, the one that got nothing for longest first.
    `lines`: where it stands among the `ready` of its types."""

    queues: frozenset[QueueKey]
    types: list[PooledType]
    lines: list[dict[PoolClass, None]]
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
        return self.of.types[0].queue.namespace


class Pools:
    """`worker` is the number of one stream: what is said of one that is over counts for nothing."""

    def __init__(self) -> None:
        self._workers: dict[int, dict[str, Pool]] = {}
        self._classes: dict[frozenset[QueueKey], PoolClass] = {}
        self._types: dict[QueueKey, PooledType] = {}
        # Of a worker that reads slowly nothing is free until it has caught up.
        self._blocked: set[int] = set()
        self._freed: set[PooledType] = set()
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
        of = self._class_of(frozenset(queues))
        of.pools += 1
        self._workers.setdefault(worker, {})[name] = Pool(worker, name, slots, of)
        for found in of.types:
            found.declare(slots)

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
            for found in pool.of.types:
                found.declare(-pool.slots)
                if not found.declared:
                    del self._types[found.queue]
                    self._freed.discard(found)
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

    def type_of(self, queue: QueueKey) -> PooledType | None:
        """None: no slot could ever run it."""
        return self._types.get(queue)

    def free_queues(self) -> list[QueueKey]:
        """Those that could take a task now."""
        return [queue for queue, found in self._types.items() if found.free]

    def freed(self) -> set[QueueKey]:
        """Those that had no free slot and got one since this was last asked."""
        freed = {found.queue for found in self._freed}
        self._freed.clear()
        return freed

    def take(self, queue: QueueKey, tasks: int) -> list[tuple[int, int]]:
        """Slots for so many tasks (<= free): (worker, how many)."""
        found = self._types[queue]
        taken: dict[int, int] = {}
        for _ in range(tasks):
            worker = self._take_one(found.best)
            taken[worker] = taken.get(worker, 0) + 1
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
            assert all(len(of.queues) == size for size, each in found.ready.items() for of in each)
            assert found.ahead_ms == rarity_ms(found.declared)
        for pool in self:
            assert 0 <= pool.free <= pool.slots
            assert (pool in pool.of.idle) == (pool.free > 0 and pool.worker not in self._blocked)

    def _class_of(self, queues: frozenset[QueueKey]) -> PoolClass:
        found = self._classes.get(queues)
        if found is None:
            types = [self._types.setdefault(queue, PooledType(queue)) for queue in queues]
            lines = [each.ready.setdefault(len(queues), {}) for each in types]
            found = self._classes[queues] = PoolClass(queues, types, lines)
        return found

    def _set(self, pool: Pool, free: int) -> None:
        """One that has a free slot already keeps its turn."""
        if pool.worker in self._blocked:
            pool.free = free
        elif pool.free and free:
            for found in pool.of.types:
                found.free += free - pool.free
            pool.free = free
        else:
            self._unlist(pool)
            pool.free = free
            self._list(pool)

    def _take_one(self, of: PoolClass) -> int:
        """The pool and its class go to the end of their turns. Whose worker it is."""
        pool = next(iter(of.idle))
        pool.free -= 1
        del of.idle[pool]
        if pool.free:
            of.idle[pool] = None
        for found in of.types:
            found.free -= 1
        for line in of.lines:
            del line[of]
            if of.idle:
                line[of] = None
        return pool.worker

    def _list(self, pool: Pool) -> None:
        free, of = pool.free, pool.of
        if not free:
            return
        if not of.idle:
            for line in of.lines:
                line[of] = None
        of.idle[pool] = None
        for found in of.types:
            if not found.free:
                self._freed.add(found)
            found.free += free

    def _unlist(self, pool: Pool) -> None:
        of = pool.of
        if of.idle.pop(pool, pool) is pool:
            return
        for found in of.types:
            found.free -= pool.free
        if not of.idle:
            for line in of.lines:
                del line[of]
