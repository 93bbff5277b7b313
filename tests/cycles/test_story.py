"""A cycle whose members are rows of the caller's database, told as a story by the clock that the test turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cycles.story import EVERY, START, Story, in_slot
from timerd.client import Aborted, AlreadyExists, FailedPrecondition, InvalidTask, NotFound, ScheduleState, SlotCost
from timerd.core.slots import cycle as cut
from timerd.testing import Server


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def story(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Story]:
    async with Server(start=START, data=tmp_path if request.param == "sqlite" else None) as server:
        yield Story(server)


async def test_each_member_has_its_turn_at_its_moment_in_every_cycle(story: Story) -> None:
    story.members = list(range(60))
    await story.work()
    await story.create()
    await story.server.advance(minutes=23)
    moments = cut(600_000, 10)
    for key in story.members:
        first = START + timedelta(milliseconds=moments.moment_ms(key))
        # The slot that begins with the cycle was over a minute before it was created.
        begun = first + EVERY if first < START + timedelta(minutes=2) else first
        turns = [at for at in story.turns_of(key) if at >= begun]
        assert turns == [begun + n * EVERY for n in range(len(turns))]
        assert turns
    assert max(Counter(story.turns).values()) == 1


async def test_the_task_of_a_slot_says_whose_turn_it_is(story: Story) -> None:
    await story.work()
    await story.create(slots=5)
    await story.server.advance(minutes=11)
    slots = [slot for _, slot in story.slots[:5]]
    assert sorted(slot.slot for slot in slots) == list(range(5))
    assert {(slot.cycle_id, slot.of) for slot in slots} == {("sync", 5)}
    bounds = sorted((slot.lo, slot.hi) for slot in slots)
    assert (bounds[0][0], bounds[-1][1]) == (-(2**63), 2**63 - 1)
    assert all(before[1] + 1 == after[0] for before, after in pairwise(bounds))
    at, slot = story.slots[0]
    cycles = START.timestamp() // 600
    begin = timedelta(minutes=10) * (slot.cycle - cycles) + timedelta(minutes=2) * slot.slot
    assert at == START + begin - timedelta(minutes=1)


async def test_a_slot_that_is_filled_again_fires_nobody_twice(story: Story) -> None:
    story.members = list(range(40))
    await story.work()
    await story.create()
    await story.server.advance(minutes=5)
    _, slot = story.slots[-1]
    members = in_slot(story.members, slot)
    assert members
    for _ in range(3):
        assert await story.cycles.fill(slot, members) == len(members)
    await story.server.advance(minutes=3)
    assert await story.cycles.fill(slot, members) == len(members)
    await story.server.advance(minutes=1)
    assert max(Counter(who for at, who in story.turns).values()) == 1


async def test_who_is_named_too_late_has_its_turn_at_once(story: Story) -> None:
    await story.work(fills=False)
    await story.create()
    await story.server.advance(minutes=9)
    _, slot = story.slots[0]
    members = in_slot(range(200), slot)
    now = story.server.now
    await story.cycles.fill(slot, members)
    await story.server.advance(seconds=1)
    await story.cycles.fill(slot, [*members, *in_slot(range(200, 300), slot)])
    await story.server.advance(seconds=1)
    assert {who for _, who in story.turns} == {str(key) for key in in_slot(range(300), slot)}
    assert max(Counter(who for _, who in story.turns).values()) == 1
    assert all(at >= now for at, _ in story.turns)
    assert all(delivery.late for delivery in story.seen)


async def test_a_member_that_waits_for_a_worker_has_one_task_at_most(story: Story) -> None:
    story.members = [42]
    await story.work(syncs=False)
    await story.create()
    await story.server.advance(minutes=35)
    assert len([slot for _, slot in story.slots if in_slot([42], slot)]) >= 3
    await story.work_members()
    await story.server.advance(seconds=1)
    assert len(story.turns) == 1


async def test_after_an_outage_the_slots_of_the_last_period_come_once(story: Story) -> None:
    story.members = list(range(40))
    await story.work()
    await story.create()
    await story.server.advance(minutes=12)
    story.turns.clear()
    await story.cycles.pause("sync")
    await story.server.advance(minutes=35)
    before = len(story.turns)
    await story.cycles.resume("sync", catch_up=True)
    await story.server.advance(seconds=5)
    late = Counter(who for _, who in story.turns[before:])
    assert max(late.values()) == 1
    # Of the slot that comes next, and of the one that is under way, the moments are to come.
    await story.server.advance(minutes=2)
    assert {who for _, who in story.turns[before:]} == {str(key) for key in story.members}
    assert len(late) > 25


async def test_payloads_are_those_of_their_members(story: Story) -> None:
    await story.work(fills=False)
    await story.create(slots=1)
    await story.server.advance(minutes=10)
    _, slot = story.slots[0]
    await story.cycles.fill(slot, [1, "zoë"], [b"\x00one", "zwei"])
    await story.server.advance(minutes=10)
    assert sorted(each.payload for each in story.seen) == [b"\x00one", b"zwei"]


async def test_a_key_outside_of_the_slot_is_refused_and_nothing_is_written(story: Story) -> None:
    await story.work(fills=False)
    await story.create()
    await story.server.advance(minutes=3)
    _, slot = story.slots[0]
    inside = in_slot(range(200), slot)
    outside = next(key for key in range(200) if key not in inside)
    with pytest.raises(InvalidTask, match=f"'{outside}' is not in slot {slot.slot} of 10") as refused:
        await story.cycles.fill(slot, [*inside, outside])
    assert refused.value.reason == "NOT_IN_SLOT"
    await story.server.advance(minutes=3)
    assert not story.turns


async def test_a_slot_is_filled_in_its_own_turn_only(story: Story) -> None:
    await story.work(fills=False)
    await story.create()
    await story.server.advance(minutes=3)
    _, slot = story.slots[0]
    key = in_slot(range(200), slot)[0]
    with pytest.raises(FailedPrecondition, match="has no task yet") as early:
        await story.cycles.fill(replace(slot, cycle=slot.cycle + 1), [key])
    assert early.value.reason == "SLOT_TO_COME"
    await story.server.advance(minutes=10)
    with pytest.raises(FailedPrecondition, match="has its next turn") as late:
        await story.cycles.fill(slot, [key])
    assert late.value.reason == "SLOT_OVER"


async def test_a_cycle_shows_what_each_slot_costs(story: Story) -> None:
    story.members = list(range(60))
    await story.work()
    await story.create()
    await story.server.advance(minutes=13, seconds=30)
    shown = await story.cycles.get("sync")
    last = {slot.slot: slot for _, slot in story.slots}
    expected = [
        SlotCost(number, slot.cycle, len(found), float(len(found)))
        for number, slot in sorted(last.items())
        for found in [in_slot(story.members, slot)]
    ]
    assert list(shown.costs) == expected
    assert (shown.slots, shown.period, shown.queue, shown.slot_queue) == (10, EVERY, "members", "slots")
    assert shown.slots_created >= 11
    await story.cycles.fill(story.slots[-1][1], in_slot(story.members, story.slots[-1][1]))
    assert (await story.cycles.get("sync")).costs == shown.costs


async def test_a_pause_stops_the_slots_and_a_resume_goes_on(story: Story) -> None:
    story.members = list(range(40))
    await story.work()
    await story.create()
    await story.server.advance(minutes=5)
    paused = await story.cycles.pause("sync", note="a migration")
    assert (paused.state, paused.note, paused.next_slot) == (ScheduleState.PAUSED, "a migration", None)
    count = len(story.slots)
    await story.server.advance(minutes=30)
    assert len(story.slots) == count
    with pytest.raises(Aborted, match="revision 2"):
        await story.cycles.resume("sync", revision=1)
    resumed = await story.cycles.resume("sync")
    assert resumed.next_slot is not None
    await story.server.advance(minutes=3)
    assert len(story.slots) in (count + 3, count + 4)


async def test_what_is_deleted_comes_no_more_and_its_name_is_free(story: Story) -> None:
    story.members = list(range(40))
    await story.work()
    await story.create()
    await story.server.advance(minutes=5)
    with pytest.raises(AlreadyExists, match="There is a cycle 'sync' already"):
        await story.create()
    _, slot = story.slots[-1]
    await story.cycles.delete("sync")
    with pytest.raises(NotFound, match="There is no cycle 'sync'"):
        await story.cycles.get("sync")
    with pytest.raises(NotFound, match="There is no cycle 'sync'"):
        await story.cycles.fill(slot, in_slot(story.members, slot))
    count = len(story.slots)
    await story.server.advance(minutes=15)
    assert len(story.slots) == count
    await story.create()
    await story.server.advance(minutes=5)
    assert len(story.slots) > count


async def test_cycles_are_listed_apart_from_schedules(story: Story) -> None:
    await story.create()
    await story.cycles.create("other", every=3_600, queue="members", slot_queue="slots", labels={"team": "a"})
    await story.client.schedules.create("sync", queue="q", every=60)
    assert sorted([each.id async for each in story.cycles.list()]) == ["other", "sync"]
    assert [each.id async for each in story.cycles.list(labels={"team": "a"})] == ["other"]
    assert [each.id async for each in story.cycles.list(prefix="sy")] == ["sync"]
    assert [each.id async for each in story.client.schedules.list()] == ["sync"]
    assert (await story.cycles.get("other")).slots == 60


async def test_a_call_that_comes_again_is_answered_as_the_first_time(story: Story) -> None:
    async def create() -> object:
        return await story.cycles.create("sync", every=EVERY, queue="m", slot_queue="s", request_id="once")

    made = await create()
    paused = await story.cycles.pause("sync", request_id="pause")
    await story.cycles.resume("sync", request_id="resume")
    assert await create() == made
    assert await story.cycles.pause("sync", request_id="pause") == paused
    assert (await story.cycles.get("sync")).state is ScheduleState.ACTIVE
    await story.cycles.delete("sync", request_id="delete")
    await story.cycles.delete("sync", request_id="delete")
    assert await create() == made


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"every": 0.5}, "must be from 1 s to 100 years"),
        ({"slots": 7}, "The nearest numbers that do are 6 and 8"),
        ({"slots": 5_000}, "at most 4,096"),
        ({"slots": 1_200}, "at most 600 slots of a second"),
        ({"queue": "a b"}, "is not allowed"),
        ({"slot_queue": "a b"}, "is not allowed"),
    ],
)
async def test_what_is_wrong_is_said_before_anything_is_written(
    story: Story, wrong: dict[str, object], sentence: str
) -> None:
    given: dict[str, object] = {"every": EVERY, "queue": "m", "slot_queue": "s", **wrong}
    with pytest.raises(InvalidTask, match=sentence):
        await story.cycles.create("sync", **given)  # type: ignore[arg-type]
    assert [each async for each in story.cycles.list()] == []
