"""A task that a repeated call has written into a second bucket: a move by either id takes both rows along."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.property.world import World, done
from tests.unit.test_procedures import run
from tests.unit.test_ties import (
    AFTER,
    BEFORE,
    IN_TIME_MS,
    LATE_MS,
    REPEATED_MS,
    asked,
    does_not_count,
    interleaved,
    task_at,
    written,
)
from timerd.core.holding import Asked
from timerd.core.insert import ClosedForGood
from timerd.core.move import Wish, move_task
from timerd.core.procedures import AskToMove, Find, HolderAnswer, Procedure, Request, SetMarks
from timerd.model.errors import Precondition, Unavailable
from timerd.model.identity import TaskId
from timerd.model.partition import Partition
from timerd.model.storage import MarkKind

TO_MS = REPEATED_MS + 5_000


def moved(task: TaskId) -> Procedure[int]:
    return move_task(task, Wish("w", TO_MS, IN_TIME_MS - 1_000, 86_400_000))


def is_asked_about(world: World, partition: Partition, position_ms: int) -> bool:
    """Whoever holds that partition next asks `moves` before it sends the row."""
    [found] = done(world.store.find(partition, [(position_ms, task_at(partition, position_ms).digest)]))
    return any(mark.kind is MarkKind.MOVED for mark in found.marks)


@dataclass
class Holder:
    """Of a partition that is asked whether a row may leave."""

    partition: Partition
    says: Asked
    times: int = 0

    def answer(self, world: World, request: Request) -> object:
        if isinstance(request, AskToMove) and request.partition == self.partition:
            self.times += 1
            return HolderAnswer(self.says)
        return done(world.performer.perform(request))

    def run(self, world: World, procedure: Procedure[object]) -> object:
        answer: object = None
        try:
            while True:
                answer = self.answer(world, procedure.send(answer))
        except StopIteration as stop:
            return stop.value


@pytest.fixture
def world() -> World:
    return does_not_count(World())


@pytest.mark.parametrize("first_ms", [IN_TIME_MS, LATE_MS])
def test_by_each_of_the_ids_neither_row_fires_any_more(first_ms: int) -> None:
    for task in (task_at(BEFORE, first_ms), task_at(AFTER, REPEATED_MS)):
        world = does_not_count(World())
        run(world, written(BEFORE, first_ms))
        run(world, written(AFTER, REPEATED_MS))
        assert run(world, moved(task)) == TO_MS
        assert is_asked_about(world, AFTER, REPEATED_MS)
        # By the id of the repeat nobody knows where the first row is exactly: one mark is where every holder reads.
        assert is_asked_about(world, BEFORE, first_ms) or is_asked_about(world, BEFORE, BEFORE.end_ms - 1)


@pytest.mark.parametrize("first_ms", [IN_TIME_MS, LATE_MS])
def test_whoever_comes_second_sees_the_other_wherever_that_one_is(first_ms: int) -> None:
    asks = [is_asked_about(world, AFTER, REPEATED_MS) for world in interleaved(first_ms, moved)]
    assert all(asks), asks
    assert len(asks) > 10


def test_who_holds_the_other_row_waits_for_the_decision(world: World) -> None:
    run(world, written(BEFORE, IN_TIME_MS))
    run(world, written(AFTER, REPEATED_MS))
    holder = Holder(AFTER, Asked.WAITING)
    assert holder.run(world, moved(task_at(BEFORE, IN_TIME_MS))) == TO_MS
    assert holder.times == 1


def test_who_writes_it_later_tells_the_holder_that_it_waits(world: World) -> None:
    run(world, written(BEFORE, IN_TIME_MS))
    run(world, moved(task_at(BEFORE, IN_TIME_MS)))
    holder = Holder(AFTER, Asked.UNKNOWN)
    holder.run(world, written(AFTER, REPEATED_MS))
    assert holder.times == 1
    with pytest.raises(ClosedForGood):
        Holder(AFTER, Asked.SILENT).run(world, written(AFTER, REPEATED_MS + 1_000))


@pytest.mark.parametrize(
    ("says", "error", "match"), [(Asked.OPEN, Precondition, "with a worker"), (Asked.SILENT, Unavailable, "not answer")]
)
def test_a_row_that_cannot_be_held_back_keeps_the_task(
    world: World, says: Asked, error: type[Exception], match: str
) -> None:
    run(world, written(BEFORE, IN_TIME_MS))
    run(world, written(AFTER, REPEATED_MS))
    with pytest.raises(error, match=match):
        Holder(AFTER, says).run(world, moved(task_at(BEFORE, IN_TIME_MS)))


def test_what_came_in_time_costs_nothing_more(world: World) -> None:
    run(world, written(BEFORE, IN_TIME_MS))
    requests = asked(world, moved(task_at(BEFORE, IN_TIME_MS)))
    assert [len(request.marks) for request in requests if isinstance(request, SetMarks)] == [1]
    assert sum(isinstance(request, Find) for request in requests) == 2
