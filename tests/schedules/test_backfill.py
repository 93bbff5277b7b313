"""Tasks for the instants of a span of the past, told as stories by the clock that the test turns."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.schedules.story import START, Story
from timerd.client import AlreadyExists, Backfill, BackfillState, InvalidTask, NotFound, TaskState
from timerd.core.schedules import backfill as chain
from timerd.model.errors import StoreUnknown
from timerd.services.engine.engine import Engine
from timerd.worker import OccurrenceReason

MINUTE = timedelta(minutes=1)
HOUR_AGO = START - timedelta(hours=1)


async def begin(story: Story, **more: Any) -> Backfill:  # noqa: ANN401 - the keywords of backfill
    """Of the hour before, whose instants are its full minutes."""
    await story.schedules.create("minutely", queue="reports", cron="* * * * *", overlap=more.pop("policy", "allow"))
    return await story.schedules.backfill("minutely", start=HOUR_AGO, end=START, backfill_id="first", **more)


def backfilled(story: Story) -> list[datetime]:
    came = [each.occurrence for _, each in story.came if each.occurrence is not None]
    return [each.instant for each in came if each.reason is OccurrenceReason.BACKFILL]


async def test_each_instant_of_the_span_has_one_task_in_order_and_at_the_rate(story: Story) -> None:
    await story.work()
    begun = await begin(story, rate=2)
    assert (begun.state, begun.created, begun.total, begun.total_is_exact) == (BackfillState.RUNNING, 0, 60, True)
    await story.server.advance(seconds=31)
    assert backfilled(story) == [HOUR_AGO + n * MINUTE for n in range(60)]
    came = [(at, each) for at, each in story.came if each.occurrence and each.occurrence.instant < START]
    assert [at - START for at, _ in came] == [timedelta(seconds=n / 2) for n in range(60)]
    befores = [each.occurrence.previous_instant for _, each in came if each.occurrence]
    assert befores == [HOUR_AGO + (n - 1) * MINUTE for n in range(60)]
    done = await story.schedules.get_backfill("minutely", "first")
    assert (done.state, done.created, done.total) == (BackfillState.DONE, 60, 60)


async def test_the_span_is_half_open(story: Story) -> None:
    await story.work()
    await story.schedules.create("minutely", queue="reports", cron="* * * * *", exclude_dates=["2030-01-01"])
    start = START - timedelta(hours=8, minutes=2)
    await story.schedules.backfill("minutely", start=start, end=start + MINUTE)
    await story.server.advance(seconds=1)
    assert backfilled(story) == [start]


async def test_the_ids_of_its_occurrences_are_its_own_and_stay(story: Story) -> None:
    await story.work()
    await begin(story, rate=1_000)
    await story.schedules.backfill("minutely", start=HOUR_AGO, end=START, rate=1_000, backfill_id="second")
    await story.server.advance(seconds=1)
    assert len(backfilled(story)) == 120
    assert len({each.occurrence.id for _, each in story.came if each.occurrence}) == 120


async def test_it_works_by_the_schedule_as_it_was_and_while_that_is_paused(story: Story) -> None:
    await story.work()
    await begin(story, rate=1)
    await story.schedules.update("minutely", payload="new", every=3_600)
    await story.schedules.pause("minutely")
    await story.server.advance(seconds=61)
    assert len(backfilled(story)) == 60
    assert {each.payload for _, each in story.came} == {b""}
    assert (await story.schedules.get("minutely")).created == 0


async def test_a_cancel_ends_it_and_what_had_not_started_never_comes(story: Story) -> None:
    await story.work()
    await begin(story, rate=1)
    await story.server.advance(seconds=20)
    ended = await story.schedules.cancel_backfill("minutely", "first", request_id="once")
    assert (ended.state, ended.created) == (BackfillState.CANCELLED, 21)
    await story.server.advance(minutes=2)
    assert len(backfilled(story)) == 21
    assert await story.schedules.cancel_backfill("minutely", "first", request_id="once") == ended
    assert [each async for each in story.schedules.list_backfills("minutely")] == [ended]
    await story.schedules.delete("minutely")
    assert [each async for each in story.schedules.list_backfills("minutely")] == [ended]


async def test_a_schedule_that_is_deleted_takes_its_backfills_with_it(story: Story) -> None:
    await story.work()
    await begin(story, rate=1)
    await story.server.advance(seconds=5)
    await story.schedules.delete("minutely")
    came = len(story.came)
    await story.schedules.create("minutely", queue="reports", cron="0 9 1 1 *")
    await story.server.advance(minutes=2)
    assert len(story.came) == came
    assert (await story.schedules.get_backfill("minutely", "first")).state is BackfillState.CANCELLED


async def test_one_after_the_other_waits_for_the_end_of_each(story: Story) -> None:
    await begin(story, overlap="buffer_all", rate=1_000, policy="skip")
    await story.schedules.pause("minutely")
    for _ in range(3):
        await story.server.advance(seconds=30)
        [task] = [
            each
            async for each in story.client.list(queue="reports", start=START, end=story.server.now)
            if each.state is TaskState.PENDING
        ]
        await story.client.cancel(task.id)
    await story.work()
    await story.server.advance(minutes=2)
    assert backfilled(story) == [HOUR_AGO + n * MINUTE for n in range(3, 60)]


async def test_a_call_that_comes_again_is_answered_as_the_first_time(story: Story) -> None:
    await story.schedules.create("minutely", queue="reports", cron="* * * * *")
    span: dict[str, Any] = {"start": HOUR_AGO, "end": START}
    first = await story.schedules.backfill("minutely", **span, request_id="once")
    await story.server.advance(seconds=5)
    assert await story.schedules.backfill("minutely", **span, request_id="once") == first
    assert [each.id async for each in story.schedules.list_backfills("minutely")] == [first.id]
    with pytest.raises(AlreadyExists):
        await story.schedules.backfill("minutely", **span, backfill_id=first.id)


async def test_a_first_try_that_was_not_answered_is_no_second_backfill(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember, tries = Engine.remember, []

    async def forgets_once(engine: Engine, request: bytes, answer: bytes) -> bytes:
        tries.append(request)
        if len(tries) == 1:
            raise StoreUnknown("the disk does not say")
        return await remember(engine, request, answer)

    monkeypatch.setattr(Engine, "remember", forgets_once)
    await story.work()
    await begin(story, rate=1_000)
    await story.server.advance(seconds=1)
    assert len(backfilled(story)) == 60


async def test_it_goes_on_after_a_restart(story: Story) -> None:
    await begin(story, rate=2)
    await story.server.advance(seconds=3)
    await story.server.stop()
    await story.server.advance(minutes=5)
    await story.server.start()
    await story.work()
    await story.server.advance(minutes=1)
    assert sorted(backfilled(story)) == [HOUR_AGO + n * MINUTE for n in range(60)]


async def test_a_long_span_is_counted_by_and_by(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "COUNTED_AT_ONCE", 25)
    begun = await begin(story, rate=1)
    assert (begun.total, begun.total_is_exact) == (25, False)
    await story.server.advance(seconds=20)
    seen = await story.schedules.get_backfill("minutely", "first")
    assert (seen.total, seen.total_is_exact) == (60, True)


async def test_calls_that_do_not_fit_are_refused(story: Story) -> None:
    await story.schedules.create("daily", queue="reports", cron="0 9 * * *")
    for said, start, end, more in (
        ("nothing lies between", HOUR_AGO, HOUR_AGO, {}),
        ("is in the future", HOUR_AGO, START + MINUTE, {}),
        ("names no instant in that span", HOUR_AGO, START, {}),
        ("which would drop nearly all of its instants", HOUR_AGO, START, {"overlap": "skip"}),
        ("give at most 10,000", HOUR_AGO, START, {"rate": 10_001}),
        ("is not allowed", HOUR_AGO, START, {"backfill_id": "a b"}),
    ):
        with pytest.raises(InvalidTask, match=said):
            await story.schedules.backfill("daily", start=start, end=end, **more)
    with pytest.raises(NotFound, match="no schedule 'weekly'"):
        await story.schedules.backfill("weekly", start=HOUR_AGO, end=START)
    with pytest.raises(NotFound, match="has no backfill"):
        await story.schedules.get_backfill("daily", "first")
    with pytest.raises(NotFound, match="has no backfill"):
        await story.schedules.cancel_backfill("daily", "first")


async def test_backfills_of_a_schedule_that_is_not_there_are_not_found(story: Story) -> None:
    with pytest.raises(NotFound, match="no schedule 'minutely'"):
        [each async for each in story.schedules.list_backfills("minutely")]
    await story.schedules.create("minutely", queue="reports", cron="* * * * *")
    assert [each async for each in story.schedules.list_backfills("minutely")] == []
