"""A call loses its key before it is answered: all its tries say the same of its task, and the store holds to it."""

from __future__ import annotations

import pytest

from tests.property.world import QUEUES, Task, World, done
from tests.unit.procedure_rig import NAME, claimed, delivered, going_on, run, scheduled, up_to, with_key, world
from timerd.core.protocol import without_key
from timerd.core.protocol.keys import Conflict, activate, give_back, reserve, resolve
from timerd.core.protocol.lookup import locate
from timerd.core.protocol.past_keys import Had, decide
from timerd.core.protocol.procedures import Procedure, TryCas
from timerd.core.protocol.request_memory import remember
from timerd.model.errors import StoreUnknown
from timerd.model.identity import TaskId
from timerd.model.storage import MarkKind

__all__ = ["world"]
LATER_MS = 7


def elsewhere(task: Task) -> TaskId:
    """By the place that a later try of its call would give it."""
    return task.id._replace(position_ms=task.id.position_ms + LATER_MS)


def is_cancelled(world: World, task: Task) -> bool:
    return run(world, locate(task.id)).first(MarkKind.CANCELLED) is not None


def not_yet(_: TaskId) -> Procedure[bool]:
    yield from ()
    return False


def test_a_repeat_does_not_say_that_a_task_is_stored_which_the_first_try_cancels(world: World) -> None:
    """It comes while the first try has yet to hear that another call took the key."""
    task, other = scheduled(world, 30_000, 40_000)
    first = claimed(world, task.id, Conflict.KEEP)
    claimed(world, other.id, Conflict.REPLACE)
    repeat = claimed(world, task.id, Conflict.KEEP)
    assert not repeat.had_it
    assert run(world, activate(NAME, task.id, repeat)) == other.id
    assert run(world, activate(NAME, task.id, first)) == other.id
    assert is_cancelled(world, task)


def test_a_repeat_looks_for_its_task_where_it_was_stored_the_first_time(world: World) -> None:
    task, other = scheduled(world, 30_000, 40_000)
    first = claimed(world, task.id, Conflict.KEEP)
    claimed(world, other.id, Conflict.REPLACE)
    assert run(world, activate(NAME, task.id, first)) == other.id
    repeat = claimed(world, elsewhere(task), Conflict.KEEP)
    assert not repeat.had_it
    assert run(world, activate(NAME, task.id, repeat)) == other.id


def test_a_try_that_never_got_the_key_hears_nothing_of_the_task_that_another_one_has_sent(world: World) -> None:
    """So it speaks of itself only (tests/services/test_keying.py)."""
    task, other = scheduled(world, 0, 40_000)
    first = claimed(world, elsewhere(task), Conflict.REJECT)
    claimed(world, other.id, Conflict.REPLACE)
    assert claimed(world, task.id, Conflict.REJECT).taken_by == other.id
    delivered(world, task)
    assert run(world, activate(NAME, task.id, first)) is None
    assert claimed(world, task.id, Conflict.REJECT).had_it


def test_no_try_takes_the_key_back_while_another_one_cancels_their_task(world: World) -> None:
    """When the other call took the key the row was not there, and that try has looked by then."""
    task, other = scheduled(world, 30_000, 40_000)
    first = claimed(world, elsewhere(task), Conflict.KEEP)
    later = claimed(world, other.id, Conflict.KEEP)
    taking_back = reserve(NAME, task.id, Conflict.REPLACE)
    change = up_to(world, taking_back, TryCas)
    assert run(world, activate(NAME, task.id, first)) == other.id
    assert run(world, going_on(taking_back, taking_back.send(done(world.runner.perform(change))))).is_behind
    assert run(world, activate(NAME, other.id, later)) is None
    assert run(world, resolve(NAME)) == other.id
    assert not is_cancelled(world, other)


def test_a_task_that_stands_without_its_key_has_replaced_whom_it_was_to_replace(world: World) -> None:
    """The call that took the key has yet to end them both."""
    old, task, last = scheduled(world, 30_000, 0, 40_000)
    with_key(world, old)
    claimed(world, task.id, Conflict.REPLACE)
    assert claimed(world, last.id, Conflict.REPLACE).replaces == (task.id, old.id)
    delivered(world, task)
    repeat = claimed(world, task.id, Conflict.REPLACE)
    assert run(world, activate(NAME, task.id, repeat)) is None
    assert is_cancelled(world, old)
    assert not is_cancelled(world, last)
    assert not is_cancelled(world, task)


def test_what_stands_is_not_cancelled_by_a_try_that_looked_before_it_was_sent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, other = scheduled(world, 0, 40_000)
    first = claimed(world, task.id, Conflict.KEEP)
    claimed(world, other.id, Conflict.REPLACE)
    delivered(world, task)
    assert run(world, activate(NAME, task.id, claimed(world, task.id, Conflict.KEEP))) is None
    monkeypatch.setattr(without_key, "_was_sent", not_yet)
    assert run(world, activate(NAME, task.id, first)) is None
    assert not is_cancelled(world, task)


def test_a_task_that_was_sent_meanwhile_is_answered_when_it_has_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, other = scheduled(world, 0, 40_000)
    first = claimed(world, task.id, Conflict.KEEP)
    claimed(world, other.id, Conflict.REPLACE)
    delivered(world, task)
    monkeypatch.setattr(without_key, "_was_sent", not_yet)
    with pytest.raises(StoreUnknown, match="went to a worker"):
        run(world, activate(NAME, task.id, first))
    world.ack(task)
    world.settle_down()
    assert run(world, activate(NAME, task.id, first)) is None
    assert run(world, activate(NAME, task.id, claimed(world, task.id, Conflict.KEEP))) is None
    world.take(QUEUES[0], 10)
    assert task.deliveries == 1


@pytest.mark.parametrize("had", [Had.ACTIVE, Had.LOST])
def test_what_was_decided_first_stands(world: World, had: Had) -> None:
    """Also of a task that was put away from the register of the key before it was decided."""
    [task] = scheduled(world, 30_000)
    run(world, remember(b"key" + task.id.digest, Had.RESERVED.value.encode(), world.now_ms))
    assert run(world, decide(task.id, had, world.now_ms)) is had
    assert {run(world, decide(task.id, other, world.now_ms)) for other in (Had.ACTIVE, Had.LOST)} == {had}


def test_the_key_is_not_given_back_to_a_call_that_has_not_come_to_its_end(world: World) -> None:
    """It would be answered by that, while a try of it cancels its task."""
    task, other = scheduled(world, 30_000, 40_000)
    claimed(world, task.id, Conflict.KEEP)
    run(world, give_back(NAME, claimed(world, other.id, Conflict.REPLACE)))
    assert not claimed(world, task.id, Conflict.KEEP).had_it
