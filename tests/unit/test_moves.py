"""G8: while a move is undecided neither row is given up, and the new one waits, wherever the mover stops."""

from __future__ import annotations

import pytest

from tests.property.world import World, done
from timerd.core.protocol.move import Wish, move_task
from timerd.model.errors import Aborted
from timerd.model.partition import TIME_SCOPE, bucket_of
from timerd.services.holding.driving import drive

# A move takes about so many: each request to the store or to a holder, and each answer.
MOST_STEPS = 40


def stopped_after(steps: int, delay_ms: int) -> World:
    world = World()
    world.insert([30_000], 0)
    world.settle_down()
    [task] = world.tasks.values()
    world.move(task, delay_ms)
    for _ in range(steps):
        if world.pending:
            world.pending.pop(0)[1]()
    world.crash()
    return world


@pytest.mark.parametrize("delay_ms", [90_000, 400_000])
def test_a_move_that_stops_anywhere_leaves_one_row_that_fires(delay_ms: int) -> None:
    """The server is killed after so many steps."""
    for steps in range(MOST_STEPS):
        world = stopped_after(steps, delay_ms)
        world.drain()
        [task] = world.tasks.values()
        assert task.deliveries == 1, f"stopped after {steps} steps"


def test_a_place_that_is_closed_is_not_moved_to() -> None:
    """Nobody says that the row is taken in there: the task keeps its old time."""
    world = World()
    world.insert([30_000], 0)
    world.settle_down()
    [task] = world.tasks.values()
    closed = bucket_of(world.now_ms + 400_000)
    done(world.store.finish_bucket(TIME_SCOPE, closed, finished=False))
    asked = Wish("r", closed + 1_000, world.now_ms, 86_400_000)
    with pytest.raises(Aborted):
        done(drive(move_task(task.id, asked), world.runner))
    world.drain()
    assert task.deliveries == 1
