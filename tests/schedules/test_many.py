"""Many schedules at a time, as an application or a deploy calls: on memory and on SQLite, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schedules.story import START, Story, day
from timerd.client import AlreadyExists, InvalidTask, NewSchedule, Pruned
from timerd.model.errors import StoreUnknown
from timerd.sdk.scheduling import new_schedules
from timerd.services.engine.engine import Engine
from timerd.services.schedules.schedules import Schedules as ScheduleStore


def daily(number: int, **more: Any) -> NewSchedule:  # noqa: ANN401 - the keywords of NewSchedule
    return NewSchedule(f"d{number}", queue="reports", payload=str(number), cron="0 9 * * *", **more)


async def test_many_are_created_in_one_call_and_each_comes(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two messages, one of which has more than the server works on at once."""
    monkeypatch.setattr(new_schedules, "MAX_SCHEDULES", 60)
    await story.work()
    results = await story.schedules.create_many(map(daily, range(70)))
    assert [(each.id, each.revision, each.error) for each in results] == [(f"d{n}", 1, None) for n in range(70)]
    await story.server.advance(hours=2)
    assert sorted(int(each.payload) for _, each in story.came) == list(range(70))
    assert {at for at, _ in story.came} == {day(1)}
    assert len([each async for each in story.schedules.list()]) == 70


async def test_what_is_wrong_with_one_leaves_the_others_alone(story: Story) -> None:
    await story.schedules.create("d1", queue="reports", every=60)
    wrong = NewSchedule("never", queue="reports", cron="0 0 30 2 *")
    unsaid = NewSchedule("in vain", queue="reports", every=60)
    results = await story.schedules.create_many([daily(0), daily(1), wrong, unsaid, daily(2)])
    assert [each.revision for each in results] == [1, 0, 0, 0, 1]
    assert isinstance(results[1].error, AlreadyExists)
    assert [type(each.error) for each in results[2:4]] == [InvalidTask, InvalidTask]
    assert {each.id async for each in story.schedules.list()} == {"d0", "d1", "d2"}
    assert (await story.schedules.get("d1")).when == "every 0:01:00"


async def test_of_two_with_one_id_the_first_one_comes_first(story: Story) -> None:
    twice = NewSchedule("d0", queue="reports", every=60, on_conflict="update")
    results = await story.schedules.create_many([daily(0), daily(0), twice])
    assert [each.revision for each in results] == [1, 0, 2]
    assert (await story.schedules.get("d0")).when == "every 0:01:00"


async def test_a_batch_that_comes_again_is_answered_as_the_first_time(story: Story) -> None:
    first = await story.schedules.create_many(map(daily, range(3)), request_id="once")
    await story.schedules.delete("d0")
    await story.schedules.update("d1", every=60)
    again = await story.schedules.create_many(map(daily, range(3)), request_id="once")
    assert again == first
    assert {each.id async for each in story.schedules.list()} == {"d1", "d2"}
    assert (await story.schedules.get("d1")).revision == 2


async def test_a_batch_whose_first_try_was_not_answered_is_not_refused(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All were created, and nobody was told: the client repeats the call by itself."""
    remember, tries = Engine.remember, []

    async def forgets_once(engine: Engine, request: bytes, answer: bytes) -> bytes:
        tries.append(request)
        if len(tries) == 1:
            raise StoreUnknown("the disk does not say")
        return await remember(engine, request, answer)

    monkeypatch.setattr(Engine, "remember", forgets_once)
    results = await story.schedules.create_many(map(daily, range(3)))
    assert len(tries) == 2
    assert [(each.revision, each.error) for each in results] == [(1, None)] * 3


async def test_a_deploy_that_upserts_all_changes_nothing(story: Story) -> None:
    for _ in range(2):
        results = await story.schedules.create_many([daily(number, on_conflict="update") for number in range(60)])
        assert {each.revision for each in results} == {1}


async def test_schedules_of_every_second_lose_nothing(story: Story) -> None:
    """Their first ticks are due before the call is through."""
    await story.work()
    often = [NewSchedule(f"o{number}", queue="reports", every=1, catch_up="all") for number in range(40)]
    assert {each.revision for each in await story.schedules.create_many(often)} == {1}
    await story.server.advance(seconds=10)
    assert len(story.came) == 400
    assert min(at for at, _ in story.came) > START


async def test_a_batch_that_does_not_fit_is_refused_as_a_whole(story: Story) -> None:
    with pytest.raises(InvalidTask, match="give a NewSchedule each"):
        await story.schedules.create_many(["d0"])  # type: ignore[list-item]
    assert await story.schedules.create_many([]) == []


async def ids(story: Story) -> set[str]:
    return {each.id async for each in story.schedules.list()}


async def test_a_prune_deletes_what_the_code_declares_no_longer(story: Story) -> None:
    ours = {"app": "bills", "env": "prod"}
    await story.schedules.create_many([daily(number, labels=ours) for number in range(5)])
    await story.schedules.create_many([daily(number, labels={"app": "bills"}) for number in (5, 6)])
    await story.schedules.pause("d1")
    seen = await story.schedules.prune(labels=ours, keep=["d0", "d2", "new"])
    assert seen == Pruned(("d1", "d3", "d4"), dry_run=True)
    assert len(await ids(story)) == 7
    done = await story.schedules.prune(labels=ours, keep=["d0", "d2"], force=True, request_id="once")
    assert done == Pruned(("d1", "d3", "d4"), dry_run=False)
    assert await ids(story) == {"d0", "d2", "d5", "d6"}
    await story.schedules.create_many([daily(3, labels=ours)])
    assert await story.schedules.prune(labels=ours, keep=["d0", "d2"], force=True, request_id="once") == done
    assert "d3" in await ids(story), "a repeat changes nothing"


async def test_a_prune_without_a_label_or_with_wrong_ids_is_refused(story: Story) -> None:
    await story.schedules.create_many([daily(0, labels={"app": "bills"})])
    with pytest.raises(InvalidTask, match="names no labels"):
        await story.schedules.prune(labels={}, keep=[], force=True)
    with pytest.raises(InvalidTask, match=r"The schedule_id 'd 0' is not allowed") as refused:
        await story.schedules.prune(labels={"app": "bills"}, keep=["d0", "d 0"], force=True)
    assert refused.value.field == "keep[1]"
    assert await ids(story) == {"d0"}


async def test_what_a_deploy_changes_meanwhile_stays(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    await story.schedules.create_many([daily(number, labels={"app": "bills"}) for number in range(2)])
    page = ScheduleStore.page

    async def then_changed(*given: Any) -> Any:  # noqa: ANN401 - as it is
        found = await page(*given)
        monkeypatch.setattr(ScheduleStore, "page", page)
        await story.schedules.update("d0", every=60)
        return found

    monkeypatch.setattr(ScheduleStore, "page", then_changed)
    assert (await story.schedules.prune(labels={"app": "bills"}, keep=[], force=True)).ids == ("d1",)
    assert await ids(story) == {"d0"}
