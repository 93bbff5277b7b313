"""A task that a repeated call has written into a second bucket: a cancel by either id ends both rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from tests.property.world import START_MS, World, done
from tests.unit.test_procedures import Result, going_on, run
from timerd.core.cancel import KINDS, Cancelled, end_task
from timerd.core.cancel_many import end_many
from timerd.core.insert import Inserted, insert
from timerd.core.lookup import locate
from timerd.core.move import Wish, move_task
from timerd.core.procedures import Find, Procedure, Request, SetMarks
from timerd.model.errors import Precondition
from timerd.model.identity import RowKey, TaskId
from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.registers import Control, control_key
from timerd.model.rows import FLAG_CARRIED, FLAG_LATE, single_row
from timerd.model.settle import Outcome, SettleRecord, settle_entries
from timerd.model.storage import Append, Cas, Mark, MarkKind
from timerd.model.task import NO_EXTRA, Template

BEFORE, AFTER = Partition(0, START_MS, 0), Partition(0, START_MS + BUCKET_MS, 3)
INSTANT_MS = BEFORE.end_ms - 100
# Where the first try wrote it, in time or a moment late, and where the repeat did.
IN_TIME_MS, LATE_MS, REPEATED_MS = INSTANT_MS, INSTANT_MS + 40, AFTER.bucket_ms + 2_000
PREFIX, ITEM = b"p" * 12, 3
SHARDS = {BEFORE.bucket_ms: BEFORE.shard}


def task_at(partition: Partition, position_ms: int) -> TaskId:
    return TaskId(position_ms, partition.shard, 7, 0, PREFIX, ITEM, b"m" * 8)


def written(partition: Partition, position_ms: int) -> Procedure[Inserted]:
    key = RowKey(position_ms, task_at(partition, position_ms).digest, 0)
    flags = FLAG_LATE if position_ms > INSTANT_MS else 0
    row = single_row(key, INSTANT_MS, Template("default", "q"), b"", NO_EXTRA, flags)
    return insert(Append(((partition, row),)), position_ms, anchors=SHARDS if partition == AFTER else {})


def is_cancelled(world: World, partition: Partition, position_ms: int) -> bool:
    """Whoever holds that partition next will not send it."""
    [found] = done(world.store.find(partition, [(position_ms, task_at(partition, position_ms).digest)]))
    return any(mark.kind is MarkKind.CANCELLED for mark in found.marks)


@dataclass
class Said:
    answer: Cancelled | None = None

    def of(self, procedure: Procedure[Cancelled]) -> Procedure[None]:
        self.answer = yield from procedure


def cancelled(task: TaskId) -> Procedure[Cancelled]:
    return end_task(task, Outcome.CANCELLED, b"r")


def does_not_count(world: World) -> World:
    """As a store over replicas, whose cancel of many reads the marks after its own; a store that counts the marks knows
    repeats and has no copies."""
    mark = world.store.mark

    async def uncounted(marks: Sequence[Mark]) -> None:
        await mark(marks)

    world.store.mark = uncounted  # type: ignore[method-assign]
    return world


@pytest.fixture
def world() -> World:
    return does_not_count(World())


@pytest.mark.parametrize("first_ms", [IN_TIME_MS, LATE_MS])
def test_each_of_the_ids_ends_both_rows(world: World, first_ms: int) -> None:
    for task in (task_at(BEFORE, first_ms), task_at(AFTER, REPEATED_MS)):
        world = does_not_count(World())
        run(world, written(BEFORE, first_ms))
        run(world, written(AFTER, REPEATED_MS))
        assert run(world, cancelled(task)) is Cancelled.CANCELLED
        assert is_cancelled(world, AFTER, REPEATED_MS)
        # By the id of the repeat nobody knows where the first row is exactly: one mark is where every holder reads.
        assert is_cancelled(world, BEFORE, first_ms) or is_cancelled(world, BEFORE, BEFORE.end_ms - 1)


def test_a_repeat_of_the_cancel_says_the_same(world: World) -> None:
    run(world, written(BEFORE, IN_TIME_MS))
    run(world, written(AFTER, REPEATED_MS))
    for _ in range(2):
        assert run(world, cancelled(task_at(AFTER, REPEATED_MS))) is Cancelled.CANCELLED


def stopped(world: World, procedure: Procedure[Result], after: int) -> Procedure[Result] | None:
    """It has done so many steps; None: it ended before."""
    try:
        request = next(procedure)
        for _ in range(after):
            request = procedure.send(done(world.performer.perform(request)))
    except StopIteration:
        return None
    return going_on(procedure, request)


def interleaved(first_ms: int, call: Callable[[TaskId], Procedure[object]]) -> Iterator[World]:
    """The repeat is on its way while the call comes with the task's first id. Each is stopped at each of its steps."""
    for is_repeat_stopped in (True, False):
        for after in range(30):
            world = does_not_count(World())
            run(world, written(BEFORE, first_ms))
            repeat, other = written(AFTER, REPEATED_MS), call(task_at(BEFORE, first_ms))
            slow, fast = (repeat, other) if is_repeat_stopped else (other, repeat)
            rest = stopped(world, slow, after)
            if rest is None:
                break
            run(world, fast)
            run(world, rest)
            yield world


@pytest.mark.parametrize("first_ms", [IN_TIME_MS, LATE_MS])
def test_whoever_comes_second_sees_the_other_wherever_that_one_is(first_ms: int) -> None:
    ends = [is_cancelled(world, AFTER, REPEATED_MS) for world in interleaved(first_ms, cancelled)]
    assert all(ends), ends
    assert len(ends) > 10


@pytest.mark.parametrize("first_ms", [IN_TIME_MS, LATE_MS])
def test_a_repeat_that_comes_after_the_cancel_writes_what_is_cancelled(world: World, first_ms: int) -> None:
    run(world, written(BEFORE, first_ms))
    assert run(world, end_many([task_at(BEFORE, first_ms)], Outcome.CANCELLED, b"r")) == [Cancelled.CANCELLED]
    run(world, written(AFTER, REPEATED_MS))
    assert is_cancelled(world, AFTER, REPEATED_MS)
    assert run(world, locate(task_at(AFTER, REPEATED_MS))).rows is not None


@pytest.mark.parametrize("first_ms", [IN_TIME_MS, LATE_MS])
def test_a_repeat_that_comes_while_many_are_cancelled_sends_its_task_the_long_way(world: World, first_ms: int) -> None:
    """Or it meets the mark, whatever the cancel of many has done by then."""
    for after in range(12):
        world = does_not_count(World())
        run(world, written(BEFORE, first_ms))
        task = task_at(BEFORE, first_ms)
        rest = stopped(world, end_many([task], Outcome.CANCELLED, b"r"), after)
        run(world, written(AFTER, REPEATED_MS))
        said = [Cancelled.CANCELLED] if rest is None else run(world, rest)
        assert is_cancelled(world, AFTER, REPEATED_MS) or said == [None], after
        if rest is None:
            break


def test_a_task_that_lives_elsewhere_by_then_says_so_at_home(world: World) -> None:
    """It failed once and was carried on; the mark of its cancel is where it waits now."""
    run(world, written(BEFORE, IN_TIME_MS))
    home = RowKey(IN_TIME_MS, task_at(BEFORE, IN_TIME_MS).digest, 0)
    onward = Mark(BEFORE, home, MarkKind.FORWARD, b"%d" % (IN_TIME_MS + 50))
    done(world.store.mark([onward]))
    row = single_row(
        home._replace(position_ms=IN_TIME_MS + 50), INSTANT_MS, Template("default", "q"), b"", NO_EXTRA, FLAG_CARRIED
    )
    done(world.store.append([Append(((BEFORE, row),))]))
    assert run(world, cancelled(task_at(BEFORE, IN_TIME_MS))) is Cancelled.CANCELLED
    run(world, written(AFTER, REPEATED_MS))
    assert is_cancelled(world, AFTER, REPEATED_MS)


def test_what_comes_in_time_costs_nothing_more(world: World) -> None:
    requests = asked(world, written(BEFORE, IN_TIME_MS))
    assert not any(isinstance(request, Find | SetMarks) for request in requests)
    requests = asked(world, cancelled(task_at(BEFORE, IN_TIME_MS)))
    assert [len(request.marks) for request in requests if isinstance(request, SetMarks)] == [1]
    assert sum(isinstance(request, Find) for request in requests) == 2


def asked(world: World, procedure: Procedure[object]) -> list[Request]:
    """All that it asks for, to its end."""
    requests: list[Request] = []
    answer: object = None
    try:
        while True:
            requests.append(procedure.send(answer))
            answer = done(world.performer.perform(requests[-1]))
    except StopIteration:
        return requests


@pytest.mark.parametrize("outcome", [Outcome.FORWARDED, Outcome.MOVED])
@pytest.mark.parametrize(("partition", "position_ms"), [(BEFORE, LATE_MS), (AFTER, REPEATED_MS)])
def test_a_cancel_ends_where_a_copy_left_its_place_and_nothing_leads_on(
    world: World, outcome: Outcome, partition: Partition, position_ms: int
) -> None:
    """The holder refused the first row, and its writer died before it said where it would write it again; or the task
    was moved by the id of the repeat, which took the first row with it."""
    run(world, written(BEFORE, IN_TIME_MS))
    run(world, written(partition, position_ms))
    first, repeated = task_at(BEFORE, IN_TIME_MS), task_at(partition, position_ms)
    over = [(RowKey(IN_TIME_MS, first.digest, 0), outcome)]
    done(world.store.settle([SettleRecord(BEFORE, 1, 0, settle_entries(over), ())]))
    said = Said()
    assert stopped(world, said.of(cancelled(repeated)), 300) is None
    assert said.answer is Cancelled.CANCELLED
    assert is_cancelled(world, partition, position_ms)


@pytest.mark.parametrize("outcome", [Outcome.CANCELLED, Outcome.ACKED])
def test_what_was_refused_where_it_lives_ends_there_and_is_written_again_as_that(
    world: World, outcome: Outcome
) -> None:
    """Its writer died before it said where it would write it, and somebody else does later what he was about to do."""
    run(world, written(BEFORE, IN_TIME_MS))
    first, said = task_at(BEFORE, IN_TIME_MS), Said()
    over = [(RowKey(IN_TIME_MS, first.digest, 0), Outcome.FORWARDED)]
    closed = Control(5, "", "", BEFORE.end_ms, BEFORE.end_ms).to_bytes()
    done(world.store.settle([SettleRecord(BEFORE, 1, 0, settle_entries(over), ())]))
    assert stopped(world, said.of(end_task(first, outcome, b"r")), 300) is None
    assert said.answer is Cancelled.CANCELLED
    done(world.store.cas([Cas(control_key(BEFORE), None, closed)]))
    world.machines.clear()
    row = single_row(over[0][0], INSTANT_MS, Template("default", "q"), b"", NO_EXTRA, FLAG_CARRIED)
    run(world, insert(Append(((BEFORE, row),)), REPEATED_MS))
    there = run(world, locate(first))
    assert there.place.key.position_ms == REPEATED_MS
    assert there.mark(KINDS[outcome]) == b"r"


def test_a_copy_that_is_moved_while_its_task_is_cancelled_ends_where_it_lives_then() -> None:
    """By its own id, which the cancel does not have: `moves` is of all of them."""
    first, moved = task_at(BEFORE, IN_TIME_MS), 0
    for after in range(40):
        world, said = does_not_count(World()), Said()
        run(world, written(BEFORE, IN_TIME_MS))
        run(world, written(AFTER, REPEATED_MS))
        rest = stopped(world, said.of(cancelled(task_at(AFTER, REPEATED_MS))), after)
        if rest is None:
            break
        try:
            run(world, move_task(first, Wish("w", REPEATED_MS + 5_000, world.now_ms, 86_400_000)))
        except Precondition:
            continue
        moved += 1
        assert stopped(world, rest, 300) is None
        assert said.answer is Cancelled.CANCELLED
        here = run(world, locate(first))
        assert here.place.key.version
        assert here.mark(MarkKind.CANCELLED) is not None, after
    assert moved > 2
