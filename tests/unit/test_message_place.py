"""A call is tried more than once, each try stopped at each of its steps: its task has one place, and is sent from
there once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.property.world import QUEUES, START_MS, World, done
from tests.unit.procedure_rig import going_on
from timerd.core.dispatch.settlement import task_id_of
from timerd.core.partition.holding import Offered
from timerd.core.protocol.insertion import Inserted, insert
from timerd.core.protocol.lookup import locate
from timerd.core.protocol.message_place import (
    Call,
    Forgotten,
    NotTakenIn,
    is_stored,
    origin_of_delays,
    place_message,
    stored_among,
)
from timerd.core.protocol.procedures import AppendRows, OfferRows, Procedure, ReadBucket, Request, TryCas
from timerd.core.schedules.occurrences import trigger_row
from timerd.core.taken import Ended
from timerd.model.identity import RowKey, TaskId, digest_of
from timerd.model.overlap import OpenedOccurrence, Overlap
from timerd.model.partition import Partition
from timerd.model.recurrence import Spec
from timerd.model.registers import Control, Instants, Move, MoveState, control_key, move_key, place_key
from timerd.model.rows import RowGroup, single_row
from timerd.model.schedules import Definition, Policies
from timerd.model.settle import Outcome
from timerd.model.storage import Append, BucketEntry, Cas
from timerd.model.task import NO_EXTRA, Template
from timerd.services.holding.driving import drive

DAY_MS = 86_400_000
HERE = Partition(0, START_MS, 0)
PREFIX, TASK = b"p" * 12, digest_of(b"p" * 12, 0)
INSTANT_MS = START_MS + 12_000


def row(position_ms: int = INSTANT_MS, digest: bytes = TASK) -> RowGroup:
    return single_row(RowKey(position_ms, digest, 0), position_ms, Template("default", "a"), b"", NO_EXTRA, 0)


def tried(now_ms: int) -> Procedure[Inserted]:
    return place_message(Append(((HERE, row()),)), Call(PREFIX, now_ms, now_ms + DAY_MS, DAY_MS))


@pytest.fixture
def world() -> World:
    """Somebody holds the partition."""
    world = World()
    world.hold(HERE)
    world.settle_down()
    return world


def worked(world: World, seconds: int = 4) -> list[RowKey]:
    """Of the task what is sent meanwhile, and acknowledged at once. Other tasks come as well, so the marks move on."""
    sent: list[RowKey] = []
    for n in range(seconds * 4):
        world.advance(250)
        if not n % 4:
            other = row(world.now_ms + 10, digest_of(b"o" * 12, world.now_ms % 1_000_000))
            world.drive(insert(Append(((HERE, other),)), world.now_ms), lambda _: None)
        world.settle_down()
        for machine in list(world.machines.values()):
            while (taken := machine.take(QUEUES[0], 10, world.now_ms)) is not None:
                sent += [key for key in taken.rows.keys() if key.digest == TASK]
                machine.end([Ended(machine.partition, key, Outcome.ACKED) for key in taken.rows.keys()])
                world.perform(machine, machine.flush())
                world.settle_down()
    return sent


def placed(world: World, going: Procedure[Inserted] | None = None) -> int:
    """By a try that goes on to its end, and asks again as a call does."""
    for _ in range(20):
        try:
            said = done(drive(going or tried(world.now_ms), world.runner))
            return said.moved.get((INSTANT_MS, TASK), INSTANT_MS)
        except NotTakenIn:
            going = None
            world.advance(100)
            world.settle_down()
    raise AssertionError("it is never taken in")


def stopped(world: World, steps: int) -> Procedure[Inserted] | None:
    """Of a try that has done so many; None: it has ended by then."""
    procedure = tried(world.now_ms)
    try:
        request = next(procedure)
        for _ in range(steps):
            request = procedure.send(done(world.runner.perform(request)))
    except (StopIteration, NotTakenIn):
        return None
    return going_on(procedure, request)


@pytest.mark.parametrize("begins_ms", [INSTANT_MS - 1_500, INSTANT_MS + 300, INSTANT_MS + 5_000])
@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("steps", range(12))
def test_of_two_tries_the_task_is_sent_from_one_place_whenever_the_first_goes_on(
    world: World, begins_ms: int, steps: int, *, crashes: bool
) -> None:
    sent = worked(world, (begins_ms - world.now_ms) // 1_000)
    first = stopped(world, steps)
    sent += worked(world)
    if crashes:
        world.crash()
        world.reconcile()
        world.settle_down()
    place_ms = placed(world)
    if steps % 2:
        sent += worked(world)
    if first is not None:
        assert placed(world, first) == place_ms
    sent += worked(world)
    assert placed(world) == place_ms
    sent += worked(world)
    assert sent == [RowKey(place_ms, TASK, 0)]


def test_two_that_are_late_at_once_go_to_one_place(world: World) -> None:
    """Each step of the one before and after each of the other's."""
    worked(world, 8)
    one, other = tried(world.now_ms), tried(world.now_ms + 7)
    pending = {n: next(each) for n, each in enumerate((one, other))}
    ends: dict[int, Inserted] = {}
    while pending:
        for n, request in list(pending.items()):
            try:
                pending[n] = (one, other)[n].send(done(world.runner.perform(request)))
            except StopIteration as end:
                ends[n] = end.value
                del pending[n]
    assert ends[0].moved == ends[1].moved != {}
    assert len(worked(world)) == 1


def test_a_repeat_is_told_the_same_place_of_what_was_moved_since(world: World) -> None:
    worked(world, 20)
    place_ms = placed(world)
    here = done(drive(locate(TaskId(place_ms, 0, 0, 0, PREFIX, 0, b"")), world.runner)).place
    moved = Move(1, MoveState.MOVED, here, here, "move", place_ms, place_ms)
    done(world.store.cas([Cas(move_key(TASK), None, moved.to_bytes())]))
    assert placed(world) == place_ms


def answered(control: Control, *offered: Offered | None, now: Control | None = None) -> list[Request]:
    """What a try asks for where the holder answers so, and the control row is that, and `now` after the answer; the
    last of it is not answered."""
    world = World()
    done(world.store.cas([Cas(control_key(HERE), None, control.to_bytes())]))
    procedure, asked, said = tried(INSTANT_MS + 200), list[Request](), iter(offered)
    try:
        request = next(procedure)
        while True:
            asked.append(request)
            if isinstance(request, OfferRows):
                answer: object = next(said)
                if now is not None:
                    done(world.store.cas([Cas(control_key(HERE), control.to_bytes(), now.to_bytes())]))
            else:
                answer = done(world.runner.perform(request))
            request = procedure.send(answer)
    except (StopIteration, NotTakenIn):
        return asked


HELD = Control(5, "me", "", INSTANT_MS + 100, START_MS)


def is_left(asked: list[Request]) -> bool:
    return any(isinstance(each, TryCas) for each in asked)


@pytest.mark.parametrize("said", [Offered.BELOW_FLOOR, Offered.SILENT, Offered.NOT_NOW, None])
def test_a_place_is_not_left_because_of_what_its_holder_says_or_does_not(said: Offered | None) -> None:
    """His floor is beyond it before `verified` is, and he may be gone by then; who does not answer may be paused, and
    so may one whose lease is over."""
    asked = answered(HELD, said)
    assert not is_left(asked)
    assert sum(isinstance(each, AppendRows) for each in asked) == 1


@pytest.mark.parametrize("said", [Offered.BELOW_FLOOR, Offered.SILENT, None])
def test_it_is_left_when_verified_is_beyond_it(said: Offered | None) -> None:
    assert is_left(answered(HELD, said, now=replace(HELD, verified_ms=INSTANT_MS + 1)))


def test_it_counts_where_the_control_row_names_nobody() -> None:
    """The next holder reads from `verified` on."""
    world = World()
    left = replace(HELD, holder="")
    done(world.store.cas([Cas(control_key(HERE), None, left.to_bytes())]))
    assert done(drive(tried(INSTANT_MS + 200), world.runner)).moved == {}


def test_what_has_ended_longer_ago_than_outcomes_are_kept_is_not_carried_out_anew() -> None:
    world = World()
    over = Control(5, "", "", HERE.end_ms, HERE.end_ms, finished_at_ms=HERE.end_ms)
    done(world.store.cas([Cas(control_key(HERE), None, over.to_bytes())]))
    with pytest.raises(Forgotten):
        done(drive(tried(HERE.end_ms + DAY_MS), world.runner))


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_partition_that_nobody_made_before_its_bucket_was_finished_is_over_for_good(*, is_finished: bool) -> None:
    """While it is being finished somebody may yet make it, and read the row."""
    world, other = World(), HERE._replace(shard=3)
    done(world.store.append([Append(((HERE, row()),))]))
    done(world.store.finish_bucket(0, HERE.bucket_ms, finished=is_finished))
    message = Append(((other, row()),))
    call = Call(PREFIX, HERE.end_ms + 5_000, HERE.end_ms + DAY_MS, DAY_MS)
    if not is_finished:
        with pytest.raises(NotTakenIn):
            done(drive(place_message(message, call), world.runner))
        return
    assert done(drive(place_message(message, call), world.runner)).moved == {(INSTANT_MS, TASK): call.now_ms}
    [stored] = done(world.store.read([control_key(other)]))
    assert stored is not None
    assert Control.from_bytes(stored).finished
    [entry] = done(world.store.catalogue(0, HERE.bucket_ms, HERE.bucket_ms + 1))
    assert isinstance(entry, BucketEntry)
    assert done(world.runner.perform(ReadBucket(other))) == entry


def test_a_message_says_whether_any_of_its_rows_was_stored(world: World) -> None:
    groups = ((HERE, row()),)
    assert not done(drive(is_stored(groups, PREFIX), world.runner))
    placed(world)
    assert done(drive(is_stored(groups, PREFIX), world.runner))


def test_a_message_says_which_of_its_rows_were_stored(world: World) -> None:
    """At its own place, or at the one where it went on, for it came too late."""
    groups = ((HERE, row()),)
    assert done(drive(stored_among(groups, PREFIX), world.runner)) == set()
    late_ms = HERE.end_ms + 5_000
    done(world.store.cas([Cas(place_key(PREFIX), None, Instants((late_ms,)).to_bytes())]))
    assert done(drive(stored_among(groups, PREFIX), world.runner)) == set()
    there = row()
    there.columns["position_ms"] = late_ms
    done(world.store.append([Append(((Partition(0, HERE.end_ms, HERE.shard), there),))]))
    assert done(drive(stored_among(groups, PREFIX), world.runner)) == {TASK}


def test_delays_count_from_the_first_try_that_came() -> None:
    world = World()
    calls = [Call(PREFIX, START_MS + n, START_MS + DAY_MS, DAY_MS) for n in (5, 900)]
    assert [done(drive(origin_of_delays(call), world.runner)) for call in calls] == [START_MS + 5] * 2
    [stored] = done(world.store.read([place_key(PREFIX)]))
    assert stored is not None
    assert Instants.from_bytes(stored) == Instants((), START_MS + 5)


def test_instants_are_read_as_they_were_written_and_followed_in_order() -> None:
    instants = Instants((10, 20), 3)
    assert Instants.from_bytes(instants.to_bytes()) == instants
    assert [instants.after(ms) for ms in (5, 10, 15, 20)] == [10, 20, 20, None]


def test_a_task_whose_id_is_told_first_keeps_it_where_its_row_comes_too_late(world: World) -> None:
    """Of a schedule the open task is recorded, and shown to callers, before its row is written: by who may be paused in
    between, or by the next one."""
    worked(world, 20)
    template = Template("default", "a")
    opened = OpenedOccurrence(PREFIX.hex(), INSTANT_MS, 0, template.scope, 0, INSTANT_MS, 1, is_trigger=True)
    definition = Definition(Spec(()), Policies(overlap=Overlap.SKIP), template)
    _, partition, late = trigger_row("report", opened, definition)
    call = Call(PREFIX, world.now_ms, world.now_ms + DAY_MS, DAY_MS)
    place_ms = placed(world, place_message(Append(((partition, late),)), call))
    assert place_ms > INSTANT_MS + 1_000
    here = done(drive(locate(opened.task), world.runner))
    assert here.rows is not None
    assert here.place.key.position_ms == place_ms
    world.advance(2_000)
    world.settle_down()
    (taken,) = [each for machine in world.machines.values() if (each := machine.take(QUEUES[0], 10, world.now_ms))]
    told = task_id_of(taken, 0, place_ms, taken.rows.extra_of(0), b"secret")
    assert told._replace(mac=opened.task.mac) == opened.task


def test_so_is_one_found_whose_first_place_does_not_point_on(world: World) -> None:
    """As earlier releases left it, where no row was there: the register names the later place."""
    later_ms = INSTANT_MS + 5_000
    done(world.store.cas([Cas(place_key(PREFIX), None, Instants((later_ms,)).to_bytes())]))
    done(world.store.append([Append(((HERE, row(later_ms)),))]))
    task = TaskId(INSTANT_MS, 0, Template("default", "a").scope, 0, PREFIX, 0, bytes(8))
    here = done(drive(locate(task), world.runner))
    assert here.rows is not None
    assert here.place.key.position_ms == later_ms
