"""Cancelling many together answers what cancelling each by itself does, and leaves the same marks and ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.property.world import QUEUES, Result, Task, World, done
from timerd.core.partition.holding import Asked
from timerd.core.protocol.cancel import Cancelled, end_task
from timerd.core.protocol.cancel_many import end_many
from timerd.core.protocol.procedures import Procedure
from timerd.model.identity import RowKey, TaskId
from timerd.model.partition import Partition
from timerd.model.settle import Outcome

Thing = TypeVar("Thing")
Deed = Callable[[World], object]
State = tuple[object, ...]
picks = st.integers(0, 1 << 16)
delays_ms = st.lists(st.sampled_from([-3_000, 0, 500, 2_000, 40_000, 70_000, 289_990, 300_000]), min_size=1, max_size=8)


def stored(world: World) -> list[Task]:
    return [task for task in world.tasks.values() if task.stored]


def each_of(chosen: Sequence[int], tasks: Sequence[Task]) -> list[Task]:
    return [tasks[pick % len(tasks)] for pick in chosen] if tasks else []


def for_each(deed: Callable[[Thing], None], things: Sequence[Thing]) -> None:
    for thing in things:
        deed(thing)


def run(world: World, procedure: Procedure[Result]) -> Result:
    """To its end. What has left its place has done so durably, or it would be waited for."""
    if any(machine.leaving for machine in world.machines.values()):
        world.settle_down()
    request = next(procedure)
    try:
        while True:
            request = procedure.send(done(world.runner.perform(request)))
    except StopIteration as over:
        return over.value  # type: ignore[no-any-return]


def delivered(world: World, ms: int) -> None:
    """What is due then is with workers."""
    world.advance(ms)
    world.settle_down()
    for queue in QUEUES:
        world.take(queue, 4)


@st.composite
def deeds(draw: st.DrawFn) -> Deed:
    ms, pick, order = draw(st.sampled_from([1, 1_000, 5_000, 60_000])), draw(picks), draw(st.lists(picks, max_size=20))
    chosen, one = draw(delays_ms), [pick]
    choices: tuple[Deed, ...] = (
        lambda world: world.insert(chosen, pick % 3),
        lambda world: world.settle_down(),
        lambda world: world.run(order),
        lambda world: world.advance(ms),
        lambda world: delivered(world, ms),
        lambda world: delivered(world, 1),
        lambda world: for_each(world.ack, each_of(one, world.in_hand())),
        lambda world: for_each(lambda task: world.nack(task, 5_000), each_of(one, world.in_hand())),
        lambda world: for_each(lambda task: moved(world, task, ms), each_of(one, stored(world))),
        lambda world: [run(world, other_end(task.id, pick)) for task in each_of(one, stored(world))],
        lambda world: [run(world, other_end(task.id, pick)) for task in stored(world)],
        lambda world: world.crash(),
        lambda world: for_each(world.hand_over, world.hot()[:1]),
    )
    return draw(st.sampled_from(choices))


def moved(world: World, task: Task, ms: int) -> None:
    world.move(task, ms)
    world.settle_down()


def other_end(task: TaskId, pick: int) -> Procedure[Cancelled]:
    """By another call, or by this one when it was tried before."""
    outcome, request = [(Outcome.CANCELLED, b"other"), (Outcome.PURGED, b"purge"), (Outcome.CANCELLED, b"r")][pick % 3]
    return end_task(task, outcome, request)


def together(world: World, ids: Sequence[TaskId]) -> list[Cancelled]:
    said = run(world, end_many(ids, Outcome.CANCELLED, b"r")).said
    event(f"together: {sum(answer is not None for answer in said) > 0}")
    return [
        answer or run(world, end_task(task, Outcome.CANCELLED, b"r")) for task, answer in zip(ids, said, strict=True)
    ]


def state_of(world: World) -> State:
    partitions = world.store._partitions
    marks = {(m.partition, m.key, m.kind, m.value) for kept in partitions.values() for _, m in kept.marks.values()}
    ends = {
        (partition, key, outcome)
        for partition, kept in partitions.items()
        for record in kept.records.values()
        for key, outcome in record.outcomes()
    }
    verdicts = {partition: machine._table._rows.outcomes.tasks() for partition, machine in world.machines.items()}
    counts = {partition: machine.totals() for partition, machine in world.machines.items()}
    return marks, ends, verdicts, counts


@settings(max_examples=300)
@given(before=st.lists(deeds(), max_size=14), first=delays_ms, chosen=st.lists(picks, min_size=1, max_size=8))
def test_together_is_as_each_by_itself(before: list[Deed], first: list[int], chosen: list[int]) -> None:
    states: list[State] = []
    for is_together, knows_all in ((True, True), (True, False), (False, True)):
        world = World()
        world.runner.knows_all = knows_all
        world.insert(first, 0)
        world.settle_down()
        for deed in before:
            deed(world)
        ids = [task.id for task in each_of(chosen, stored(world))]
        ids.append(ids[0]._replace(item=99))
        each = [end_task(task, Outcome.CANCELLED, b"r") for task in ids]
        said = together(world, ids) if is_together else [run(world, one) for one in each]
        left = state_of(world)
        world.settle_down()
        states.append((said, left, state_of(world)))
    assert states[0] == states[1] == states[2]


@settings(max_examples=300)
@given(before=st.lists(deeds(), max_size=14), first=delays_ms)
def test_all_wait_where_each_is_said_to_wait(before: list[Deed], first: list[int]) -> None:
    world = World()
    world.insert(first, 0)
    world.settle_down()
    for deed in before:
        deed(world)
    homes: dict[Partition, list[RowKey]] = {}
    for task in world.tasks.values():
        homes.setdefault(task.id.home, []).append(RowKey(task.id.position_ms, task.id.digest, 0))
    for partition, machine in world.machines.items():
        for key in homes.get(partition, ()):
            assert machine.all_wait([key]) == (machine.ask(key) == (Asked.WAITING, None))
