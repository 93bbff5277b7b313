"""The stateful model of a partition and its services."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.property.rereading import RereadingStore
from tests.property.world import QUEUES, OneCommitStore, Task, World

picks = st.integers(0, 1 << 16)
delays = st.one_of(
    st.sampled_from([-3_000, 0, 500, 2_000, 60_000, 289_990, 300_000]),
    st.integers(-3_000, 5_000),
)


class ServiceModel(RuleBasedStateMachine):
    @initialize(budget_bytes=st.sampled_from([1 << 30, 300]), lag_ms=st.sampled_from([600_000, 8_000]))
    def begin(self, budget_bytes: int, lag_ms: int) -> None:
        self.world = World(budget_bytes, lag_ms, store=self.store())
        self.begun()

    def begun(self) -> None:
        """For whoever looks at what goes on."""

    def store(self) -> OneCommitStore:
        return OneCommitStore()

    def stored(self) -> list[Task]:
        return [task for task in self.world.tasks.values() if task.stored]

    @rule(delays_ms=st.lists(delays, min_size=1, max_size=8), template=st.integers(0, 2))
    def insert(self, delays_ms: list[int], template: int) -> None:
        self.world.insert(delays_ms, template)

    @precondition(lambda self: bool(self.stored()))
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        tasks = self.stored()
        self.world.cancel(tasks[pick % len(tasks)])

    @precondition(lambda self: bool(self.stored()))
    @rule(chosen=st.lists(picks, min_size=1, max_size=6))
    def cancel_many(self, chosen: list[int]) -> None:
        tasks = self.stored()
        self.world.cancel_many([tasks[pick % len(tasks)] for pick in chosen])

    @precondition(lambda self: bool(self.stored()))
    @rule(chosen=st.lists(picks, min_size=1, max_size=4), delay_ms=delays)
    def move(self, chosen: list[int], delay_ms: int) -> None:
        tasks = self.stored()
        for pick in chosen:
            self.world.move(tasks[pick % len(tasks)], max(0, delay_ms))

    @rule(lost=st.booleans())
    def lose_hints(self, lost: bool) -> None:
        self.world.loses_hints = lost

    @rule(after_ms=st.sampled_from([0, 2_000, 300_000]), count=st.sampled_from([2, 3, 5]))
    def grow(self, after_ms: int, count: int) -> None:
        self.world.grow(after_ms, count)

    @rule(order=st.lists(picks, min_size=1, max_size=25))
    def run(self, order: list[int]) -> None:
        self.world.run(order)

    @rule(ms=st.sampled_from([1, 100, 1_000, 1_000, 3_000, 30_000, 300_000]))
    def advance(self, ms: int) -> None:
        self.world.advance(ms)
        self.world.expire()

    @rule(queue=st.sampled_from(QUEUES), limit=st.sampled_from([1, 3, 50]))
    def take(self, queue: tuple[str, str], limit: int) -> None:
        self.world.take(QUEUES[QUEUES.index(queue)], limit)

    @precondition(lambda self: bool(self.world.in_hand()))
    @rule(pick=picks)
    def ack(self, pick: int) -> None:
        tasks = self.world.in_hand()
        self.world.ack(tasks[pick % len(tasks)])

    @precondition(lambda self: bool(self.world.in_hand()))
    @rule(pick=picks, delay_ms=st.sampled_from([0, 100, 5_000]))
    def nack(self, pick: int, delay_ms: int) -> None:
        tasks = self.world.in_hand()
        self.world.nack(tasks[pick % len(tasks)], delay_ms)

    @rule(unknown=st.sampled_from([1, 2]))
    def next_cas_is_unknown(self, unknown: int) -> None:
        self.world.unknown = unknown

    @precondition(lambda self: bool(self.world.hot()))
    @rule(pick=picks)
    def hand_over(self, pick: int) -> None:
        hot = self.world.hot()
        self.world.hand_over(hot[pick % len(hot)])

    @rule()
    def crash(self) -> None:
        self.world.crash()
        self.world.tick()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.drain()


class HandedOn(ServiceModel):
    """Holders come and go all the time, and what they have in hand goes on."""

    @rule(order=st.lists(picks, min_size=1, max_size=12), limit=st.sampled_from([0, 1, 50]), acked=st.integers(0, 2))
    def hand_on(self, order: list[int], limit: int, acked: int) -> None:
        self.world.settle_down()
        for queue in QUEUES:
            self.world.take(queue, limit)
        for task in self.world.in_hand()[:acked]:
            self.world.ack(task)
        for machine in self.world.hot():
            self.world.hand_over(machine)
        self.world.insert([0, -2_000], 0)
        self.world.run(order)
        self.world.tick()
        self.world.run(order)


class WithoutCursors(ServiceModel):
    """On a store that brings its rows again at each scan."""

    def store(self) -> RereadingStore:
        return RereadingStore()
