"""A task that callers know before its row is written, as of a schedule: who cancels it reaches it wherever its row is
written in the end, and whoever stands still on the way there (tests/models/pointing.pml)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.property.world import World, done
from tests.unit.procedure_rig import goes_beyond, going_on, late_row, run, up_to
from timerd.core.protocol.cancel import Cancelled, end_task
from timerd.core.protocol.lookup import locate
from timerd.core.protocol.message_place import Call, place_message
from timerd.core.protocol.procedures import AppendRows, Request, SetMarks
from timerd.model.identity import TaskId
from timerd.model.partition import BUCKET_MS
from timerd.model.settle import Outcome
from timerd.model.storage import Append


def cancelled(world: World, task: TaskId) -> None:
    assert run(world, end_task(task, Outcome.CANCELLED, b"r")) is Cancelled.CANCELLED
    world.tasks[task.digest].over = True


def deliveries(world: World, task: TaskId) -> int:
    world.drain()
    return world.tasks[task.digest].deliveries


@pytest.mark.parametrize("before", [SetMarks, AppendRows], ids=["it points on", "it writes there"])
def test_who_cancels_a_task_that_is_about_to_have_a_later_place_reaches_it_there(before: type[Request]) -> None:
    """A first writer has written it where nobody reads it any more, and stands still."""
    world = World()
    task, message, call = written_late(world)
    writing = place_message(message, call)
    request = up_to(world, writing, before)
    cancelled(world, task)
    run(world, going_on(writing, request))
    assert deliveries(world, task) == 0


def written_late(world: World) -> tuple[TaskId, Append, Call]:
    """Its next place is in another bucket, of which the holder of the first one knows nothing."""
    task, message, call = late_row(world)
    done(world.store.append([message]))
    world.advance(BUCKET_MS)
    world.settle_down()
    return task, message, replace(call, now_ms=world.now_ms)


def passed_twice(world: World) -> TaskId:
    """A first writer is about to write the row at the second place, and stands still; a second one comes when
    `verified` has passed that as well, and writes it at the third."""
    task, message, call = written_late(world)
    stands_still = place_message(message, call)
    up_to(world, stands_still, AppendRows)
    goes_beyond(world)
    run(world, place_message(message, replace(call, now_ms=world.now_ms)))
    return task


def test_a_task_is_found_although_its_row_was_never_written_at_a_place_on_the_way() -> None:
    world = World()
    task = passed_twice(world)
    here = run(world, locate(task))
    assert here.rows is not None
    assert here.place.key.position_ms == int(here.rows.columns["position_ms"][0])
    cancelled(world, task)
    assert deliveries(world, task) == 0
