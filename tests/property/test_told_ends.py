"""Tasks that make another one when they end, in drawn histories with crashes: each end makes one, and no more.

What the ends have made are tasks as others (tests/property/world.py): none is lost, early, or delivered after its ack.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.property.rereading import RereadingStore
from tests.property.service_model import HandedOn, ServiceModel, delays
from tests.property.world import QUEUES, TEMPLATES, OneCommitStore, Task, World
from timerd.core.protocol.told_ends import prefix_of
from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey, TaskId, delivery_id_of, digest_of
from timerd.model.partition import Partition
from timerd.model.task import Template

ENDS = QueueKey("default", "ends")
TELLS = len(TEMPLATES) - 1
MOST_LIVES = 64
NOWHERE = TaskId(0, 0, 0, 0, bytes(12), 0, bytes(8))


def made_by(digest: bytes, generation: int) -> bytes:
    """The digest of the task that the end of this life makes."""
    return digest_of(prefix_of(delivery_id_of(digest, generation << 16)), 0)


class ToldWorld(World):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.tells: set[bytes] = set()
        self.scopes.add(Template(*ENDS).scope)
        self.tasks = _Tasks(self)

    def insert(self, delays_ms: Sequence[int], template: int) -> None:
        known = set(self.tasks)
        super().insert(delays_ms, template)
        if template == TELLS:
            self.tells |= self.tasks.keys() - known

    def take(self, queue: QueueKey, limit: int) -> None:
        super().take(queue, limit)
        if queue == QUEUES[0]:
            super().take(ENDS, limit)

    def _delivered(self, task: Task, key: RowKey, partition: Partition, fire_at_ms: int) -> None:
        if task.id == NOWHERE:
            prefix, item = key.digest[:12], int.from_bytes(key.digest[12:], "big")
            scope = Template(*ENDS).scope
            task.id = TaskId(fire_at_ms, partition.shard, scope, 0, prefix, item, b"-" * 8)
            task.fire_at_ms = {fire_at_ms}
        super()._delivered(task, key, partition, fire_at_ms)

    def lives_of(self, digest: bytes) -> list[Task]:
        """What the ends of a task have made."""
        found = (made_by(digest, generation) for generation in range(MOST_LIVES))
        return [self.tasks[each] for each in found if each in self.tasks]

    def drain(self) -> None:
        super().drain()
        for digest in self.tells:
            made = len(self.lives_of(digest))
            assert made == 1 or (made == 0 and not self.tasks[digest].stored), (made, self.tasks[digest])


class _Tasks(dict[bytes, Task]):
    """A task that no caller has stored was made by an end."""

    def __init__(self, world: ToldWorld) -> None:
        super().__init__()
        self._world = world

    def __missing__(self, digest: bytes) -> Task:
        made = {made_by(each, generation) for each in self._world.tells for generation in range(MOST_LIVES)}
        assert digest in made, "no task has made it"
        task = self[digest] = Task(NOWHERE, set(), stored=True)
        return task


class ToldEnds(ServiceModel):
    @initialize(budget_bytes=st.sampled_from([1 << 30, 300]), lag_ms=st.sampled_from([600_000, 8_000]))
    def begin(self, budget_bytes: int, lag_ms: int) -> None:
        self.world = ToldWorld(budget_bytes, lag_ms, store=self.store())
        self.begun()

    def stored(self) -> list[Task]:
        """Those that a caller has."""
        return [task for task in super().stored() if task.id != NOWHERE]

    @rule(delays_ms=st.lists(delays, min_size=1, max_size=8))
    def insert_telling(self, delays_ms: list[int]) -> None:
        self.world.insert(delays_ms, TELLS)

    @rule(steps=st.integers(0, 12))
    def crash_at_an_end(self, steps: int) -> None:
        """Between the record of an end and the task that it makes, or before or behind that."""
        self.world.settle_down()
        self.world.insert([0, -2_000], TELLS)
        self.world.settle_down()
        self.world.take(QUEUES[0], 50)
        for task in self.world.in_hand():
            self.world.ack(task)
        self.world.run([0] * steps)
        self.world.crash()
        self.world.tick()


class ToldHandedOn(HandedOn, ToldEnds):
    """Holders come and go all the time."""


class ToldWithoutCursors(ToldEnds):
    """On a store that brings its rows again at each scan."""

    def store(self) -> OneCommitStore:
        return RereadingStore()


TestToldEnds = ToldEnds.TestCase
TestToldEnds.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestToldHandedOn = ToldHandedOn.TestCase
TestToldHandedOn.settings = settings(max_examples=10, stateful_step_count=40, deadline=None)
TestToldWithoutCursors = ToldWithoutCursors.TestCase
TestToldWithoutCursors.settings = settings(max_examples=10, stateful_step_count=40, deadline=None)
