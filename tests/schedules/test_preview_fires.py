"""A preview says when tasks fire, and not only of which instant they are."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.schedules.story import START, Story


async def test_it_has_the_jitter_that_comes(story: Story) -> None:
    await story.work()
    # Longer than the gap, from which it is drawn then.
    await story.schedules.create("often", queue="reports", every=60, jitter=100)
    foreseen = await story.schedules.preview("often", count=5)
    assert [each.fire_time for each in foreseen] == [
        each.fire_time for each in (await story.schedules.get("often")).upcoming[:5]
    ]
    await story.server.advance(minutes=6)
    assert [at for at, _ in story.came][:5] == [each.fire_time for each in foreseen]
    assert any(each.fire_time > each.instant for each in foreseen)


async def test_what_is_skipped_fires_never(story: Story) -> None:
    night = datetime(2030, 3, 30, 12, tzinfo=UTC)
    await story.schedules.create(
        "night", queue="reports", cron="30 2 * * *", zone="Europe/Berlin", gap="skip", jitter=60, start=START
    )
    skipped, comes = await story.schedules.preview("night", after=night, count=1)
    assert (skipped.change, skipped.fire_time) == ("SKIPPED", skipped.instant)
    assert comes.instant <= comes.fire_time
    [unknown] = await story.schedules.preview(every=60, jitter=3600, count=1)
    assert unknown.fire_time == unknown.instant


async def test_the_last_one_is_jittered_too(story: Story) -> None:
    await story.schedules.create("once", queue="reports", at="2030-01-02T09:00:00", jitter=3600)
    [foreseen] = await story.schedules.preview("once")
    [coming] = (await story.schedules.get("once")).upcoming
    assert foreseen.fire_time == coming.fire_time > coming.instant
