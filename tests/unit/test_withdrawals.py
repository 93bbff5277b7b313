"""Tasks that are withdrawn together: what is said of each is what would be said of it by itself, wherever it stops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.property.world import QUEUES, Task, World, done
from tests.unit.procedure_rig import KEPT_MS, delivered, going_on, late_row, run, scheduled, up_to
from timerd.core.partition import Asked
from timerd.core.protocol import (
    AppendRows,
    AskToMove,
    AskToMoveMany,
    Find,
    FindVacant,
    HolderAnswer,
    NotTakenIn,
    Procedure,
    ReadRegister,
    ReadRegisters,
    Recheck,
    Request,
    SetMarks,
    Together,
    TryCasMany,
    Undecided,
    Withdrawn,
    place_message,
    withdraw,
    withdraw_many,
)
from timerd.core.protocol.joined_procedures import side_by_side
from timerd.model.errors import StoreUnavailable, Unavailable
from timerd.model.identity import RowKey
from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.registers import Move, MoveState, move_key
from timerd.model.storage import Mark, MarkKind

WAITING, STARTED = Withdrawn.WITHDRAWN, Withdrawn.STARTED
HERE = Partition(0, 0, 0)


def together(world: World, tasks: list[Task], request: str = "r") -> Procedure[list[Withdrawn]]:
    return withdraw_many([task.id for task in tasks], request, lambda: world.now_ms, KEPT_MS)


def one_by_one(world: World, tasks: list[Task], request: str = "r") -> Procedure[list[Withdrawn]]:
    said = []
    for task in tasks:
        said.append((yield from withdraw(task.id, request, world.now_ms, KEPT_MS)))
    return said


def note(tasks: list[Task], said: list[Withdrawn]) -> None:
    """What is withdrawn comes no more."""
    for task, each in zip(tasks, said, strict=True):
        task.over |= each is WAITING


def counted(procedure: Procedure[list[Withdrawn]], asked: Counter[type[Request]]) -> Procedure[list[Withdrawn]]:
    request = next(procedure)
    while True:
        asked[type(request)] += 1
        answer = yield request
        try:
            request = procedure.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def in_all_states() -> tuple[World, list[Task]]:
    """Waiting near and far, with a worker, acked, to be tried again, cancelled, and one that is not there."""
    world = World()
    tasks = scheduled(world, *[0] * 3)
    for task in tasks:
        delivered(world, task)
    world.ack(tasks[1])
    world.nack(tasks[2], 60_000)
    world.settle_down()
    tasks += scheduled(world, 30_000, 400_000, 900_000, 401_000, 901_000, 20_000)
    # One of which only a mark tells, and one that its holder has ended.
    world.cancel(tasks[5])
    world.cancel(tasks[8])
    world.settle_down()
    never = tasks[3].id._replace(item=99)
    return world, [*tasks, Task(never, set())]


def test_each_is_told_what_it_would_be_told_by_itself() -> None:
    (world, tasks), (other, same) = in_all_states(), in_all_states()
    said = run(world, together(world, tasks))
    assert said == run(other, one_by_one(other, same))
    assert said == [STARTED] * 3 + [WAITING] * 2 + [STARTED] + [WAITING] * 2 + [STARTED, WAITING]
    note(tasks, said)
    world.drain()
    assert [task.deliveries for task in tasks] == [1, 1, 2] + [0] * 7


def test_a_repeat_says_the_same() -> None:
    world, tasks = in_all_states()
    said = run(world, together(world, tasks))
    world.settle_down()
    assert run(world, together(world, tasks)) == said


def test_many_take_as_many_requests_as_one_of_each_bucket() -> None:
    world = World()
    tasks = scheduled(world, *[100_000 + n * 1_000 for n in range(60)])
    asked: Counter[type[Request]] = Counter()
    assert run(world, counted(together(world, tasks), asked)) == [WAITING] * 60
    buckets = len({task.id.home for task in tasks})
    assert asked[AskToMoveMany] == asked[SetMarks] == asked[FindVacant] == 1
    assert asked[ReadRegisters] == asked[TryCasMany] == 2
    assert asked[Recheck] <= 2 * buckets
    assert asked.total() <= 12 + 2 * buckets


@pytest.mark.parametrize("parts", range(1, 20))
def test_what_stops_anywhere_is_gone_on_with_by_another_try(parts: int) -> None:
    """The server is killed after so many requests, and what was asked last is carried out of some tasks alone."""
    world = World()
    tasks = scheduled(world, 30_000, 31_000, 32_000, 400_000, 401_000)
    procedure = together(world, tasks)
    request: Request | None = next(procedure)
    for _ in range(parts):
        try:
            request = procedure.send(done(world.runner.perform(request))) if request is not None else None
        except StopIteration:
            request = None
    if isinstance(request, TryCasMany):
        done(world.runner.perform(TryCasMany(request.changes[:2])))
    if isinstance(request, SetMarks):
        done(world.runner.perform(SetMarks(request.marks[1:])))
    world.crash()
    world.advance(31_500 if parts % 2 else 1_000)
    world.settle_down()
    world.take(QUEUES[0], 10)
    said = run(world, together(world, tasks))
    assert said == [STARTED if task.deliveries else WAITING for task in tasks]
    note(tasks, said)
    world.drain()


def test_one_that_another_withdraws_at_the_same_moment_holds_up_no_other_one() -> None:
    world = World()
    tasks = scheduled(world, 30_000, 31_000, 32_000)
    procedure = together(world, tasks)
    request = up_to(world, procedure, TryCasMany, 2)
    assert run(world, withdraw(tasks[1].id, "other", world.now_ms, KEPT_MS)) is WAITING
    with pytest.raises(Undecided):
        run(world, going_on(procedure, request))
    stored = done(world.store.read([move_key(task.id.digest) for task in tasks]))
    assert [Move.from_bytes(each).request for each in stored if each is not None] == ["r", "other", "r"]
    assert run(world, together(world, tasks)) == [WAITING] * 3
    note(tasks, [WAITING] * 3)
    world.drain()


# -- side by side -----------------------------------------------------------------------------------------------------


def asking(*requests: Request) -> Procedure[list[object]]:
    said = []
    for request in requests:
        said.append((yield request))
    return said


def answered(
    procedures: list[Procedure[list[object]]], answer: Callable[[Request], object]
) -> tuple[list[Request], object]:
    """What is asked, and what comes of it."""
    both, asked = side_by_side(procedures), list[Request]()
    try:
        asked.append(next(both))
        while True:
            said = answer(asked[-1])
            asked.append(both.throw(said) if isinstance(said, Exception) else both.send(said))
    except StopIteration as end:
        return asked, end.value


def row(n: int) -> tuple[int, bytes]:
    return n, bytes(16)


def test_rows_of_several_partitions_are_found_at_one_time_and_each_hears_of_its_own() -> None:
    there = HERE._replace(shard=1)
    asks = [asking(Find(place, [row(n)])) for n, place in enumerate((HERE, there, HERE))]
    asked, said = answered(asks, lambda request: [["0", "2"], ["1"]])
    assert asked == [Together([Find(HERE, [row(0), row(2)]), Find(there, [row(1)])])]
    assert said == [[["0"]], [["1"]], [["2"]]]


def test_what_does_not_go_together_is_asked_one_after_the_other() -> None:
    keys = [move_key(bytes([n]) * 16) for n in range(2)]
    requests: list[Request] = [ReadRegister(keys[0]), ReadRegister(keys[1]), AskToMove(HERE, RowKey(1, bytes(16), 0))]
    asked, said = answered(
        [asking(each) for each in requests], lambda request: ["a", "b"] if request != requests[2] else "c"
    )
    assert asked == [ReadRegisters(keys), requests[2]]
    assert said == [["a"], ["b"], ["c"]]


def test_nobody_hears_that_its_mark_was_the_first_where_that_is_not_known() -> None:
    marks = [Mark(HERE, RowKey(n, bytes(16), 0), MarkKind.MOVED, b"1") for n in range(3)]
    asks = [asking(SetMarks(marks[:2])), asking(SetMarks(marks[2:]))]
    assert answered(asks, lambda _: 3)[1] == [[2], [1]]
    asks = [asking(SetMarks(marks[:2])), asking(SetMarks(marks[2:]))]
    assert answered(asks, lambda _: 2)[1] == [[0], [0]]


def test_what_fails_has_failed_for_all_who_asked_and_the_others_go_on() -> None:
    asks = [asking(Recheck(HERE, [b"a"])), asking(Recheck(HERE, [b"b"])), asking(FindVacant([HERE]))]
    gone = StoreUnavailable("gone", "STORE_DOWN")
    asked, said = answered(asks, lambda request: gone if isinstance(request, Recheck) else None)
    assert asked == [Recheck(HERE, [b"a", b"b"]), FindVacant([HERE])]
    assert said == [gone, gone, [None]]


def test_a_holder_that_does_not_answer_is_said_before_what_is_undecided() -> None:
    """A repeat at once would meet it again. What others hold is withdrawn meanwhile."""
    world = World()
    near, far, met = tasks = scheduled(world, 30_000, 400_000, 31_000)
    procedure = together(world, tasks)
    asks = up_to(world, procedure, AskToMoveMany)
    assert isinstance(asks, AskToMoveMany)
    said = done(world.runner.perform(asks))
    assert isinstance(said, list)
    silent = [
        HolderAnswer(Asked.SILENT) if ask.partition == far.id.home else each
        for ask, each in zip(asks.requests, said, strict=True)
    ]
    assert run(world, withdraw(met.id, "other", world.now_ms, KEPT_MS)) is WAITING
    with pytest.raises(Unavailable, match="does not answer"):
        run(world, going_on(procedure, procedure.send(silent)))
    [stored] = done(world.store.read([move_key(near.id.digest)]))
    assert stored is not None
    assert Move.from_bytes(stored).state is MoveState.MOVED


# -- what has not started ---------------------------------------------------------------------------------------------


def test_what_another_try_has_withdrawn_meanwhile_has_not_started() -> None:
    """The holder says that the row has left: by the decision of the other one."""
    world = World()
    [task] = scheduled(world, 30_000)
    first = withdraw(task.id, "r", world.now_ms, KEPT_MS)
    request = up_to(world, first, AskToMove)
    assert run(world, withdraw(task.id, "r", world.now_ms, KEPT_MS)) is WAITING
    world.settle_down()
    with pytest.raises(Undecided):
        run(world, going_on(first, request))
    assert run(world, withdraw(task.id, "r", world.now_ms, KEPT_MS)) is WAITING


def test_what_is_about_to_have_a_later_place_counts_as_started() -> None:
    """Its writer is gone, or stands still."""
    world = World()
    task, message, call = late_row(world)
    writing = place_message(message, call)
    up_to(world, writing, AppendRows)
    assert run(world, withdraw(task, "r", world.now_ms, KEPT_MS)) is STARTED
    run(world, place_message(message, call))
    world.drain()
    assert world.tasks[task.digest].deliveries == 1


def test_what_is_withdrawn_has_no_later_place_whoever_wrote_it_and_stood_still() -> None:
    world = World()
    task, message, call = late_row(world)
    assert run(world, withdraw(task, "r", world.now_ms, KEPT_MS)) is WAITING
    # Its next place is one of which the holder of the first one knows nothing.
    world.crash()
    world.advance(BUCKET_MS)
    world.settle_down()
    run(world, place_message(message, replace(call, now_ms=world.now_ms)))
    world.tasks[task.digest].over = True
    world.drain()
    assert not world.tasks[task.digest].deliveries


def test_while_it_is_withdrawn_its_writer_comes_again() -> None:
    world = World()
    task, message, call = late_row(world)
    withdrawing = withdraw(task, "r", world.now_ms, KEPT_MS)
    request = up_to(world, withdrawing, AskToMove)
    with pytest.raises(NotTakenIn):
        run(world, place_message(message, call))
    assert run(world, going_on(withdrawing, request)) is WAITING
