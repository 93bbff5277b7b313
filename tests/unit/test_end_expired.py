"""What has expired by the clock of a caller is over for every holder, also for one whose clock is behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.property import world as worlds
from tests.property.world import QUEUES, Task, World, done
from tests.unit.procedure_rig import NAME, delivered, going_on, run, scheduled, up_to, with_key, world
from timerd.core.partition import Asked
from timerd.core.protocol.cancel import Cancelled, end_expired, end_task
from timerd.core.protocol.cancel_many import end_many
from timerd.core.protocol.keys import Conflict, reserve
from timerd.core.protocol.lookup import HEARD_OF_MS, locate
from timerd.core.protocol.move import Wish, move_task
from timerd.core.protocol.procedures import SetMarks
from timerd.model.errors import Precondition
from timerd.model.identity import TaskId
from timerd.model.settle import Outcome
from timerd.model.storage import MarkKind

__all__ = ["world"]
SPAN_MS = 20_000


@pytest.fixture(autouse=True)
def expiring(monkeypatch: pytest.MonkeyPatch) -> None:
    templates = [replace(each, expire_after_ms=SPAN_MS) for each in worlds.TEMPLATES]
    monkeypatch.setattr(worlds, "TEMPLATES", templates)


def ahead(world: World) -> int:
    """The clock of the caller, when a task that is due now has expired."""
    return world.now_ms + SPAN_MS


def keeps(world: World, mine: Task) -> TaskId | None:
    """Which task has the key, by the clock of the caller."""
    return run(world, reserve(NAME, mine.id, Conflict.KEEP, lambda: ahead(world))).taken_by


def sent(world: World) -> None:
    world.tick()
    world.settle_down()
    world.take(QUEUES[0], 10)


@pytest.mark.parametrize("is_held", [True, False], ids=["held", "vacant"])
def test_whose_key_was_passed_on_is_not_sent_any_more(world: World, is_held: bool) -> None:
    """By no holder, nor by one that comes later."""
    task, other = scheduled(world, 0, 40_000)
    with_key(world, task)
    if not is_held:
        world.crash()
    assert keeps(world, other) is None
    world.reconcile()
    world.settle_down()
    sent(world)
    assert task.deliveries == 0
    assert run(world, locate(task.id)).ending.outcome is Outcome.EXPIRED


def test_what_a_worker_has_keeps_its_key_and_its_end(world: World) -> None:
    """Nothing is marked: its row would end by that at the next stop."""
    task, other = scheduled(world, 0, 40_000)
    with_key(world, task)
    delivered(world, task)
    assert keeps(world, other) == task.id
    assert run(world, locate(task.id)).first(MarkKind.CANCELLED) is None
    world.ack(task)
    world.settle_down()
    assert run(world, locate(task.id)).ending.outcome is Outcome.ACKED


def test_a_task_that_was_moved_meanwhile_lives_on(world: World) -> None:
    """The move began before it had expired, and has taken the expiry along."""
    [task] = scheduled(world, 0)
    here = run(world, locate(task.id))
    ending = end_expired(task.id, here)
    mark = up_to(world, ending, SetMarks)
    moved_ms = run(world, move_task(task.id, Wish("m", world.now_ms + 5_000, world.now_ms, 86_400_000)))
    task.fire_at_ms.add(moved_ms)
    assert run(world, going_on(ending, mark)) is Asked.OPEN
    for _ in range(6):
        world.settle_down()
        world.advance(1_000)
    sent(world)
    assert task.deliveries == 1


def test_a_move_that_meets_the_mark_has_failed(world: World) -> None:
    [task] = scheduled(world, 0)
    moving = move_task(task.id, Wish("m", world.now_ms + 5_000, world.now_ms, 86_400_000))
    first = up_to(world, moving, SetMarks)
    assert run(world, end_expired(task.id, run(world, locate(task.id)))) is Asked.ENDED
    with pytest.raises(Precondition, match="expired"):
        run(world, going_on(moving, first))
    world.settle_down()
    world.advance(6_000)
    sent(world)
    assert task.deliveries == 0


def test_a_cancel_says_so_each_time_and_of_many(world: World) -> None:
    """By whatever way, and before any holder has written it down."""
    tasks = scheduled(world, 0, 0, 40_000)
    ids, now_ms = [task.id for task in tasks], ahead(world)
    said = run(world, end_many(ids, Outcome.CANCELLED, b"r", now_ms)).said
    assert said == [None, None, Cancelled.CANCELLED]
    for _ in range(2):
        assert run(world, end_task(ids[0], Outcome.CANCELLED, b"r", now_ms=now_ms)) is Cancelled.ALREADY_FIRED
    assert run(world, locate(ids[0])).ending.outcome is Outcome.EXPIRED


def test_of_a_cancel_and_an_expiry_the_first_one_stands(world: World) -> None:
    """Where both have met no mark of the other."""
    cancelled, expired = scheduled(world, 0, 0)
    late = end_task(expired.id, Outcome.CANCELLED, b"r")
    mark = up_to(world, late, SetMarks)
    assert run(world, end_expired(expired.id, run(world, locate(expired.id)))) is Asked.ENDED
    assert run(world, going_on(late, mark)) is Cancelled.ALREADY_FIRED
    later = end_expired(cancelled.id, run(world, locate(cancelled.id)))
    mark = up_to(world, later, SetMarks)
    assert run(world, end_task(cancelled.id, Outcome.CANCELLED, b"r")) is Cancelled.CANCELLED
    assert run(world, going_on(later, mark)) is Asked.ENDED
    assert run(world, locate(cancelled.id)).ending.outcome is Outcome.CANCELLED
    assert run(world, end_task(cancelled.id, Outcome.CANCELLED, b"r", now_ms=ahead(world))) is Cancelled.CANCELLED


def test_what_waits_for_a_lease_has_not_expired_before_its_worker_would_be_heard_of(world: World) -> None:
    [task] = scheduled(world, 0)
    delivered(world, task)
    lease_ms = task.lease_until_ms
    for machine in list(world.machines.values()):
        world.hand_over(machine)
    world.settle_down()
    here = run(world, locate(task.id))
    assert here.rows is not None
    assert here.rows.extra_of(0).lease_until_ms == lease_ms
    assert not here.has_expired(max(ahead(world), lease_ms + HEARD_OF_MS) - 1)
    assert here.has_expired(max(ahead(world), lease_ms + HEARD_OF_MS))


def test_marks_of_what_has_expired_are_read_as_such_by_whoever_meets_them(world: World) -> None:
    """Who wrote them came no further."""
    [task] = scheduled(world, 0)
    ending = end_expired(task.id, run(world, locate(task.id)))
    done(world.runner.perform(up_to(world, ending, SetMarks)))
    world.crash()
    assert run(world, end_task(task.id, Outcome.CANCELLED, b"r")) is Cancelled.ALREADY_FIRED
    world.reconcile()
    world.settle_down()
    sent(world)
    world.settle_down()
    assert task.deliveries == 0
    assert run(world, locate(task.id)).ending.outcome is Outcome.EXPIRED
