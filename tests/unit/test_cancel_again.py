"""A cancel comes again, or its tries run beside each other, while a worker has the task or comes back with it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.property.world import Task, World
from tests.unit.procedure_rig import delivered, going_on, run, scheduled, up_to, world
from timerd.core.partition import Asked
from timerd.core.protocol.cancel import Cancelled, end_task, set_for_all_tries
from timerd.core.protocol.lookup import locate
from timerd.core.protocol.move import Wish, move_task
from timerd.core.protocol.procedures import AskToEnd, Procedure, SetMarks, TryCas
from timerd.model.settle import Outcome
from timerd.services.engine.ending import end_all
from timerd.services.holding.own_machines import OwnMachines

__all__ = ["world"]


def cancel(world: World, task: Task, request: bytes = b"r") -> Procedure[Cancelled]:
    """As the engine does."""
    return end_task(task.id, Outcome.CANCELLED, request, now_ms=world.now_ms)


def comes_back(patch: pytest.MonkeyPatch) -> None:
    """A worker, with all that it had before."""
    patch.setattr(World, "has_in_hand", lambda *_: True)
    patch.setattr(World, "has_lease", lambda *_: True)


def nobody_holds(world: World) -> None:
    world.settle_down()
    world.machines.clear()


@pytest.mark.parametrize("is_set", [True, False])
def test_a_worker_that_comes_back_where_nobody_holds_the_task_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, is_set: bool
) -> None:
    """The task waits for its next attempt. The release before did not set what it said."""
    task, other = scheduled(world, 30_000, 31_000)
    nobody_holds(world)
    before = dict(world.store._registers)
    assert run(world, cancel(world, task)) is Cancelled.CANCELLED
    if not is_set:
        world.store._registers = before
    comes_back(monkeypatch)
    assert run(world, cancel(world, task)) is Cancelled.CANCELLED
    assert run(world, cancel(world, other)) is Cancelled.IN_FLIGHT


def test_a_worker_that_comes_back_when_the_end_is_recorded_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of what the release before said, which did not set it."""
    [task] = scheduled(world, 0)
    delivered(world, task)
    world.nack(task, 5_000)
    world.settle_down()
    before = dict(world.store._registers)
    assert run(world, cancel(world, task)) is Cancelled.CANCELLED
    world.settle_down()
    nobody_holds(world)
    world.store._registers = before
    comes_back(monkeypatch)
    assert run(world, cancel(world, task)) is Cancelled.CANCELLED


def test_a_worker_that_comes_back_changes_nothing_while_its_holder_has_yet_to_write_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, other = scheduled(world, 30_000, 31_000)
    monkeypatch.setattr(World, "settle_soon", lambda *_: None)
    assert run(world, cancel(world, task)) is Cancelled.CANCELLED
    comes_back(monkeypatch)
    assert run(world, cancel(world, task)) is Cancelled.CANCELLED
    assert run(world, cancel(world, other)) is Cancelled.IN_FLIGHT


def test_tries_beside_each_other_say_the_same_when_the_worker_fails_the_task_between_them(world: World) -> None:
    """The holder has said to one of them that the task is with a worker, and says so to the other one."""
    [task] = scheduled(world, 0)
    delivered(world, task)
    other = cancel(world, task)
    asking = up_to(world, other, AskToEnd)
    first = cancel(world, task)
    setting = up_to(world, first, TryCas)
    world.nack(task, 1_000)
    assert run(world, going_on(other, asking)) is Cancelled.IN_FLIGHT
    assert run(world, going_on(first, setting)) is Cancelled.IN_FLIGHT


def test_a_try_that_finds_the_task_cancelled_answers_for_one_that_found_it_with_a_worker(world: World) -> None:
    """That one has not said so yet."""
    [task] = scheduled(world, 0)
    delivered(world, task)
    first = cancel(world, task)
    setting = up_to(world, first, TryCas)
    world.nack(task, 1_000)
    world.settle_down()
    assert run(world, cancel(world, task)) is Cancelled.CANCELLED
    assert run(world, going_on(first, setting)) is Cancelled.CANCELLED


@pytest.mark.parametrize("is_held", [True, False])
def test_tries_that_mark_it_at_once_say_the_same_when_a_worker_has_it_for_one_of_them_only(
    world: World, monkeypatch: pytest.MonkeyPatch, is_held: bool
) -> None:
    """Neither has met the mark of the other, so neither knows that it is not the first. Between their questions the
    worker that has the attempt before fails it."""
    [task] = scheduled(world, 0)
    delivered(world, task)
    world.nack(task, 1_000)
    world.settle_down()
    if not is_held:
        nobody_holds(world)
    first, other = cancel(world, task), cancel(world, task)
    marking, also_marking = up_to(world, first, SetMarks), up_to(world, other, SetMarks)
    with monkeypatch.context() as patch:
        comes_back(patch)
        assert run(world, going_on(other, also_marking)) is Cancelled.IN_FLIGHT
    world.settle_down()
    assert run(world, going_on(first, marking)) is Cancelled.IN_FLIGHT


def test_a_task_that_was_acked_late_is_not_cancelled_by_a_call_that_finds_its_worker_at_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ack was confirmed while nobody held the row of the next attempt. Its holder since has read the mark, and is
    asked by an instance that found no record."""
    [task] = scheduled(world, 0)
    delivered(world, task)
    world.nack(task, 5_000)
    nobody_holds(world)
    run(world, end_task(task.id, Outcome.ACKED, b"late ack"))
    world.tick()
    world.settle_down()
    comes_back(monkeypatch)
    place = run(world, locate(task.id)).place
    said = OwnMachines(cast(Any, world)).answer(AskToEnd(place.partition, place.key, Outcome.CANCELLED, b"r"))
    assert (said.asked, said.outcome) == (Asked.ENDED, Outcome.ACKED)
    world.settle_down()
    assert run(world, locate(task.id)).ending.outcome is Outcome.ACKED


def test_of_what_was_never_due_a_repeat_sets_nothing(world: World) -> None:
    """It was with nobody, so no try has said otherwise; and a compare-and-set is dear."""
    [task] = scheduled(world, 30_000)
    assert run(world, cancel(world, task)) is Cancelled.CANCELLED
    before = dict(world.store._registers)
    assert run(world, cancel(world, task)) is Cancelled.CANCELLED
    assert world.store._registers == before


def test_a_mark_on_a_place_that_the_task_had_left_is_not_the_one_that_ended_it(world: World) -> None:
    """One try of the later call stands still before it marks; another one finds the task cancelled by the earlier."""
    [task] = scheduled(world, 30_000)
    slow = cancel(world, task, b"later")
    marking = up_to(world, slow, SetMarks)
    wish = Wish("a move", world.now_ms + 60_000, world.now_ms, 86_400_000)
    task.fire_at_ms = {run(world, move_task(task.id, wish))}
    world.settle_down()
    assert run(world, cancel(world, task, b"earlier")) is Cancelled.CANCELLED
    assert run(world, cancel(world, task, b"later")) is Cancelled.ALREADY_CANCELLED
    assert run(world, going_on(slow, marking)) is Cancelled.ALREADY_CANCELLED
    assert run(world, cancel(world, task, b"later")) is Cancelled.ALREADY_CANCELLED


@pytest.mark.parametrize("is_first", [True, False])
def test_tries_by_the_short_way_set_what_they_say_of_what_was_due(world: World, is_first: bool) -> None:
    """Another try may have found the task with a worker. What was never due was with nobody, and costs no register."""
    task, never_due = scheduled(world, 0, 60_000)
    nobody_holds(world)
    registers = len(world.store._registers)

    def short() -> list[Cancelled]:
        ids = [task.id, never_due.id]
        return asyncio.run(end_all(ids, Outcome.CANCELLED, b"r", world.runner, now_ms=world.now_ms))

    def other() -> Cancelled:
        return run(world, set_for_all_tries(task.id, b"r", Cancelled.IN_FLIGHT, world.now_ms))

    said, stands = (short(), other()) if is_first else (other(), short())[::-1]
    assert stands is said[0] is (Cancelled.CANCELLED if is_first else Cancelled.IN_FLIGHT)
    assert said[1] is Cancelled.CANCELLED
    assert len(world.store._registers) == registers + 1
