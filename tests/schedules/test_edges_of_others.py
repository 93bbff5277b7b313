"""What others document of outages, limits and spans of the past, and what a schedule does here: those rows of the table
in docs/understand/schedule-edges.md that need a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.schedules.story import START, Story
from timerd.client import AlreadyExists, BackfillState, ScheduleState
from timerd.worker import Delivery, OccurrenceReason


async def test_an_outage_of_more_than_a_hundred_instants(story: Story) -> None:
    """Kubernetes CronJob: each minute from 08:30 on, and nobody there from 08:29 to 10:21."""
    await story.server.advance(minutes=28)
    await story.schedules.create(
        "minutely", queue="reports", cron="* * * * *", start=datetime(2030, 1, 1, 8, 31, tzinfo=UTC)
    )
    await story.server.stop()
    await story.server.advance(minutes=113, seconds=5)
    await story.server.start()
    await story.work()
    await story.server.advance(seconds=30)
    [(_, delivery)] = story.came
    assert delivery.occurrence is not None
    assert delivery.occurrence.instant == datetime(2030, 1, 1, 10, 21, tzinfo=UTC)
    assert delivery.occurrence.missed_before == 110
    await story.server.advance(seconds=30)
    assert story.instants()[1:] == [datetime(2030, 1, 1, 10, 22, tzinfo=UTC)]


async def test_asked_for_when_the_limit_is_reached(story: Story) -> None:
    """Temporal: actions may still be taken by explicit request."""
    await story.work()
    await story.schedules.create("once", queue="reports", every=60, max_count=1)
    await story.server.advance(seconds=61)
    await story.schedules.trigger("once")
    await story.schedules.backfill("once", start=START - timedelta(minutes=2), end=START)
    await story.server.advance(seconds=1)
    reasons = [each.occurrence.reason for _, each in story.came if each.occurrence]
    assert reasons[0] is OccurrenceReason.SCHEDULE
    assert sorted(reasons[1:]) == [OccurrenceReason.TRIGGER, *[OccurrenceReason.BACKFILL] * 2]
    seen = await story.schedules.get("once")
    assert (seen.state, seen.created) == (ScheduleState.DONE, 1)


async def test_a_span_of_the_past_all_at_once(story: Story) -> None:
    """Temporal: as if that time passed by right now."""
    await story.work()
    await story.schedules.create("often", queue="reports", every=1, start=START - timedelta(days=1), max_count=1)
    await story.server.advance(seconds=2)
    came = len(story.came)
    await story.schedules.backfill("often", start=START - timedelta(seconds=300), end=START, backfill_id="it")
    await story.server.advance(seconds=1)
    assert 90 <= len(story.came) - came <= 110
    await story.server.advance(seconds=3)
    assert len(story.came) - came == 300
    assert (await story.schedules.get_backfill("often", "it")).state is BackfillState.DONE


async def test_a_schedule_that_is_over(story: Story) -> None:
    """EventBridge Scheduler: it stays, unless it was to be deleted by itself."""
    await story.schedules.create("over", queue="reports", every=10, end=START + timedelta(seconds=15))
    await story.server.advance(minutes=1)
    assert (await story.schedules.get("over")).state is ScheduleState.DONE
    with pytest.raises(AlreadyExists):
        await story.schedules.create("over", queue="reports", every=10)
    await story.schedules.delete("over")
    await story.schedules.create("over", queue="reports", every=10)


async def test_a_restart_does_not_move_a_period(story: Story) -> None:
    """Celery: the first one so long after beat has started."""
    await story.schedules.create("often", queue="reports", every=600)
    await story.server.advance(minutes=13)
    await story.server.stop()
    await story.server.start()
    await story.work()
    await story.server.advance(minutes=18)
    assert [came for came, _ in story.came[1:]] == [START + timedelta(minutes=20), START + timedelta(minutes=30)]


async def test_a_zone_that_is_changed(story: Story) -> None:
    """Celery: not every scheduler notices. At 08:00 UTC it is 09:00 in Berlin, and 10:00 in Helsinki."""
    await story.work()
    await story.schedules.create("daily", queue="reports", cron="30 10 * * *", zone="Europe/Berlin")
    await story.server.advance(hours=24)
    moved = await story.schedules.update("daily", cron="30 10 * * *", zone="Europe/Helsinki")
    assert moved.upcoming[0].instant == START + timedelta(hours=24.5)
    await story.server.advance(hours=24)
    assert story.instants() == [START + timedelta(hours=1.5), START + timedelta(hours=24.5)]


async def test_a_change_while_a_run_is_going(story: Story) -> None:
    """Kubernetes CronJob: what has started goes on unchanged. What was created ahead is made anew here."""
    worker, came = story.server.worker(), []

    @worker.on("reports")
    async def handle(delivery: Delivery) -> None:
        await story.server.sleep(seconds=5)
        came.append(delivery.payload)

    await worker.start()
    await story.schedules.create("often", queue="reports", payload="old", every=60)
    await story.server.advance(seconds=61)
    assert came == []
    await story.schedules.update("often", payload="new")
    await story.server.advance(seconds=65)
    assert came == [b"old", b"new"]
