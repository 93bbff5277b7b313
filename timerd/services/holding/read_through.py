"""How far rows of ordering keys are known to be in memory: all partitions before have been read (rule O1).

A partition that is held says so by itself. Of those that are not held the catalogue tells, which is read each second:
missed buckets are loaded one after the other, and the backlog of a queue when it has its first worker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from timerd.core.instance_machine import RECENT_MS, shards_of
from timerd.core.ordering import KeptShards
from timerd.core.taken import LAST, QueueKey
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of, scope_of
from timerd.model.storage import BucketEntry
from timerd.services.holding.held import Machines

# Nothing was read yet.
NOTHING_MS = -LAST


class ReadThrough:
    """`mine`: what is to be held here, and is not done yet; `is_done`: it is over. `kept`: of a cluster, the key shards
    that are sent from here."""

    def __init__(
        self,
        machines: Machines,
        mine: Callable[[Partition], bool],
        kept: KeptShards,
        is_done: Callable[[Partition], bool],
    ) -> None:
        self._machines = machines
        self._mine = mine
        self._kept = kept
        self._is_done = is_done
        # (scope, key shard) -> its partitions in buckets that are not finished, oldest first.
        self._of_shards: dict[tuple[int, int], list[Partition]] = {}
        # Scope -> start of the first bucket that is not held.
        self._unheld_ms: dict[int, int] = {}
        self._opened: set[int] = set()

    def opened(self, scope: int) -> None:
        """A queue has a worker again: its backlog has to be looked for."""
        self._unheld_ms.pop(scope, None)
        self._opened.add(scope)

    def begin_look(self, now_ms: int) -> None:
        """The catalogue is about to be read."""
        self._opened.clear()
        self._kept.begin_look(now_ms)

    def looked(
        self, catalogue: Sequence[BucketEntry], scopes: Mapping[int, Sequence[BucketEntry]], asked: Collection[int]
    ) -> None:
        """`asked`: the scopes that were looked for, some of which have nothing."""
        found = {TIME_SCOPE: catalogue} | {scope: scopes.get(scope, ()) for scope in asked}
        self._unheld_ms = {
            scope: self._first_unheld(each) for scope, each in found.items() if scope not in self._opened
        }
        self._of_shards.clear()
        for entry in (entry for each in found.values() for entry in each if not entry.finished and entry.key_shards):
            for shard in entry.key_shards:
                partition = Partition(entry.scope, entry.bucket_ms, shard)
                self._of_shards.setdefault((entry.scope, shard), []).append(partition)
        self._kept.looked()

    def known_ms(self, queue: QueueKey, partition: Partition) -> int:
        """Every row of the queue before that instant, in its partitions of this one's key shard, is in memory, or
        over. Where there is no cluster there are no key shards."""
        if partition.is_of_keys:
            return self._known_of_shard_ms(queue, partition.shard)
        scope = scope_of(*queue)
        unheld_ms = min(self._unheld_ms.get(TIME_SCOPE, NOTHING_MS), self._unheld_ms.get(scope, NOTHING_MS))
        by_scope = self._machines.by_scope
        held = (machine for each in (TIME_SCOPE, scope) for machine in by_scope.get(each, {}).values())
        return min([unheld_ms, *(machine.ordered_from_ms(scope) for machine in held)])

    def _known_of_shard_ms(self, queue: QueueKey, shard: int) -> int:
        """Also what is placed elsewhere by now has to be held here: until it is, its rows may be with workers."""
        scope = scope_of(*queue)
        known_ms = self._kept.known_ms(shard)
        if scope not in self._unheld_ms or not self._knows_hands(shard, known_ms):
            return NOTHING_MS
        for each in (TIME_SCOPE, scope):
            partitions = self._of_shards.get((each, shard), ())
            unheld = (p.bucket_ms for p in partitions if p not in self._machines and not self._is_done(p))
            held = (m for p, m in self._machines.by_scope.get(each, {}).items() if p.shard == shard)
            known_ms = min([known_ms, *unheld, *(machine.ordered_from_ms(scope) for machine in held)])
        return known_ms

    def _knows_hands(self, shard: int, now_ms: int) -> bool:
        """Whether all that was in hand elsewhere is known, also of buckets behind a row that came late: its key may be
        with a worker by another one. What comes later than by that many buckets has a later place."""
        recent = range(bucket_of(now_ms) - RECENT_MS, now_ms + 1)
        partitions = (p for p in self._of_shards.get((TIME_SCOPE, shard), ()) if p.bucket_ms in recent)
        return all((p in self._machines and self._machines[p].knows_hands) or self._is_done(p) for p in partitions)

    def _first_unheld(self, entries: Iterable[BucketEntry]) -> int:
        buckets = (entry for entry in entries if not entry.finished)
        unheld = (e.bucket_ms for e in buckets if any(map(self._is_unheld, shards_of(e))))
        return min(unheld, default=LAST)

    def _is_unheld(self, partition: Partition) -> bool:
        return partition not in self._machines and self._mine(partition)
