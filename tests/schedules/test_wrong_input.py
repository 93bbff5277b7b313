"""What a call says that cannot be meant is refused in a sentence, and changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.schedules.story import START, Story
from timerd.client import Aborted, AlreadyExists, InvalidTask, NewSchedule, TaskOptions
from timerd.services.schedules import spec_wire

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def refused(call: Any) -> InvalidTask:  # noqa: ANN401 - of any call
    with pytest.raises(InvalidTask) as caught:
        await call
    return caught.value


async def test_an_update_changes_what_it_names_and_nothing_else(story: Story) -> None:
    await story.schedules.create("bill", queue="reports", every=60, catch_up="all", max_count=3)
    first = await story.schedules.update("bill", max_count=5)
    assert (first.catch_up, first.max_count, first.revision) == ("all", 5, 2)
    second = await story.schedules.update("bill", catch_up="latest")
    assert (second.catch_up, second.max_count) == ("latest", 5)
    last = await story.schedules.update("bill", max_count=0)
    assert (last.catch_up, last.max_count) == ("latest", 0)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"catch_up_window": 60}, "catch_up_window"),
        ({"options": TaskOptions(priority=3)}, "options"),
        ({}, "update_mask"),
    ],
)
async def test_an_update_that_would_lose_what_is_given(story: Story, given: dict[str, Any], field: str) -> None:
    await story.schedules.create("bill", queue="reports", every=60)
    error = await refused(story.schedules.update("bill", **given))
    assert error.field == field
    error = await refused(story.schedules.update("bill", payload="new", **given)) if given else error
    assert error.field == field
    assert (await story.schedules.get("bill")).revision == 1


async def test_a_text_is_not_taken_for_its_characters(story: Story) -> None:
    await story.schedules.create("a", queue="reports", every=60, labels={"app": "bills"})
    labels = {"app": "bills"}
    assert "give a list" in str(await refused(story.schedules.prune(labels=labels, keep="a", force=True)))
    assert (await story.schedules.get("a")).revision == 1
    for wrong in ({"cron": 5}, {"at": 5}, {"every": 60, "exclude_dates": 20300101}):
        assert "give a list" in str(await refused(story.schedules.create("b", queue="reports", **wrong)))  # type: ignore[arg-type]
    new = NewSchedule("b", queue="reports", every=60)
    assert "give a list" in str(await refused(story.schedules.create_many(new)))  # type: ignore[arg-type]


async def test_a_cycle_says_of_itself_what_it_is(story: Story) -> None:
    await story.client.cycles.create("sync", every=60, queue="reports")
    with pytest.raises(AlreadyExists, match="a cycle 'sync' already: delete it first, or choose"):
        await story.client.cycles.create("sync", every=60, queue="reports")
    with pytest.raises(Aborted, match="The cycle has revision 1 by now, not 7"):
        await story.client.cycles.pause("sync", revision=7)


async def test_many_times_are_told_in_a_few_words(story: Story) -> None:
    times = [f"2031-01-{day:02}" for day in range(1, 31)]
    made = await story.schedules.create("many", queue="reports", at=times)
    assert made.when == "at 2031-01-01, 2031-01-02, 2031-01-03, and 27 more"
    crons = [f"0 {hour} * * *" for hour in range(4)]
    made = await story.schedules.create("parts", queue="reports", cron=crons)
    assert made.when == "cron 0 0 * * *, cron 0 1 * * *, cron 0 2 * * *, cron 0 3 * * *"


async def test_members_are_a_list(story: Story) -> None:
    await story.client.cycles.create("sync", every=60, queue="reports")
    for call in (story.client.cycles.put, story.client.cycles.remove):
        assert "give a list" in str(await refused(call("sync", "a bank")))
    assert "give a list" in str(await refused(story.client.cycles.put("sync", ["a", "b"], "xy")))
    assert [each async for each in story.client.cycles.members("sync")] == []


@pytest.mark.parametrize("at", ["2030-01-02T09:00:00", datetime(2030, 1, 2, 9), datetime(2030, 1, 2, 9, tzinfo=UTC)])
async def test_one_time_is_a_time(story: Story, at: str | datetime) -> None:
    made = await story.schedules.create("once", queue="reports", at=at)
    assert [each.instant for each in made.upcoming] == [datetime(2030, 1, 2, 9, tzinfo=UTC)]


async def test_what_would_be_passed_over_is_refused(story: Story) -> None:
    anchor = await refused(story.schedules.create("a", queue="reports", cron="@daily", anchor=START))
    assert "give `every` with it" in str(anchor)
    for catch_up in ("latest", "none"):
        new = story.schedules.create("a", queue="reports", every=60, catch_up=catch_up, catch_up_window=60)
        assert "with catch_up ALL" in str(await refused(new))
    end = await refused(story.schedules.create("a", queue="reports", every=60, end=EPOCH))
    assert (end.field, "or leave it out" in str(end)) == ("spec.end_time", True)


async def test_a_pause_that_is_over_is_none(story: Story) -> None:
    await story.schedules.create("a", queue="reports", every=60)
    await story.client.cycles.create("a", every=60, queue="reports")
    for until in (EPOCH, START - timedelta(days=1), story.server.now):
        for of in (story.schedules, story.client.cycles):
            error = await refused(of.pause("a", until=until))
            assert (error.field, "give a later instant" in str(error)) == ("until", True)
            assert (await of.get("a")).revision == 1


async def test_a_repeat_of_a_pause_is_answered_when_it_is_over(story: Story) -> None:
    await story.schedules.create("a", queue="reports", every=60)
    until = START + timedelta(seconds=90)
    await story.schedules.pause("a", until=until, request_id="once")
    await story.server.advance(minutes=5)
    repeat = await story.schedules.pause("a", until=until, request_id="once")
    assert repeat.pause_until == until
    assert (await story.schedules.get("a")).revision == 3


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"every": 0.5}, "spec.parts[0].every.period"),
        ({"cron": "61 * * * *"}, "spec.parts[0].cron"),
        ({"cron": "*/90 * * * *"}, "spec.parts[0].cron"),
        ({"every": 60, "exclude_cron": "* */48 * * *"}, "spec.exclude[0].part.cron"),
        ({"rrule": "FREQ=NEVER"}, "spec.parts[0].rrule"),
        ({"every": 60, "jitter": timedelta(days=400)}, "spec.jitter"),
        ({"every": 60, "start": START + timedelta(1), "end": START}, "spec.end_time"),
        ({"every": 60, "start": datetime(1960, 1, 1, tzinfo=UTC)}, "spec.start_time"),
        ({"fixed_delay": 0.5}, "spec.fixed_delay"),
    ],
)
async def test_a_field_has_the_name_that_callers_know(story: Story, wrong: dict[str, Any], field: str) -> None:
    error = await refused(story.schedules.create("a", queue="reports", **wrong))
    assert error.field == field


async def test_a_step_that_earlier_releases_took_goes_on(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(spec_wire, "refuse_long_steps", lambda *_: None)
        await story.schedules.create("a", queue="reports", cron="*/90 * * * *")
    await story.work()
    changed = await story.schedules.update("a", payload="new")
    assert (changed.when, len(changed.upcoming)) == ("cron */90 * * * *", 10)
    await story.server.restart()
    await story.server.advance(hours=2)
    assert len(story.came) == 2
    assert "give a step from 1 to 60" in str(await refused(story.schedules.update("a", cron="*/90 * * * *")))
