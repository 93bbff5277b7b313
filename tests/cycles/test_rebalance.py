"""Members of a high weight are moved to other moments by a call, and by nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cycles.story import EVERY, START, Story
from timerd.client import Aborted, Cycle, FailedPrecondition, InvalidTask, NotFound
from timerd.core.slots import cycle as cut
from timerd.testing import Server

MOMENTS = cut(600_000, 10)
LIGHT = range(1_000, 1_030)
ON_BOTH = pytest.mark.parametrize("story", ["memory", "sqlite"], indirect=True)


@pytest_asyncio.fixture
async def story(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Story]:
    is_on_disk = getattr(request, "param", "memory") == "sqlite"
    async with Server(start=START, data=tmp_path if is_on_disk else None) as server:
        story = Story(server)
        await story.work_members()
        await story.cycles.create("sync", every=EVERY, queue="members", slots=10)
        yield story


def slot(key: int) -> int:
    return MOMENTS.moment_ms(key) // 60_000


def of_one_slot(count: int, number: int = 4) -> list[int]:
    """Keys whose moments are in the same minute."""
    return [key for key in range(1_000) if slot(key) == number][:count]


async def crowded(story: Story) -> list[int]:
    """Five of a slot cost as much as all others of a slot and more."""
    heavy = of_one_slot(5)
    await story.cycles.put("sync", LIGHT)
    await story.cycles.put("sync", heavy, weights=[20] * 5)
    return heavy


def largest(cycle: Cycle) -> float:
    return max(each.weight for each in cycle.costs)


async def test_the_costliest_slot_gives_members_away_to_others(story: Story) -> None:
    heavy = await crowded(story)
    await story.server.advance(minutes=12)
    before = await story.cycles.get("sync")
    assert largest(before) == before.costs[4].weight >= 100
    done = await story.cycles.rebalance("sync", max_moved=0.2, force=True)
    assert 2 <= done.moved <= 7
    assert done.largest <= 0.6 * done.largest_before
    assert done.effective_time is not None
    await story.server.advance_to(done.effective_time + EVERY)
    after = await story.cycles.get("sync")
    assert largest(after) == pytest.approx(done.largest)
    assert sum(each.members for each in after.costs) == len(LIGHT) + len(heavy)


@ON_BOTH
async def test_each_has_one_turn_in_each_cycle_also_while_it_is_moved(story: Story) -> None:
    heavy = await crowded(story)
    await story.server.advance(minutes=13)
    done = await story.cycles.rebalance("sync", max_moved=0.2, force=True)
    await story.server.advance(minutes=27)
    begin, effective = START + EVERY, done.effective_time
    assert effective == START + 2 * EVERY
    moved = 0
    for key in [*heavy, *LIGHT]:
        turns = [at for at in story.turns_of(key) if at >= begin]
        assert [(at - START) // EVERY for at in turns] == [1, 2, 3], key
        own = timedelta(milliseconds=MOMENTS.moment_ms(key))
        assert {(at - START) % EVERY for at in turns if at < effective} == {own}
        [after] = {(at - START) % EVERY for at in turns if at >= effective}
        moved += after != own
    assert moved == done.moved > 1


async def test_without_force_it_says_what_would_be_moved_and_nothing_is(story: Story) -> None:
    heavy = await crowded(story)
    seen = await story.cycles.rebalance("sync", max_moved=0.2)
    assert seen.moved >= 2
    assert seen.effective_time is None
    assert (await story.cycles.get("sync")).revision == 1
    await story.server.advance(minutes=30)
    for key in heavy:
        assert len({(at - START) % EVERY for at in story.turns_of(key)}) == 1


async def test_no_more_are_moved_than_may_be(story: Story) -> None:
    await crowded(story)
    assert (await story.cycles.rebalance("sync", max_moved=0.03)).moved == 1
    assert (await story.cycles.rebalance("sync", max_moved=1)).moved > 1


async def test_who_is_moved_can_be_removed_and_put_again(story: Story) -> None:
    heavy = await crowded(story)
    done = await story.cycles.rebalance("sync", max_moved=0.2, force=True)
    assert done.effective_time is not None
    # In the midst of the first cycle in which they are elsewhere; the slots that come next are filled.
    await story.server.advance_to(done.effective_time + timedelta(minutes=4, seconds=30))
    await story.cycles.remove("sync", heavy)
    gone = story.server.now
    await story.server.advance(minutes=15)
    assert [at for key in heavy for at in story.turns_of(key) if at > gone] == []
    await story.cycles.put("sync", heavy)
    back = story.server.now
    await story.server.advance(minutes=30)
    counts = {key: len([at for at in story.turns_of(key) if at > back]) for key in heavy}
    assert set(counts.values()) <= {2, 3}


async def test_a_second_rebalance_goes_on_from_where_the_first_one_has_left(story: Story) -> None:
    heavy = await crowded(story)
    first = await story.cycles.rebalance("sync", max_moved=0.03, force=True)
    second = await story.cycles.rebalance("sync", max_moved=0.03, force=True)
    assert second.largest_before == first.largest
    assert second.largest < first.largest
    await story.server.advance(minutes=25)
    third = await story.cycles.rebalance("sync", max_moved=1, force=True)
    await story.server.advance(minutes=25)
    assert third.largest <= second.largest
    assert max(Counter((key, (at - START) // EVERY) for key in heavy for at in story.turns_of(key)).values()) == 1
    again = await story.cycles.rebalance("sync", max_moved=1, force=True)
    assert (again.moved, again.effective_time) == (0, None)


async def test_a_call_that_comes_again_moves_nobody_else(story: Story) -> None:
    await crowded(story)
    first = await story.cycles.rebalance("sync", max_moved=0.03, force=True, request_id="once")
    assert await story.cycles.rebalance("sync", max_moved=0.03, force=True, request_id="once") == first
    assert (await story.cycles.get("sync")).revision == 2
    with pytest.raises(Aborted, match="revision 2"):
        await story.cycles.rebalance("sync", max_moved=0.2, force=True, revision=1)


async def test_a_paused_cycle_stays_paused_and_goes_on_with_the_new_moments(story: Story) -> None:
    heavy = await crowded(story)
    await story.cycles.pause("sync")
    await story.cycles.rebalance("sync", max_moved=0.2, force=True)
    assert (await story.cycles.get("sync")).state.name == "PAUSED"
    await story.cycles.resume("sync")
    await story.server.advance(minutes=35)
    last = START + timedelta(minutes=20)
    elsewhere = [
        key
        for key in heavy
        for at in story.turns_of(key)
        if at > last and (at - START) % EVERY != timedelta(milliseconds=MOMENTS.moment_ms(key))
    ]
    assert len({*elsewhere}) >= 2


async def test_a_member_that_alone_costs_more_than_a_slot_should_is_named(story: Story) -> None:
    await story.cycles.put("sync", LIGHT)
    await story.cycles.put("sync", ["giant"], weights=[1_000])
    seen = await story.cycles.rebalance("sync")
    assert seen.largest_key == "giant"
    assert seen.largest >= 1_000


async def test_weights_are_listed_and_put_anew(story: Story) -> None:
    await story.cycles.put("sync", [1, 2], weights=[0.5, 3])
    assert {each.key: each.weight async for each in story.cycles.members("sync")} == {"1": 0.5, "2": 3}
    await story.cycles.put("sync", [1], ["one"])
    listed = {each.key: (each.weight, each.payload) async for each in story.cycles.members("sync")}
    assert listed == {"1": (1, b"one"), "2": (3, b"2")}


async def test_what_is_wrong_is_said_before_anything_is_written(story: Story) -> None:
    with pytest.raises(InvalidTask, match="as many as `keys`"):
        await story.cycles.put("sync", [1, 2], weights=[1])
    with pytest.raises(InvalidTask, match="A weight is a number above 0"):
        await story.cycles.put("sync", [1], weights=[0])
    with pytest.raises(InvalidTask, match="up to 1,000,000,000"):
        await story.cycles.put("sync", [1], weights=[1e12])
    with pytest.raises(InvalidTask, match="a share of the members"):
        await story.cycles.rebalance("sync", max_moved=2)
    with pytest.raises(NotFound, match="There is no cycle 'other'"):
        await story.cycles.rebalance("other")
    await story.cycles.create("theirs", every=EVERY, queue="members", slot_queue="slots")
    with pytest.raises(FailedPrecondition, match="in your database"):
        await story.cycles.rebalance("theirs", force=True)
    assert [each async for each in story.cycles.members("sync")] == []
