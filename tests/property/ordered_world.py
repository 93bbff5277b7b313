"""The world of one instance whose tasks have ordering keys, and a judge of their order.

At each start of a task nothing else of its key is in hand, and its fence is not below one that was seen before: over
crashes as well, so no task may begin before the end of the one before it is durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.property.world import TEMPLATES, Task, World, done
from timerd.core.gates import DueBatch, Fate, Fates, Hold
from timerd.core.ordering import KeptShards, KeyGate, OrderedRows, OrderKeys
from timerd.core.protocol.insertion import Inserted, insert
from timerd.core.protocol.move import Wish, move_task
from timerd.core.taken import QueueKey
from timerd.model.errors import Aborted, Precondition
from timerd.model.identity import RowKey, TaskId, digest_of
from timerd.model.ordering import OrderFence, fence_of, ordered_extra
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.rows import FLAG_ORDERED, PREFIX, ROW, RowGroup
from timerd.model.spread import Spread
from timerd.model.storage import Append
from timerd.services.holding.read_through import ReadThrough

ORDERING_KEYS = ("x", "y")


class LeaseGate:
    """What a worker has waits for the end of its lease (core/dispatch/redelivery_gate.py)."""

    def __init__(self, tasks: dict[bytes, Task]) -> None:
        self._tasks = tasks

    def judge(self, batch: DueBatch, now_ms: int) -> Fates:
        fates: dict[int, Fate] = {}
        for row in batch.left():
            until_ms = self._tasks[batch.key(row).digest].lease_until_ms
            if now_ms < until_ms < 1 << 61:
                fates[row] = Hold(until_ms)
        return fates


@dataclass
class OrderedWorld(World):
    key_of: dict[bytes, str] = field(default_factory=dict)
    fences: dict[tuple[str, str], OrderFence] = field(default_factory=dict)
    ordering_key: str = ORDERING_KEYS[0]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._begin()

    def _begin(self) -> None:
        """A process has started."""
        self.memory.order_keys = OrderKeys()
        self.read_through = ReadThrough(self.machines, lambda _: True, KeptShards(), lambda _: False)
        gate = KeyGate(self.memory.order_keys, self._home, self.read_through.known_ms, lambda: 0)
        self.gates = LeaseGate(self.tasks), gate

    def _home(self, partition: Partition) -> OrderedRows | None:
        return self.machines[partition].ordered

    def crash(self) -> None:
        """The next process begins later: what it draws is above all that this one has."""
        super().crash()
        self.now_ms += 1
        self._begin()

    def hint(self, partition: Partition, rows: RowGroup, source: int, may_repeat: bool = False) -> None:
        """Also of the backlog of a queue that has workers."""
        super().hint(partition, rows, source, may_repeat)
        if partition.scope in self.scopes:
            self.hold(partition)

    def reconcile(self) -> None:
        super().reconcile()
        catalogue = done(self.store.catalogue(TIME_SCOPE, -(1 << 62), self.now_ms + 60_001))
        scopes = {s: done(self.store.catalogue(s, -(1 << 62), 1 << 62)) for s in sorted(self.scopes)}
        self.read_through.looked(catalogue, scopes, list(self.scopes))

    def insert(self, delays_ms: Sequence[int], template: int) -> None:
        """All of a message have the same key, and so that of the calls after it."""
        self.messages += 1
        prefix = b"m%011d" % self.messages
        kind = TEMPLATES[template]
        rows = self._rows(delays_ms, prefix, template)
        positions = rows.columns["position_ms"].tolist()
        spread = Spread(TIME_SCOPE, 0, rows.select(np.argsort(positions, kind="stable")), {})
        groups = tuple((partition, part.compact()) for partition, part in spread.parts())
        for n, position_ms in enumerate(positions):
            task = TaskId(position_ms, 0, kind.scope, kind.priority, prefix, n, b"-" * 8)
            self.tasks[task.digest] = Task(task, {self.now_ms + delays_ms[n]})
            self.key_of[task.digest] = self.ordering_key
        keys, number = self.memory.order_keys, self.memory.order_keys.begin_write(self.now_ms)

        def stored(said: Inserted) -> None:
            self.inserting -= 1
            keys.end_write(number)
            for n, position_ms in enumerate(positions):
                digest = digest_of(prefix, n)
                placed_ms = said.moved.get((position_ms, digest), position_ms)
                task = self.tasks[digest]
                task.id, task.stored = task.id._replace(position_ms=placed_ms), True

        self.inserting += 1
        self.drive(insert(Append(groups, prefix, b"yes"), self.now_ms), stored)

    def _rows(self, delays_ms: Sequence[int], prefix: bytes, template: int) -> RowGroup:
        columns = np.zeros(len(delays_ms), ROW)
        columns["index"] = np.arange(len(delays_ms))
        columns["fire_at_ms"] = self.now_ms + np.array(delays_ms)
        columns["position_ms"] = np.maximum(columns["fire_at_ms"], self.now_ms)
        columns["extra"], columns["flags"] = 1, FLAG_ORDERED
        base = self.memory.order_keys.draw(len(delays_ms), self.now_ms)
        extra = ordered_extra(self.ordering_key)
        extras = [type(extra)(ordering_key=extra.ordering_key, order_base=base, kept=extra.kept)]
        return RowGroup(columns, np.frombuffer(prefix, PREFIX), [TEMPLATES[template]], b"", extras)

    def move(self, task: Task, delay_ms: int) -> None:
        seq = self.memory.order_keys.draw(1, self.now_ms + 1)
        request = f"{self.now_ms}-{self.messages}"
        wish = Wish(request, self.now_ms + delay_ms, self.now_ms, 86_400_000, order_seq=seq)
        self.messages += 1
        task.moving += 1
        task.fire_at_ms.add(wish.fire_at_ms)
        keys, number = self.memory.order_keys, self.memory.order_keys.begin_write(self.now_ms)

        def said(fire_at_ms: int) -> None:
            keys.end_write(number)
            task.moving -= 1
            if not task.moving:
                task.fire_at_ms = {fire_at_ms}

        def failed(error: Exception) -> None:
            assert isinstance(error, Aborted | Precondition), error
            keys.end_write(number)
            task.moving -= 1

        self.drive(move_task(task.id, wish), said, failed)

    def take(self, queue: QueueKey, limit: int) -> None:
        self.memory.order_keys.lapse(self.now_ms)
        for machine in list(self.machines.values()):
            taken = machine.take(queue, limit, self.now_ms, gates=self.gates)
            for n, key in enumerate(taken.rows.keys() if taken else []):
                assert taken is not None
                self._judge(key, queue, fence_of(taken.rows, n))
                task, fire_at_ms = self.tasks[key.digest], int(taken.rows.columns["fire_at_ms"][n])
                self._delivered(task, key, taken.partition, fire_at_ms)
            self.perform(machine, machine.flush())

    def _judge(self, key: RowKey, queue: QueueKey, fence: OrderFence) -> None:
        name = queue.queue, self.key_of[key.digest]
        mine = (digest for digest, each in self.key_of.items() if each == name[1] and digest != key.digest)
        beside = [d for d in mine if self.tasks[d].key is not None and self.tasks[d].id.scope == self._scope(key)]
        assert not beside, f"two of {name} at once"
        assert fence >= self.fences.get(name, fence), f"{name} goes back"
        self.fences[name] = fence

    def _scope(self, key: RowKey) -> int:
        return self.tasks[key.digest].id.scope

    def drain(self) -> None:
        super().drain()
        assert not self.memory.order_keys, "keys without tasks"
