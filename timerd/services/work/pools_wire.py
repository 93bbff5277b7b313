"""The pools that a worker declares: checked, with a sentence that says what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from timerd.model.errors import Invalid
from timerd.services.calls.fields import plain_text, queue_of
from timerd.v1 import work_service_pb2 as pb

MAX_POOL_CHARS = 128
MAX_SLOTS = 1_000_000


class DeclaredPool(NamedTuple):
    name: str
    queues: tuple[str, ...]
    slots: int


class OwnPools:
    """Those of one worker, as far as what it says later depends on them."""

    def __init__(self, asked: pb.Open) -> None:
        self.declared = [_pool_of(pool) for pool in asked.pools]
        self._names = {pool.name for pool in self.declared}
        # Queue -> the pool it is in.
        self._queues: dict[str, str] = {}
        if len(self._names) < len(self.declared):
            raise Invalid("Two pools of the worker have the same name: give each its own.", "open.pools.name")
        for name, queue in self._each_queue():
            if (other := self._queues.setdefault(queue, name)) != name:
                raise Invalid(
                    f"The queue {queue!r} is in the pools {other!r} and {name!r}: name it in one of them.",
                    "open.pools.queues",
                )

    @property
    def queues(self) -> Collection[str]:
        """Of all of them."""
        return self._queues.keys()

    def credited(self, credit: pb.Credit, field: str) -> str:
        """The pool that the credit is for; empty: it is for its queue."""
        if not credit.pool:
            if credit.queue in self._queues:
                raise Invalid(
                    f"The queue {credit.queue!r} is in the pool {self._queues[credit.queue]!r}: give credit for the "
                    "pool instead.",
                    f"{field}.queue",
                )
            return ""
        if credit.queue:
            raise Invalid("A credit is for a queue or for a pool: leave one of them out.", f"{field}.pool")
        if credit.pool not in self._names:
            raise Invalid(
                f"The worker has not declared a pool {credit.pool!r}: name it in `open.pools`.", f"{field}.pool"
            )
        return credit.pool

    def _each_queue(self) -> Iterator[tuple[str, str]]:
        return ((pool.name, queue) for pool in self.declared for queue in pool.queues)


def _pool_of(pool: pb.Pool) -> DeclaredPool:
    plain_text(pool.name, MAX_POOL_CHARS, "pool", "open.pools.name")
    if not pool.name:
        raise Invalid("A pool has no name: give it one, by which its credit is told.", "open.pools.name")
    if not 1 <= pool.slots <= MAX_SLOTS:
        raise Invalid(f"The pool {pool.name!r} has {pool.slots} slots: give 1 to {MAX_SLOTS:,}.", "open.pools.slots")
    queues = tuple(queue_of(queue, "open.pools.queues") for queue in pool.queues)
    if not queues:
        raise Invalid(f"The pool {pool.name!r} has no queues: name those that share its slots.", "open.pools.queues")
    if len(set(queues)) < len(queues):
        raise Invalid(f"The pool {pool.name!r} names a queue twice: name each once.", "open.pools.queues")
    return DeclaredPool(pool.name, queues, pool.slots)
