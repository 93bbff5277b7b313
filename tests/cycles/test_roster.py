"""A cycle whose members timerd keeps, told as a story by the clock that the test turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cycles.story import EVERY, START, Story
from timerd.client import FailedPrecondition, NotFound
from timerd.core.slots import cycle as cut
from timerd.testing import Server

MOMENTS = cut(600_000, 10)


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def story(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Story]:
    async with Server(start=START, data=tmp_path if request.param == "sqlite" else None) as server:
        story = Story(server)
        await story.work_members()
        await story.cycles.create("sync", every=EVERY, queue="members", slots=10)
        yield story


def moment(key: int, cycle: int = 0) -> datetime:
    """Counted from the cycle that begins with the story."""
    return START + cycle * EVERY + timedelta(milliseconds=MOMENTS.moment_ms(key))


async def test_each_member_has_its_turn_at_its_moment_in_every_cycle(story: Story) -> None:
    keys = list(range(30))
    assert await story.cycles.put("sync", keys) == 30
    await story.server.advance(minutes=30)
    for key in keys:
        assert story.turns_of(key) == [moment(key, cycle) for cycle in range(3)]


async def test_who_is_put_while_its_slot_is_under_way_has_its_turn_in_it(story: Story) -> None:
    key = next(key for key in range(1_000) if 500 < MOMENTS.moment_ms(key) % 60_000 < 59_000)
    begin = moment(key) - timedelta(milliseconds=MOMENTS.moment_ms(key) % 60_000)
    await story.server.advance(milliseconds=int((begin - START).total_seconds() * 1_000) + 200)
    await story.cycles.put("sync", [key])
    await story.cycles.put("sync", [key])
    await story.server.advance(minutes=12)
    assert story.turns_of(key) == [moment(key), moment(key, 1)]


async def test_who_is_removed_has_no_turn_any_more_also_where_its_task_is_there(story: Story) -> None:
    key = next(key for key in range(1_000) if MOMENTS.moment_ms(key) % 60_000 > 30_000)
    await story.cycles.put("sync", [key, key + 1])
    await story.server.advance(milliseconds=MOMENTS.moment_ms(key) - 10_000)
    await story.cycles.remove("sync", [key, 5_000])
    await story.server.advance(minutes=22)
    assert story.turns_of(key) == []
    assert len(story.turns_of(key + 1)) >= 2
    await story.cycles.put("sync", [key])
    await story.server.advance(minutes=20)
    turns = story.turns_of(key)
    assert turns
    assert turns == sorted({*turns} & {moment(key, cycle) for cycle in range(5)})


async def test_members_are_listed_by_their_moments_with_their_payloads(story: Story) -> None:
    keys = [*range(150), "zoë"]
    await story.cycles.put("sync", keys, [f"payload {key}" for key in keys])
    await story.cycles.put("sync", [7], ["other"])
    await story.cycles.remove("sync", range(100, 150))
    listed = [each async for each in story.cycles.members("sync")]
    left = [*range(100), "zoë"]
    assert [each.key for each in listed] == [str(key) for key in sorted(left, key=MOMENTS.moment_ms)]
    expected = {str(key): f"payload {key}".encode() for key in left} | {"7": b"other"}
    assert {each.key: each.payload for each in listed} == expected


async def test_a_new_payload_counts_from_the_next_turn_on_and_doubles_nobody(story: Story) -> None:
    await story.cycles.put("sync", [1], ["old"])
    await story.server.advance(minutes=10)
    await story.cycles.put("sync", [1], ["new"])
    await story.server.advance(minutes=20)
    assert [each.payload for each in story.seen] == [b"old", b"new", b"new"]


async def test_what_slots_cost_is_counted(story: Story) -> None:
    await story.cycles.put("sync", range(40))
    await story.server.advance(minutes=10)
    costs = (await story.cycles.get("sync")).costs
    assert sum(each.members for each in costs) == 40
    wanted = Counter(MOMENTS.moment_ms(key) // 60_000 for key in range(40))
    assert {each.slot: each.members for each in costs} == wanted


async def test_a_roster_goes_with_its_cycle_and_others_have_none(story: Story) -> None:
    await story.cycles.put("sync", [1])
    await story.cycles.delete("sync")
    with pytest.raises(NotFound, match="There is no cycle 'sync'"):
        await story.cycles.put("sync", [1])
    await story.cycles.create("sync", every=EVERY, queue="members", slots=10)
    assert [each async for each in story.cycles.members("sync")] == []
    await story.cycles.create("other", every=EVERY, queue="members", slot_queue="slots")
    with pytest.raises(FailedPrecondition, match="in your database") as refused:
        await story.cycles.put("other", [1])
    assert refused.value.reason == "NO_ROSTER"


async def test_who_is_removed_while_it_is_paused_has_none_of_the_turns_that_were_ahead_before() -> None:
    """A short cycle has many slots ahead; a member that is put has its tasks in all of them."""
    async with Server(start=START) as server:
        story = Story(server)
        await story.work_members()
        await story.cycles.create("short", every=10, queue="members", slots=10)
        await server.advance(seconds=15)
        await story.cycles.put("short", [1, 2])
        await server.advance(seconds=10)
        await story.cycles.pause("short")
        await story.cycles.remove("short", [1])
        gone = server.now
        await server.advance(seconds=25)
        assert [at - gone for at in story.turns_of(1) if at > gone] == []
        assert len([at for at in story.turns_of(2) if at > gone]) >= 2
