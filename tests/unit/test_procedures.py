"""Insert, look-up, cancel, move and keys against a store in memory; tests/property/world.py is the shell."""

from __future__ import annotations

import pytest

from tests.property.world import QUEUES, START_MS, Task, World, done
from tests.unit.procedure_rig import NAME, Result, claimed, delivered, going_on, run, scheduled, up_to, with_key, world
from timerd.core.partition.holding import Asked
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.protocol import keys, without_key
from timerd.core.protocol.cancel import Cancelled, end_task
from timerd.core.protocol.cancel_many import EndedMany, end_many
from timerd.core.protocol.insertion import Inserted, closing_of, insert, insert_repeated
from timerd.core.protocol.keys import Conflict, activate, reserve, resolve
from timerd.core.protocol.lookup import Located, locate
from timerd.core.protocol.move import Wish, move_task
from timerd.core.protocol.procedures import (
    AppendRows,
    AskToEnd,
    AskToEndMany,
    Ending,
    FindSettled,
    FindSettledMany,
    FindVacant,
    HolderAnswer,
    LookAt,
    MarkAndLook,
    Procedure,
    ReadRegister,
    Request,
    SetMarks,
    Together,
    TryCas,
)
from timerd.core.protocol.request_memory import is_overtaken
from timerd.model.errors import Aborted, Overtaken, Precondition, StoreUnknown
from timerd.model.identity import RowKey, TaskId
from timerd.model.outcomes import MARK_OF_OUTCOME
from timerd.model.partition import Partition
from timerd.model.registers import Control, KeyEntry, Move, MoveState, Place, control_key, move_key
from timerd.model.rows import concat, single_row
from timerd.model.settle import CarryReason, Outcome, SettleRecord, settle_entries
from timerd.model.storage import Append, Appended, Cas, CasResult, CasStatus, MarkKind
from timerd.model.task import NO_EXTRA, Template
from timerd.testing.contracts.build import digest, spread

__all__ = ["world"]


def rest_of(procedure: Procedure[Result]) -> Procedure[Result]:
    """After a request that was answered with nothing."""
    return (yield from going_on(procedure, procedure.send(None)))


def wish(world: World, delay_ms: int, request: str = "r") -> Wish:
    return Wish(request, world.now_ms + delay_ms, world.now_ms, 86_400_000)


def test_a_row_below_closing_is_written_again_and_found_from_its_old_place(world: World) -> None:
    [first] = scheduled(world, 0)
    delivered(world, first)
    world.ack(first)
    for _ in range(4):
        world.settle_down()
        world.advance(1_000)
    [late] = scheduled(world, -4_500)
    assert late.id.position_ms == world.now_ms
    old = late.id._replace(position_ms=world.now_ms - 4_500)
    assert run(world, locate(old)).place.key.position_ms == world.now_ms


def test_what_its_holder_is_about_to_carry_on_is_not_written_again_beside_that(world: World) -> None:
    """It is offered once more with what is over and forgotten, so all of it is refused."""
    over, held = scheduled(world, 0, 100)
    delivered(world, over)
    world.advance(100)
    delivered(world, held)
    assert held.key is not None
    world.ack(over)
    for _ in range(4):
        world.settle_down()
        world.advance(1_000)
    machine = world.machines[held.id.home]
    machine.guard({held.key: world.now_ms + 60_000}, world.now_ms, CarryReason.GUARD, was_sent=False)
    places = [(task.id.position_ms, task.id.digest) for task in (over, held)]
    rows = concat([found.rows for found in done(world.store.find(held.id.home, places))])
    assert run(world, insert(Append(((held.id.home, rows),)), world.now_ms)).moved == {}


def test_late_rows_of_two_partitions_all_arrive_in_one(world: World) -> None:
    """Each of them was written below the end of its closed partition."""
    done(world.store.finish_bucket(0, START_MS, finished=False))
    done(world.store.finish_bucket(0, START_MS + 300_000, finished=False))
    world.now_ms = START_MS + 700_000
    tasks = scheduled(world, -600_000, -300_000)
    for task in tasks:
        here = run(world, locate(task.id))
        assert here.written
        assert here.place.partition.bucket_ms == START_MS + 600_000


def test_closing_of_a_partition_without_a_control_row() -> None:
    partition = Partition(0, START_MS, 0)
    assert closing_of(partition, Appended({partition: None})) == START_MS
    flagged = Appended({partition: None}, finishing=frozenset([partition]))
    assert closing_of(partition, flagged) == partition.end_ms


def test_a_far_row_whose_bucket_is_finishing_is_written_again(world: World) -> None:
    done(world.store.finish_bucket(0, START_MS, finished=False))
    message = spread("m", [START_MS + 5, START_MS + 4_000_000])
    said = run(world, insert(message, START_MS + 900_000))
    assert said.moved == {(START_MS + 5, digest("m", 0)): START_MS + 900_000}


def test_a_far_row_below_closing_is_written_again_where_nobody_takes_it(world: World) -> None:
    control = Control(1, "gone", "", closing_ms=START_MS + 1_000, verified_ms=START_MS)
    done(world.store.cas([Cas(control_key(Partition(0, START_MS, 0)), None, control.to_bytes())]))
    message = spread("m", [START_MS + 5, START_MS + 2_000, START_MS + 4_000_000])
    said = run(world, insert(message, START_MS + 500))
    assert said.moved == {(START_MS + 5, digest("m", 0)): START_MS + 1_000}


def test_a_repeat_is_answered_as_the_first_time(world: World) -> None:
    partition = Partition(0, START_MS, 0)
    key = RowKey(START_MS + 50_000, b"d" * 16, 0)
    message = Append(((partition, single_row(key, key.position_ms, Template("n", "q"), b"", NO_EXTRA, 0)),), b"p", b"x")
    assert run(world, insert(message, world.now_ms)) == Inserted()
    assert run(world, insert(message, world.now_ms)).repeated == b"x"


@pytest.mark.parametrize("held", [True, False])
def test_cancel_tells_the_truth(world: World, held: bool) -> None:
    [task] = scheduled(world, 30_000 if held else 250_000_000)
    assert (task.id.home in world.machines) is held
    assert run(world, end_task(task.id, Outcome.CANCELLED, b"mine")) is Cancelled.CANCELLED
    assert run(world, end_task(task.id, Outcome.CANCELLED, b"mine")) is Cancelled.CANCELLED
    assert run(world, end_task(task.id, Outcome.CANCELLED, b"other")) is Cancelled.ALREADY_CANCELLED
    unknown = task.id._replace(item=99)
    assert run(world, end_task(unknown, Outcome.CANCELLED, b"mine")) is Cancelled.NOT_FOUND


def test_cancel_of_what_is_with_a_worker_or_over(world: World) -> None:
    open_task, acked = scheduled(world, 0, 0)
    delivered(world, open_task)
    assert run(world, end_task(open_task.id, Outcome.CANCELLED, b"r")) is Cancelled.IN_FLIGHT
    world.ack(acked)
    world.settle_down()
    assert run(world, end_task(acked.id, Outcome.CANCELLED, b"r")) is Cancelled.ALREADY_FIRED


def test_a_cancel_that_only_the_memory_of_a_dead_holder_had_carried_out_is_not_taken_for_an_end_by_delivery(
    world: World,
) -> None:
    """He dies between the two looks of another cancel; whoever comes after him reads the mark."""
    [task] = scheduled(world, 1_000)
    assert run(world, end_task(task.id, Outcome.CANCELLED, b"first")) is Cancelled.CANCELLED
    other = end_task(task.id, Outcome.CANCELLED, b"other")
    request = up_to(world, other, ReadRegister, times=2)
    world.crash()
    assert run(world, going_on(other, request)) is Cancelled.ALREADY_CANCELLED


def test_a_task_on_its_way_to_the_next_attempt_can_be_cancelled(world: World) -> None:
    """Until the record is durable it is where it was; then the record says where it goes, and the row is not there
    yet."""
    [task] = scheduled(world, 0)
    delivered(world, task)
    [machine] = world.machines.values()
    home = RowKey(task.id.position_ms, task.id.digest, 0)
    world.nack(task, 5_000)
    before: Located = run(world, locate(task.id))
    assert (before.written, before.place.key) == (True, home)
    while not machine.has_left(home):
        world.run([0])
    here: Located = run(world, locate(task.id))
    assert not here.written
    assert here.place.key.version == 1
    with pytest.raises(Aborted):
        run(world, move_task(task.id, wish(world, 1_000)))
    assert run(world, end_task(task.id, Outcome.CANCELLED, b"r")) is Cancelled.CANCELLED
    world.settle_down()
    world.advance(6_000)
    world.settle_down()
    world.take(QUEUES[0], 10)
    assert task.deliveries == 1


def test_a_carry_that_verified_has_passed_is_found_in_the_records(world: World) -> None:
    [task] = scheduled(world, 0)
    delivered(world, task)
    world.nack(task, 40_000)
    for _ in range(5):
        world.settle_down()
        world.advance(1_000)
    assert run(world, end_task(task.id, Outcome.CANCELLED, b"r")) is Cancelled.CANCELLED


@pytest.mark.parametrize("outcome", MARK_OF_OUTCOME)
def test_an_end_that_its_holder_alone_knew_of_is_written_down_where_the_task_lives_when_he_is_gone(
    world: World, outcome: Outcome
) -> None:
    """By a mark on the place that it was carried from, which the next holder does not read; no record says so yet."""
    [task] = scheduled(world, 0)
    delivered(world, task)
    ending = end_task(task.id, outcome, b"r")
    mark = up_to(world, ending, SetMarks)
    done(world.runner.perform(mark))
    world.nack(task, 40_000)
    for _ in range(5):
        world.settle_down()
        world.advance(1_000)
    assert run(world, locate(task.id)).ending.outcome is outcome
    rest = going_on(ending, mark)
    looks_again = up_to(world, rest, ReadRegister, 2)
    world.crash()
    assert run(world, going_on(rest, looks_again)) is Cancelled.CANCELLED
    world.reconcile()
    world.settle_down()
    world.advance(60_000)
    world.settle_down()
    world.take(QUEUES[0], 10)
    assert task.deliveries == 1


def test_many_are_cancelled_with_few_requests(world: World) -> None:
    """Those that are over, or nowhere, are left to the long way."""
    tasks = scheduled(world, 30_000, 40_000, 0)
    delivered(world, tasks[2])
    run(world, end_task(tasks[1].id, Outcome.CANCELLED, b"other"))
    ids = [t.id for t in tasks] + [tasks[0].id._replace(item=99)]
    assert run(world, end_many(ids, Outcome.CANCELLED, b"r")).said == [
        Cancelled.CANCELLED,
        None,
        Cancelled.IN_FLIGHT,
        None,
    ]


@pytest.mark.parametrize("knows_all", [True, False])
def test_a_mark_that_came_after_the_task_was_moved_away_is_ours_all_the_same(world: World, knows_all: bool) -> None:
    """The holder of both places has met it, so the task is over before it was looked for where it was moved to."""
    [task] = scheduled(world, 30_000)
    procedure = end_many([task.id], Outcome.CANCELLED, b"r")
    request: Request = next(procedure)
    world.runner.knows_all = knows_all
    while not isinstance(request, SetMarks | MarkAndLook):
        request = procedure.send(done(world.runner.perform(request)))
    run(world, move_task(task.id, wish(world, 1_000)))
    done(world.runner.perform(request))
    for _ in range(4):
        world.settle_down()
        world.advance(1_000)
    world.take(QUEUES[0], 10)
    world.settle_down()
    assert task.deliveries == 0
    assert run(world, end_task(task.id, Outcome.CANCELLED, b"r")) is Cancelled.CANCELLED
    assert run(world, end_task(task.id, Outcome.CANCELLED, b"other")) is Cancelled.ALREADY_CANCELLED


def far(world: World) -> tuple[Task, list[Request], Procedure[EndedMany]]:
    """A task in a bucket that nobody holds, and a cancel of it that notes what it asks for."""
    [task] = scheduled(world, 3_600_000)
    assert task.id.home not in world.machines
    asked: list[Request] = []

    def noted() -> Procedure[EndedMany]:
        procedure = end_many([task.id], Outcome.CANCELLED, b"r")
        request = next(procedure)
        while True:
            asked.append(request)
            answer = yield request
            try:
                request = procedure.send(answer)
            except StopIteration as over:
                return over.value  # type: ignore[no-any-return]

    return task, asked, noted()


def test_where_nobody_holds_the_partition_a_cancel_takes_two_trips_to_the_store(world: World) -> None:
    _, asked, cancel = far(world)
    assert run(world, cancel).said == [Cancelled.CANCELLED]
    assert [type(request) for request in asked] == [
        FindVacant, Together, FindVacant, MarkAndLook, FindVacant, AskToEndMany
    ]  # fmt: skip
    assert [type(request) for request in asked[1].requests] == [LookAt]  # type: ignore[union-attr]


def test_where_somebody_came_and_went_meanwhile_the_records_are_read_once_more(world: World) -> None:
    """It may have fired after the look and before it was asked who holds it."""
    task, asked, cancel = far(world)
    request = up_to(world, cancel, MarkAndLook)
    answer = done(world.runner.perform(request))
    world.machines[task.id.home] = PartitionMachine(task.id.home, world.settings, world.memory)
    del world.machines[task.id.home]
    world.store._partitions[task.id.home].records[1, 1] = SettleRecord(
        task.id.home, 1, 1, settle_entries([(RowKey(task.id.position_ms, task.id.digest, 0), Outcome.ACKED)]), ()
    )
    assert run(world, going_on(cancel, cancel.send(answer))).said == [None], "the long way says how it ended"
    assert isinstance(asked[-1], Together)
    assert [type(request) for request in asked[-1].requests] == [FindSettledMany]


def test_what_has_settled_before_the_mark_is_not_cancelled(world: World) -> None:
    task, _, cancel = far(world)
    request = up_to(world, cancel, MarkAndLook)
    world.store._partitions[task.id.home].records[1, 1] = SettleRecord(
        task.id.home, 1, 1, settle_entries([(RowKey(task.id.position_ms, task.id.digest, 0), Outcome.ACKED)]), ()
    )
    assert run(world, going_on(cancel, request)).said == [None]


def test_a_move_and_its_repeat(world: World) -> None:
    [task] = scheduled(world, 30_000)
    asked = wish(world, 90_000)
    assert run(world, move_task(task.id, asked)) == asked.fire_at_ms
    assert run(world, move_task(task.id, asked)) == asked.fire_at_ms
    assert run(world, locate(task.id)).place.key == RowKey(asked.fire_at_ms, task.id.digest, 1 << 16)
    assert run(world, end_task(task.id, Outcome.CANCELLED, b"r")) is Cancelled.CANCELLED
    with pytest.raises(Precondition, match="cancelled"):
        run(world, move_task(task.id, wish(world, 1, "other")))


def test_a_late_ack_does_not_follow_its_task_into_the_life_that_a_move_gave_it(world: World) -> None:
    """The move comes just before the ack writes its mark: what it promised fires."""
    [task] = scheduled(world, 60_000)
    ack = end_task(task.id, Outcome.ACKED, b"late ack", generation=0)
    mark = up_to(world, ack, SetMarks)
    run(world, move_task(task.id, wish(world, 120_000)))
    assert run(world, going_on(ack, mark)) is Cancelled.ALREADY_FIRED
    here = run(world, locate(task.id))
    assert here.place.key.position_ms == world.now_ms + 120_000
    assert (here.ending.outcome, here.first(MarkKind.ACKED)) == (None, None)


def test_what_a_late_ack_has_marked_is_over_and_cannot_be_moved(world: World) -> None:
    """No record says so yet: whoever holds it next reads the mark."""
    [task] = scheduled(world, 60_000)
    ack = end_task(task.id, Outcome.ACKED, b"late ack", generation=0)
    mark = up_to(world, ack, SetMarks)
    done(world.runner.perform(mark))
    with pytest.raises(Precondition, match="acked"):
        run(world, move_task(task.id, wish(world, 120_000)))
    assert run(world, going_on(ack, mark)) is Cancelled.CANCELLED


def test_what_is_found_of_an_ack_of_the_old_row_leaves_the_new_one_alive(world: World) -> None:
    """The mark came after the move, both rows are in one partition, and its next holder reads both."""
    [task] = scheduled(world, 60_000)
    ack = end_task(task.id, Outcome.ACKED, b"late ack", generation=0)
    mark = up_to(world, ack, SetMarks)
    task.fire_at_ms = {run(world, move_task(task.id, wish(world, 90_000)))}
    done(world.runner.perform(mark))
    world.crash()
    world.reconcile()
    world.settle_down()
    world.advance(91_000)
    world.settle_down()
    world.take(QUEUES[0], 10)
    assert task.deliveries == 1


def test_what_is_with_a_worker_is_not_moved(world: World) -> None:
    [task] = scheduled(world, 0)
    delivered(world, task)
    with pytest.raises(Precondition, match="with a worker"):
        run(world, move_task(task.id, wish(world, 1_000)))


def test_whoever_meets_an_undecided_move_says_that_it_failed(world: World) -> None:
    [task] = scheduled(world, 30_000)
    source = Place(task.id.home, RowKey(task.id.position_ms, task.id.digest, 0))
    move = Move(1, MoveState.MOVING, source, source, "r", 0, 0)
    done(world.store.cas([Cas(move_key(task.id.digest), None, move.to_bytes())]))
    assert run(world, locate(task.id)).place == source
    [stored] = done(world.store.read([move_key(task.id.digest)]))
    assert stored is not None
    assert Move.from_bytes(stored).state is MoveState.FAILED


@pytest.mark.parametrize("is_done", [True, False])
def test_a_decided_move_whose_answer_was_lost_is_known_by_the_next_one(world: World, is_done: bool) -> None:
    """The next one has started by the time the register is read: it starts where the task lived."""
    [task] = scheduled(world, 30_000)
    first, name = move_task(task.id, wish(world, 90_000, "first")), move_key(task.id.digest)
    request = next(first)
    while not (isinstance(request, TryCas) and Move.from_bytes(request.change.value).state is MoveState.MOVED):
        request = first.send(done(world.runner.perform(request)))
    if is_done:
        done(world.runner.perform(request))
    run(world, move_task(task.id, wish(world, 95_000, "second")))
    [now] = done(world.store.read([name]))
    request = first.send(CasResult(CasStatus.UNKNOWN, now))
    answers = going_on(first, request)
    if is_done:
        assert run(world, answers) == world.now_ms + 90_000
    else:
        with pytest.raises(Aborted):
            run(world, answers)


def test_a_decided_move_that_nothing_shows_any_more_has_an_unknown_outcome(world: World) -> None:
    [task] = scheduled(world, 30_000)
    first = move_task(task.id, wish(world, 90_000, "first"))
    request = next(first)
    while not (isinstance(request, TryCas) and Move.from_bytes(request.change.value).state is MoveState.MOVED):
        request = first.send(done(world.runner.perform(request)))
    done(world.runner.perform(request))
    for delay_ms in (95_000, 100_000):
        run(world, move_task(task.id, wish(world, delay_ms, f"later {delay_ms}")))
    [now] = done(world.store.read([move_key(task.id.digest)]))
    with pytest.raises(StoreUnknown):
        run(world, going_on(first, first.send(CasResult(CasStatus.UNKNOWN, now))))


# -- keys ---------------------------------------------------------------------------------------------------------


def test_a_key_is_kept_while_its_task_lives(world: World) -> None:
    old, new = scheduled(world, 30_000, 40_000)
    with_key(world, old)
    assert run(world, resolve(NAME)) == old.id
    assert claimed(world, new.id, Conflict.KEEP).taken_by == old.id
    assert claimed(world, new.id, Conflict.REJECT).taken_by == old.id
    assert claimed(world, old.id, Conflict.REJECT).taken_by is None


def test_a_repeat_leaves_the_key_alone_also_while_another_call_takes_it(world: World) -> None:
    """What a repeat reserved anew it would lose to that call, and say that it has lost what it was told it has."""
    old, new = scheduled(world, 30_000, 40_000)
    with_key(world, old)
    assert claimed(world, old.id, Conflict.REPLACE).had_it
    later = claimed(world, new.id, Conflict.REPLACE)
    assert claimed(world, old.id, Conflict.REPLACE).had_it
    assert run(world, activate(NAME, new.id, later)) is None
    assert claimed(world, old.id, Conflict.REPLACE).had_it
    assert run(world, resolve(NAME)) == new.id


def test_a_try_that_was_held_up_does_not_say_that_an_answered_task_lost_its_key(world: World) -> None:
    """Another try of the call went on to the end, and a later call has replaced its task since."""
    old, new = scheduled(world, 30_000, 40_000)
    held_up = claimed(world, old.id, Conflict.REPLACE)
    with_key(world, old)
    later = claimed(world, new.id, Conflict.REPLACE)
    assert run(world, activate(NAME, old.id, held_up)) is None
    assert run(world, activate(NAME, new.id, later)) is None
    assert claimed(world, old.id, Conflict.REPLACE).had_it
    assert run(world, resolve(NAME)) == new.id


@pytest.mark.parametrize(
    ("asked_ms", "latest_ms", "now_ms", "is_so"),
    [
        (0, 9_000, 20_000, False),  # nobody knows when it was made
        (5_000, 4_000, 20_000, False),  # it is the later one
        (5_000, 5_500, 5_600, False),  # two clocks
        (5_000, 5_500, 9_000, True),  # it comes long after it was made
        (5_000, 9_000, 5_100, True),  # by a clock that was read before it stood still
    ],
)
def test_a_call_is_overtaken_where_it_was_held_up(asked_ms: int, latest_ms: int, now_ms: int, is_so: bool) -> None:
    assert is_overtaken(asked_ms, latest_ms, now_ms) is is_so


def test_a_moved_task_keeps_its_key(world: World) -> None:
    old, new = scheduled(world, 30_000, 40_000)
    with_key(world, old)
    run(world, move_task(old.id, wish(world, 35_000)))
    assert claimed(world, new.id, Conflict.KEEP).taken_by == old.id


def test_a_key_is_free_when_its_task_is_over_or_was_never_written(world: World) -> None:
    old, new = scheduled(world, 30_000, 40_000)
    with_key(world, old)
    run(world, end_task(old.id, Outcome.CANCELLED, b"r"))
    assert claimed(world, new.id._replace(item=98), Conflict.KEEP).taken_by is None
    assert claimed(world, new.id, Conflict.KEEP).taken_by is None


def test_a_key_is_free_only_when_no_crash_can_bring_its_task_back(world: World) -> None:
    old, new = scheduled(world, 30_000, 40_000)
    with_key(world, old)
    asked = up_to(world, reserve(NAME, new.id, Conflict.KEEP), FindSettled)
    assert isinstance(asked, FindSettled)
    assert asked.durable


def test_replace_cancels_the_old_task(world: World) -> None:
    old, new = scheduled(world, 30_000, 40_000)
    with_key(world, old)
    held = claimed(world, new.id, Conflict.REPLACE)
    assert held.replaces == (old.id,)
    assert run(world, activate(NAME, new.id, held)) is None
    assert run(world, end_task(old.id, Outcome.CANCELLED, b"r")) is Cancelled.ALREADY_CANCELLED
    assert run(world, resolve(NAME)) == new.id


def test_who_takes_the_key_over_and_dies_leaves_the_old_task_to_the_repeat(world: World) -> None:
    old, new = scheduled(world, 30_000, 40_000)
    with_key(world, old)
    claimed(world, new.id, Conflict.REPLACE)
    again = claimed(world, new.id, Conflict.REPLACE)
    assert again.replaces == (old.id,)
    assert run(world, activate(NAME, new.id, again)) is None
    assert run(world, end_task(old.id, Outcome.CANCELLED, b"r")) is Cancelled.ALREADY_CANCELLED


def test_who_takes_the_key_over_and_dies_leaves_it_with_the_old_task(world: World) -> None:
    old, new = scheduled(world, 30_000, 40_000)
    with_key(world, old)
    claimed(world, new.id._replace(item=98), Conflict.REPLACE)
    assert claimed(world, new.id, Conflict.KEEP).taken_by == old.id
    assert claimed(world, new.id, Conflict.REPLACE).replaces == (old.id,)


def test_a_key_names_its_task_by_the_place_where_it_is(world: World) -> None:
    """Of two tries of a call that is late one has stored it, and each has reserved the key for where it is by its own
    clock."""
    [task] = scheduled(world, 30_000)
    elsewhere = task.id._replace(position_ms=task.id.position_ms + 7)
    held = claimed(world, elsewhere, Conflict.KEEP)
    assert run(world, activate(NAME, task.id, held)) is None
    assert run(world, resolve(NAME)) == task.id


def test_a_key_names_its_task_while_a_repeat_looks_for_its_place(world: World) -> None:
    [task] = scheduled(world, 30_000)
    elsewhere = task.id._replace(position_ms=task.id.position_ms + 7)
    claimed(world, task.id, Conflict.KEEP)
    claimed(world, elsewhere, Conflict.KEEP)
    assert run(world, resolve(NAME)) == task.id
    assert run(world, activate(NAME, task.id, claimed(world, task.id, Conflict.KEEP))) is None
    claimed(world, elsewhere, Conflict.KEEP)
    assert run(world, resolve(NAME)) == task.id


def test_tries_of_one_call_that_reserve_in_turn_take_the_key_from_nobody(world: World) -> None:
    """Each notes where it would store the task, so that the other one finds another value than its own."""
    (task,) = scheduled(world, 30_000)
    first = claimed(world, task.id, Conflict.KEEP)
    second = claimed(world, task.id._replace(position_ms=task.id.position_ms + 7), Conflict.KEEP)
    assert first.stored != second.stored
    assert run(world, activate(NAME, task.id, first)) is None
    assert run(world, activate(NAME, task.id, second)) is None
    assert run(world, locate(task.id)).first(MarkKind.CANCELLED) is None
    assert run(world, resolve(NAME)) == task.id


def test_whoever_gets_the_key_ends_all_that_the_tries_of_its_call_were_to_replace(world: World) -> None:
    old, task = scheduled(world, 30_000, 40_000)
    held = claimed(world, task.id, Conflict.REPLACE)
    entry = KeyEntry.from_bytes(held.stored)
    anew = KeyEntry(entry.task_id, False, (str(old.id),), entry.asked_ms, entry.done, entry.has_older).to_bytes()
    done(world.runner.perform(TryCas(Cas(NAME, held.stored, anew))))
    assert run(world, activate(NAME, task.id, held)) is None
    assert run(world, locate(old.id)).first(MarkKind.CANCELLED) is not None
    assert run(world, resolve(NAME)) == task.id


def test_a_task_that_was_replaced_before_its_call_was_answered_was_stored(world: World) -> None:
    """Another try of the call may have said so."""
    task, other = scheduled(world, 30_000, 40_000)
    held = claimed(world, task.id, Conflict.REJECT)
    assert run(world, activate(NAME, other.id, claimed(world, other.id, Conflict.REPLACE))) is None
    assert run(world, activate(NAME, task.id, claimed(world, task.id, Conflict.REJECT))) is None
    assert run(world, activate(NAME, task.id, held)) is None
    assert run(world, resolve(NAME)) == other.id


def test_a_try_that_was_held_up_on_its_way_takes_the_key_from_no_later_call(world: World) -> None:
    """It began in time, and the store was slow."""
    late, later = scheduled(world, 30_000, 40_000)
    clock_ms = [10_100]
    held_up = reserve(NAME, late.id, Conflict.REPLACE, lambda: clock_ms[0], 10_000)
    change = up_to(world, held_up, TryCas)
    assert (
        run(world, activate(NAME, later.id, run(world, reserve(NAME, later.id, Conflict.KEEP, asked_ms=10_900))))
        is None
    )
    clock_ms[0] = 20_000
    refused = run(world, going_on(held_up, held_up.send(done(world.runner.perform(change))))).refused
    assert refused is not None
    assert refused.reason == "OVERTAKEN"
    assert run(world, resolve(NAME)) == later.id


def test_a_task_has_had_the_key_though_its_repeat_named_another_place(world: World) -> None:
    """It ended before the later call took the key."""
    old, new = scheduled(world, 30_000, 40_000)
    with_key(world, old)
    run(world, end_task(old.id, Outcome.CANCELLED, b"r"))
    claimed(world, old.id._replace(position_ms=old.id.position_ms + 7), Conflict.REPLACE)
    assert run(world, activate(NAME, new.id, claimed(world, new.id, Conflict.REPLACE))) is None
    assert claimed(world, old.id, Conflict.REPLACE).had_it


@pytest.mark.parametrize("is_late", [False, True])
def test_a_move_that_was_held_up_on_its_way_undoes_no_later_one(world: World, is_late: bool) -> None:
    """It began in time, and the store was slow."""
    (task,) = scheduled(world, 30_000)
    now_ms = world.now_ms
    later = Wish("later", now_ms + 90_000, now_ms, 86_400_000, asked_ms=now_ms - 9_100)
    run(world, move_task(task.id, later))
    looked_ms = now_ms if is_late else now_ms - 9_900
    first = Wish("first", now_ms + 95_000, now_ms - 9_900, 86_400_000, None, now_ms - 10_000, lambda: looked_ms)
    if is_late:
        with pytest.raises(Overtaken):
            run(world, move_task(task.id, first))
    else:
        assert run(world, move_task(task.id, first)) == now_ms + 95_000


def test_who_was_overtaken_once_stays_so(world: World) -> None:
    """Though a call that was made before it gets the key after that."""
    late, later, older = scheduled(world, 30_000, 40_000, 50_000)
    now_ms = 100_000
    held = run(world, reserve(NAME, later.id, Conflict.REPLACE, lambda: now_ms, 20_000))
    assert run(world, activate(NAME, later.id, held)) is None
    refused = run(world, reserve(NAME, late.id, Conflict.REPLACE, lambda: now_ms, 10_000)).refused
    assert refused is not None
    run(world, end_task(later.id, Outcome.CANCELLED, b"r"))
    held = run(world, reserve(NAME, older.id, Conflict.KEEP, lambda: now_ms, 5_000))
    assert run(world, activate(NAME, older.id, held)) is None
    again = run(world, reserve(NAME, late.id, Conflict.REPLACE, lambda: now_ms, 10_000)).refused
    assert again is not None
    assert again.reason == refused.reason == "OVERTAKEN"


def replaced_in_silence(world: World, old: Task, new: Task) -> None:
    """The mark is durable, and who holds the task did not answer: he may carry it to where there is no mark."""
    taking = activate(NAME, new.id, claimed(world, new.id, Conflict.REPLACE))
    up_to(world, taking, AskToEnd)
    with pytest.raises(StoreUnknown, match="may still fire"):
        run(world, going_on(taking, taking.send(HolderAnswer(Asked.SILENT))))
    here = run(world, locate(old.id))
    assert here.first(MarkKind.CANCELLED) is not None
    assert here.ending.outcome is None


def test_a_task_whose_holder_is_silent_is_not_replaced_before_the_repeat_has_ended_it(world: World) -> None:
    old, new = scheduled(world, 30_000, 40_000)
    with_key(world, old)
    replaced_in_silence(world, old, new)
    again = claimed(world, new.id, Conflict.REPLACE)
    assert again.replaces == (old.id,)
    assert run(world, activate(NAME, new.id, again)) is None
    assert run(world, resolve(NAME)) == new.id
    world.advance(31_000)
    world.settle_down()
    world.take(QUEUES[0], 10)
    assert old.deliveries == 0


def replaced_when_just_acked(world: World, old: Task, new: Task) -> Procedure[TaskId | None]:
    """Before it has asked whether a crash can still undo the ack."""
    with_key(world, old)
    delivered(world, old)
    held = claimed(world, new.id, Conflict.REPLACE)
    assert held.replaces == (old.id,)
    world.ack(old)
    taking = activate(NAME, new.id, held)
    request = next(taking)
    while not (isinstance(request, FindSettled) and request.durable):
        assert not isinstance(request, TryCas), "the key is passed on, and a crash brings its task back"
        request = taking.send(done(world.runner.perform(request)))
    return taking


def test_a_task_whose_ack_a_crash_undoes_is_ended_by_the_repeat_of_the_call_that_replaces_it(world: World) -> None:
    old, new = scheduled(world, 0, 40_000)
    replaced_when_just_acked(world, old, new)
    world.crash()
    again = claimed(world, new.id, Conflict.REPLACE)
    assert again.replaces == (old.id,)
    assert run(world, activate(NAME, new.id, again)) is None
    world.reconcile()
    world.settle_down()
    world.take(QUEUES[0], 10)
    assert old.deliveries == 1


def test_a_task_is_replaced_once_its_end_is_written(world: World) -> None:
    old, new = scheduled(world, 0, 40_000)
    taking = replaced_when_just_acked(world, old, new)
    assert run(world, going_on(taking, taking.send(Ending(Outcome.ACKED)))) is None
    assert run(world, resolve(NAME)) == new.id


def test_a_key_goes_on_naming_a_task_whose_end_its_holder_may_not_have_written(world: World) -> None:
    """He has lost the partition meanwhile, and the records say nothing of it."""
    old, new = scheduled(world, 0, 40_000)
    taking = replaced_when_just_acked(world, old, new)
    with pytest.raises(StoreUnknown, match="may not have been written"):
        taking.send(Ending(None))
    [stored] = done(world.store.read([NAME]))
    assert stored is not None
    assert KeyEntry.from_bytes(stored).replaces == (str(old.id),)


@pytest.mark.parametrize("policy", Conflict)
def test_a_key_is_not_passed_on_before_all_have_ended_that_had_it(world: World, policy: Conflict) -> None:
    """Also one of which only a mark tells that it was cancelled."""
    old, new, last = scheduled(world, 30_000, 40_000, 50_000)
    with_key(world, old)
    replaced_in_silence(world, old, new)
    if policy is not Conflict.REPLACE:
        assert claimed(world, last.id, policy).taken_by == new.id
        run(world, end_task(new.id, Outcome.CANCELLED, b"r"))
    held = claimed(world, last.id, policy)
    assert held.taken_by is None
    assert old.id in held.replaces
    assert run(world, activate(NAME, last.id, held)) is None
    assert run(world, resolve(NAME)) == last.id


def in_silence(world: World, procedure: Procedure[Result]) -> Result:
    """Who holds the task does not answer it."""
    up_to(world, procedure, AskToEnd)

    def unanswered() -> Procedure[Result]:
        try:
            request = procedure.send(HolderAnswer(Asked.SILENT))
        except StopIteration as over:
            return over.value  # type: ignore[no-any-return]
        return (yield from going_on(procedure, request))

    return run(world, unanswered())


@pytest.mark.parametrize("policy", Conflict)
def test_what_its_worker_acked_is_not_cancelled_by_who_takes_the_key(world: World, policy: Conflict) -> None:
    """Its holder has not said yet that it is over, so the key is not free either."""
    old, new = scheduled(world, 30_000, 40_000)
    with_key(world, old)
    assert in_silence(world, end_task(old.id, Outcome.ACKED, b"late ack", generation=0)) is Cancelled.PENDING
    held = in_silence(world, reserve(NAME, new.id, policy))
    assert (held.taken_by, held.replaces) == (None, (old.id,))
    with pytest.raises(StoreUnknown, match="may still fire"):
        in_silence(world, activate(NAME, new.id, held))
    assert run(world, locate(old.id)).first(MarkKind.CANCELLED) is None
    [stored] = done(world.store.read([NAME]))
    assert stored is not None
    assert KeyEntry.from_bytes(stored).replaces == (str(old.id),)


def test_nor_where_its_holder_has_died_meanwhile(world: World) -> None:
    """Whoever takes the partition reads the mark."""
    old, new = scheduled(world, 30_000, 40_000)
    with_key(world, old)
    assert in_silence(world, end_task(old.id, Outcome.ACKED, b"late ack", generation=0)) is Cancelled.PENDING
    held = in_silence(world, reserve(NAME, new.id, Conflict.KEEP))
    world.crash()
    assert run(world, activate(NAME, new.id, held)) is None
    assert [mark.kind for mark in run(world, locate(old.id)).marks] == [MarkKind.ACKED]
    assert run(world, resolve(NAME)) == new.id


def test_a_task_that_gets_its_key_again_is_not_the_only_one_that_the_next_one_ends(world: World) -> None:
    old, new, last = scheduled(world, 30_000, 40_000, 50_000)
    with_key(world, old)
    replaced_in_silence(world, old, new)
    assert run(world, keys.regain(NAME, new.id, world.now_ms)) is None
    assert claimed(world, last.id, Conflict.REPLACE).replaces == (new.id, old.id)


def test_who_loses_the_key_cancels_the_own_task(world: World) -> None:
    old, new = scheduled(world, 30_000, 40_000)
    first = claimed(world, old.id, Conflict.KEEP)
    second = claimed(world, new.id, Conflict.REPLACE)
    assert second.replaces == (old.id,)
    assert run(world, activate(NAME, old.id, first)) == new.id
    assert run(world, end_task(old.id, Outcome.CANCELLED, b"r")) is Cancelled.ALREADY_CANCELLED


def test_a_repeat_that_is_late_now_keeps_the_key_by_the_place_of_the_first_time(world: World) -> None:
    """Whoever comes before the repeat knows where its task lives must not take it for one that was never written."""
    old, new = scheduled(world, 30_000, 60_000)
    claimed(world, old.id, Conflict.REJECT)
    for later_ms in (35_000, 36_000):
        repeat = old.id._replace(position_ms=world.now_ms + later_ms)
        assert claimed(world, repeat, Conflict.REJECT).taken_by is None
    assert claimed(world, new.id, Conflict.KEEP).taken_by == old.id
    held = claimed(world, new.id, Conflict.REPLACE)
    assert held.replaces == (old.id,)


@pytest.mark.parametrize("waits", [False, True], ids=["in flight", "between two attempts"])
def test_who_loses_the_key_of_a_task_that_was_sent_leaves_it_as_it_is(world: World, waits: bool) -> None:
    """It is tried again like any other, for it was acknowledged."""
    old, new = scheduled(world, 0, 40_000)
    first = claimed(world, old.id, Conflict.KEEP)
    claimed(world, new.id, Conflict.REPLACE)
    delivered(world, old)
    if waits:
        world.nack(old, 1_000)
        world.settle_down()
    assert run(world, activate(NAME, old.id, first)) is None
    assert claimed(world, old.id, Conflict.REPLACE).had_it, "nor does its repeat take the key again"
    if not waits:
        world.nack(old, 1_000)
    world.settle_down()
    world.advance(2_000)
    world.settle_down()
    world.take(QUEUES[0], 10)
    assert old.deliveries == 2


def test_who_loses_the_key_while_the_task_is_sent_cannot_say_what_became_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_yet(_: TaskId) -> Procedure[bool]:
        yield from ()
        return False

    old, new = scheduled(world, 0, 40_000)
    first = claimed(world, old.id, Conflict.KEEP)
    claimed(world, new.id, Conflict.REPLACE)
    delivered(world, old)
    monkeypatch.setattr(without_key, "_was_sent", not_yet)
    with pytest.raises(StoreUnknown, match="went to a worker"):
        run(world, activate(NAME, old.id, first))


def test_a_repeat_sees_to_what_was_written_below_the_marks_and_never_offered(world: World) -> None:
    """Whoever wrote it first was killed before it knew; the marks have passed the place since."""
    [other] = scheduled(world, 0)
    late_ms = world.now_ms
    world.insert([0], 0)
    [lost] = list(world.tasks.values())[1:]
    [writing] = [p for p in world.pending if isinstance(p[0], AppendRows)]
    world.pending.remove(writing)
    request, write = writing
    delivered(world, other)
    world.ack(other)
    for _ in range(8):
        world.settle_down()
        world.advance(1_000)
    write()
    world.pending.pop()
    for _ in range(4):
        world.settle_down()
        world.advance(1_000)
    world.take(QUEUES[0], 10)
    assert lost.deliveries == 0
    assert isinstance(request, AppendRows)
    assert request.messages[0].spread is not None
    message = Append(tuple((partition, part.compact()) for partition, part in request.messages[0].spread.parts()))
    lost.fire_at_ms.add(late_ms)
    run(world, insert_repeated(message, world.now_ms))
    world.advance(1_000)
    world.settle_down()
    world.take(QUEUES[0], 10)
    assert lost.deliveries == 1
    run(world, insert_repeated(message, world.now_ms))
    world.advance(1_000)
    world.settle_down()
    world.take(QUEUES[0], 10)
    assert lost.deliveries == 1


def test_a_key_that_was_forgotten_while_its_task_was_written_is_taken_again(world: World) -> None:
    [task] = scheduled(world, 30_000)
    held = claimed(world, task.id, Conflict.KEEP)
    world.store._registers.pop(NAME)
    assert run(world, activate(NAME, task.id, held)) is None
    assert run(world, resolve(NAME)) == task.id
    assert run(world, end_task(task.id, Outcome.CANCELLED, b"r")) is Cancelled.CANCELLED
