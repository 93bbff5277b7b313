"""A world in which procedures run step by step."""

from __future__ import annotations

from typing import TypeVar

import pytest

from tests.property.world import QUEUES, TEMPLATES, Task, World, done
from timerd.core.protocol.keys import Conflict, Reserved, activate, reserve
from timerd.core.protocol.message_place import Call
from timerd.core.protocol.procedures import (
    Procedure,
    Request,
)
from timerd.model.identity import RowKey, TaskId
from timerd.model.registers import name_key
from timerd.model.rows import single_row
from timerd.model.storage import Append
from timerd.model.task import NO_EXTRA
from timerd.services.holding.driving import drive

Result = TypeVar("Result")
KEPT_MS = 86_400_000


@pytest.fixture
def world() -> World:
    return World()


def run(world: World, procedure: Procedure[Result]) -> Result:
    """To its end, without anything in between."""
    return done(drive(procedure, world.runner))


def going_on(procedure: Procedure[Result], request: Request) -> Procedure[Result]:
    """From that request on."""
    while True:
        answer = yield request
        try:
            request = procedure.send(answer)
        except StopIteration as over:
            return over.value  # type: ignore[no-any-return]


def up_to(world: World, procedure: Procedure[Result], kind: type[Request], times: int = 1) -> Request:
    """The request that it is about to make for the so-manieth time."""
    request = next(procedure)
    while True:
        times -= isinstance(request, kind)
        if not times:
            return request
        request = procedure.send(done(world.runner.perform(request)))


def scheduled(world: World, *delays_ms: int) -> list[Task]:
    before = len(world.tasks)
    world.insert(delays_ms, 0)
    world.settle_down()
    return list(world.tasks.values())[before:]


def delivered(world: World, task: Task) -> None:
    world.tick()
    world.settle_down()
    world.take(QUEUES[0], 10)
    assert task.key is not None


NAME = name_key("default", "k")


def claimed(world: World, task: TaskId, policy: Conflict) -> Reserved:
    return run(world, reserve(NAME, task, policy))


def with_key(world: World, task: Task) -> None:
    held = claimed(world, task.id, Conflict.KEEP)
    assert run(world, activate(NAME, task.id, held)) is None


def goes_beyond(world: World) -> None:
    """The holder goes on, beyond what is now, with another task."""
    scheduled(world, 1_000)
    world.advance(60_000)
    for _ in range(5):
        world.settle_down()
        world.take(QUEUES[0], 10)
        for task in world.in_hand():
            world.ack(task)
        world.advance(2_000)


def late_row(world: World) -> tuple[TaskId, Append, Call]:
    """Too late for its place, which its holder has gone beyond."""
    at_ms = world.now_ms + 500
    goes_beyond(world)
    late = TaskId(at_ms, 0, TEMPLATES[0].scope, 0, b"late" * 3, 0, bytes(8))
    row = single_row(RowKey(at_ms, late.digest, 0), at_ms, TEMPLATES[0], b"", NO_EXTRA, 0)
    world.tasks[late.digest] = Task(late, {at_ms}, stored=True)
    call = Call(late.prefix, world.now_ms, world.now_ms + KEPT_MS, KEPT_MS, may_be_withdrawn=True)
    return late, Append(((late.home, row),)), call
