"""Which task a call by key is about, while another call is about to give the key to one that is not written yet."""

from __future__ import annotations

from tests.property.world import World
from tests.unit.procedure_rig import NAME, claimed, run, scheduled, with_key, world
from timerd.core.protocol.keys import Conflict, activate, resolve, resolve_once

__all__ = ["world"]
LATER_MS = 7


def test_a_call_by_key_is_about_no_task_that_is_not_written_yet(world: World) -> None:
    """It would say that the task is not found, and its repeat would cancel it."""
    [task] = scheduled(world, 30_000)
    held = claimed(world, task.id._replace(position_ms=task.id.position_ms + LATER_MS), Conflict.KEEP)
    assert run(world, resolve_once(NAME, b"by key", world.now_ms)) is None
    assert run(world, activate(NAME, task.id, held)) is None
    assert run(world, resolve_once(NAME, b"by key", world.now_ms)) is None
    assert run(world, resolve_once(NAME, b"another one", world.now_ms)) == task.id


def test_until_it_is_written_the_task_that_it_is_taken_from_has_the_key(world: World) -> None:
    old, new = scheduled(world, 30_000, 40_000)
    with_key(world, old)
    held = claimed(world, new.id._replace(position_ms=new.id.position_ms + LATER_MS), Conflict.REPLACE)
    assert run(world, resolve(NAME)) == old.id
    assert run(world, activate(NAME, new.id, held)) is None
    assert run(world, resolve(NAME)) == new.id
