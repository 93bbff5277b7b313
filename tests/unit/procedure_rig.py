"""A world in which procedures run step by step."""

from __future__ import annotations

from typing import TypeVar

import pytest

from tests.property.world import QUEUES, Task, World, done
from timerd.core.protocol.keys import Conflict, Reserved, activate, reserve
from timerd.core.protocol.procedures import (
    Procedure,
    Request,
)
from timerd.model.identity import TaskId
from timerd.model.registers import name_key
from timerd.services.holding.driving import drive

Result = TypeVar("Result")


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
