"""A row was taken in although its writer, who was not answered, wrote it again: the task is found by both."""

from __future__ import annotations

import pytest

from tests.property.world import START_MS, World, done
from tests.unit.procedure_rig import run
from timerd.core.protocol.cancel import Cancelled, end_task
from timerd.core.protocol.insertion import insert, insert_carried
from timerd.core.protocol.lookup import locate
from timerd.core.protocol.move import Wish, move_task
from timerd.core.protocol.procedures import Procedure, ReadRegister, Request
from timerd.model.errors import Precondition
from timerd.model.identity import ATTEMPT_BITS, RowKey, TaskId
from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.registers import Control, Move, MoveState, Place, Table, control_key, move_key
from timerd.model.rows import FLAG_CARRIED, RowGroup, single_row
from timerd.model.settle import Carry, CarryReason, Outcome, SettleRecord, settle_entries
from timerd.model.storage import Append, Cas, Mark, MarkKind
from timerd.model.task import NO_EXTRA, Template

HERE, NEXT = Partition(0, START_MS, 0), Partition(0, START_MS + BUCKET_MS, 0)
TASK = TaskId(START_MS + 1_000, 0, Template("default", "q").scope, 0, b"p" * 12, 3, b"m" * 8)
# The first row, where it was written again, and where the first one was carried to when its delivery had failed.
FIRST = Place(HERE, RowKey(TASK.position_ms, TASK.digest, 0))
AGAIN = Place(HERE, FIRST.key._replace(position_ms=START_MS + 2_000))
RETRY = Place(NEXT, RowKey(NEXT.bucket_ms + 500, TASK.digest, 1))
CARRY = Carry(FIRST.key, CarryReason.RETRY, NEXT, RETRY.key.position_ms, 1, 0, 0, "no")
# What its first move adds to a version.
LIFE = 1 << ATTEMPT_BITS
PASSED_MS, NOT_YET_MS = AGAIN.key.position_ms + 1, AGAIN.key.position_ms
WISH = Wish("w", NEXT.bucket_ms + 9_000, START_MS + 20_000, 86_400_000)


def one_of_several() -> World:
    """Other instances may hold what this one does not."""
    world = World()
    world.runner.knows_all = False
    return world


def cancelled(task: TaskId) -> Procedure[Cancelled]:
    return end_task(task, Outcome.CANCELLED, b"r")


def asked(world: World, procedure: Procedure[object]) -> list[Request]:
    """All that it asks for, to its end."""
    requests: list[Request] = []
    answer: object = None
    try:
        while True:
            requests.append(procedure.send(answer))
            answer = done(world.runner.perform(requests[-1]))
    except StopIteration:
        return requests


def row(place: Place) -> RowGroup:
    flags = FLAG_CARRIED if place.key.version else 0
    return single_row(place.key, FIRST.key.position_ms, Template("default", "q"), b"", NO_EXTRA, flags)


def told(verified_ms: int, *ended: tuple[Place, Outcome], is_written: bool = True) -> World:
    """So far a holder came who is gone. `is_written`: its writer wrote the second row before he died."""
    world = one_of_several()
    carries = (CARRY,) if (FIRST, Outcome.CARRIED) in ended else ()
    rows = [FIRST, *([AGAIN] if is_written else []), *([RETRY] if carries else [])]
    done(world.store.append([Append(tuple((place.partition, row(place)) for place in rows))]))
    done(world.store.mark([Mark(HERE, FIRST.key, MarkKind.FORWARD, b"%d" % AGAIN.key.position_ms)]))
    for n, (place, outcome) in enumerate(ended):
        entries = settle_entries([(place.key, outcome)])
        done(world.store.settle([SettleRecord(place.partition, 1, n, entries, carries if not n else ())]))
    control = Control(1, "", "", START_MS + 4_000, verified_ms)
    done(world.store.cas([Cas(control_key(HERE), None, control.to_bytes())]))
    return world


def marked(world: World, place: Place, kind: MarkKind = MarkKind.CANCELLED) -> bool:
    [found] = done(world.store.find(place.partition, [(place.key.position_ms, place.key.digest)]))
    return any(mark.kind is kind and mark.key == place.key for mark in found.marks)


ACKED = (FIRST, Outcome.ACKED)
CARRIED = (FIRST, Outcome.CARRIED)
ACKED_THEN = (RETRY, Outcome.ACKED)


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("ended", [[ACKED], [CARRIED, ACKED_THEN]])
def test_it_is_over_when_the_row_that_was_taken_in_is_and_nobody_will_read_the_other(
    ended: list[tuple[Place, Outcome]], is_written: bool
) -> None:
    world = told(PASSED_MS, *ended, is_written=is_written)
    here = run(world, locate(TASK))
    assert (here.place, here.ending.outcome) == (ended[-1][0], Outcome.ACKED)
    assert run(world, cancelled(TASK)) is Cancelled.ALREADY_FIRED
    with pytest.raises(Precondition, match="has ended"):
        run(world, move_task(TASK, WISH))


@pytest.mark.parametrize("ended", [[ACKED], [CARRIED, ACKED_THEN]])
def test_it_lives_where_it_may_still_be_read_and_a_cancel_knows_that_it_was_acked(
    ended: list[tuple[Place, Outcome]],
) -> None:
    world = told(NOT_YET_MS, *ended)
    here = run(world, locate(TASK))
    assert (here.place, here.ending.outcome) == (AGAIN, None)
    with pytest.raises(Precondition, match="has ended"):
        run(world, move_task(TASK, WISH))
    assert run(world, cancelled(TASK)) is Cancelled.ALREADY_FIRED
    assert marked(world, AGAIN)


@pytest.mark.parametrize("verified_ms", [PASSED_MS, NOT_YET_MS])
@pytest.mark.parametrize("is_written", [True, False])
def test_a_cancel_ends_its_next_attempt_and_the_row_that_was_written_again(verified_ms: int, is_written: bool) -> None:
    world = told(verified_ms, CARRIED, is_written=is_written)
    assert run(world, locate(TASK)).place == RETRY
    assert run(world, cancelled(TASK)) is Cancelled.CANCELLED
    assert marked(world, RETRY)
    assert marked(world, AGAIN)
    assert run(world, cancelled(TASK)) is Cancelled.CANCELLED


def test_who_writes_it_once_more_after_its_cancel_takes_that_along() -> None:
    """He was paused before he learned that `verified` has passed his second row."""
    world = told(PASSED_MS, CARRIED)
    assert run(world, cancelled(TASK)) is Cancelled.CANCELLED
    run(world, insert(Append(((HERE, row(AGAIN)),)), START_MS + 5_000))
    assert marked(world, Place(HERE, AGAIN.key._replace(position_ms=START_MS + 5_000)))


def test_a_move_takes_its_next_attempt_and_the_row_that_was_written_again() -> None:
    world = told(NOT_YET_MS, CARRIED)
    assert run(world, move_task(TASK, WISH)) == WISH.fire_at_ms
    assert marked(world, RETRY, MarkKind.MOVED)
    assert marked(world, AGAIN, MarkKind.MOVED)


def test_a_move_of_a_task_that_was_moved_before_takes_both_as_well() -> None:
    world = one_of_several()
    places = [Place(p.partition, p.key._replace(version=p.key.version + LIFE)) for p in (FIRST, AGAIN, RETRY)]
    first, again, retry = places
    carry = CARRY._replace(source=first.key, version=retry.key.version)
    done(world.store.append([Append(tuple((place.partition, row(place)) for place in places))]))
    done(world.store.mark([Mark(HERE, first.key, MarkKind.FORWARD, b"%d" % again.key.position_ms)]))
    done(world.store.settle([SettleRecord(HERE, 1, 0, settle_entries([(first.key, Outcome.CARRIED)]), (carry,))]))
    before = Move(1, MoveState.MOVED, Place(HERE, RowKey(START_MS, TASK.digest, 0)), first, "b", 0, START_MS, 0)
    done(world.store.cas([Cas(move_key(TASK.digest), None, before.to_bytes())]))
    assert run(world, move_task(TASK, WISH)) == WISH.fire_at_ms
    assert marked(world, retry, MarkKind.MOVED)
    assert marked(world, again, MarkKind.MOVED)


def test_a_late_ack_ends_the_row_that_waits_for_it() -> None:
    world = told(NOT_YET_MS, CARRIED)
    assert run(world, end_task(TASK, Outcome.ACKED, b"late ack", 0)) is Cancelled.CANCELLED
    assert marked(world, RETRY, MarkKind.ACKED)


def test_what_its_backlog_does_not_take_any_more_is_found_where_it_was_written_again() -> None:
    """It is parked in a bucket that has been closed for good meanwhile, so it is written again among what is due now:
    FORWARD stands in the backlog, and leads out of it."""
    world = one_of_several()
    backlog = HERE._replace(scope=TASK.scope)
    done(world.store.finish_bucket(TASK.scope, HERE.bucket_ms, finished=False))
    done(world.store.append([Append(((HERE, row(FIRST)),))]))
    done(world.store.settle([SettleRecord(HERE, 1, 0, settle_entries([(FIRST.key, Outcome.PARKED)]), ())]))
    late_ms = NEXT.bucket_ms + 2_000
    run(world, insert_carried(Append(((backlog, row(FIRST)),)), late_ms))
    there = Place(NEXT, FIRST.key._replace(position_ms=late_ms))
    here = run(world, locate(TASK))
    assert (here.place, here.written) == (there, True)
    assert run(world, cancelled(TASK)) is Cancelled.CANCELLED
    assert marked(world, there)


def test_what_was_refused_before_it_was_written_again_is_found_there_as_ever() -> None:
    world = told(PASSED_MS, (FIRST, Outcome.FORWARDED))
    here = run(world, locate(TASK))
    assert (here.place, here.ending.outcome, here.others) == (AGAIN, None, ())
    reads = [each for each in asked(world, locate(TASK)) if isinstance(each, ReadRegister)]
    assert [each.key.table for each in reads] == [Table.MOVES]


def test_a_retry_that_is_written_again_never_goes_where_its_attempt_has_waited_before() -> None:
    """It has ended there, at the end of a lease: nobody would send it, and who looks for it would go in a circle."""
    world = one_of_several()
    waited = Place(HERE, RowKey(START_MS + 4_000, TASK.digest, 1))
    retried = Place(HERE, RowKey(START_MS + 3_000, TASK.digest, 1))
    done(world.store.append([Append(((HERE, row(waited)),))]))
    control = Control(1, "", "", waited.key.position_ms, retried.key.position_ms + 1)
    done(world.store.cas([Cas(control_key(HERE), None, control.to_bytes())]))
    run(world, insert_carried(Append(((HERE, row(retried)),)), START_MS))
    [found] = done(world.store.find(HERE, [(retried.key.position_ms, TASK.digest)]))
    assert [mark.value for mark in found.marks] == [b"%d" % (waited.key.position_ms + 1)]


@pytest.mark.parametrize("outcome", [None, Outcome.ACKED, Outcome.PARKED])
def test_what_was_written_again_and_ended_as_requeued_to_the_first_row_is_found_there(outcome: Outcome | None) -> None:
    """A worker had the first one when the other was due, so the way leads back to it."""
    world = one_of_several()
    again = Place(NEXT, FIRST.key._replace(position_ms=NEXT.bucket_ms + 500))
    backlog = Place(HERE._replace(scope=TASK.scope), FIRST.key)
    places = [FIRST, again, *([backlog] if outcome is Outcome.PARKED else [])]
    done(world.store.append([Append(tuple((place.partition, row(place)) for place in places))]))
    done(
        world.store.mark(
            [
                Mark(
                    (backlog if outcome is Outcome.PARKED else FIRST).partition,
                    FIRST.key,
                    MarkKind.FORWARD,
                    b"%d" % again.key.position_ms,
                )
            ]
        )
    )
    back = Carry(again.key, CarryReason.GUARD, HERE, FIRST.key.position_ms, 0)
    ended = settle_entries([(again.key, Outcome.CARRIED)])
    done(world.store.settle([SettleRecord(NEXT, 1, 0, ended, (back,))]))
    if outcome is not None:
        done(world.store.settle([SettleRecord(HERE, 1, 1, settle_entries([(FIRST.key, outcome)]), ())]))
    here = run(world, locate(TASK))
    assert here.place == (backlog if outcome is Outcome.PARKED else FIRST)
    assert here.ending.outcome is (Outcome.ACKED if outcome is Outcome.ACKED else None)
