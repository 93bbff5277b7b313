"""Nobody was there for three days: under LATEST each schedule has one task of them, under ALL each instant has one, and
what is on time comes meanwhile."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from tests.schedules.story import START, Story

HOUR = timedelta(hours=1)
HOURS = 72


async def test_after_three_days_latest_has_one_a_schedule_and_all_is_exact(story: Story) -> None:
    for number in range(3):
        await story.schedules.create(f"latest-{number}", queue="reports", every=HOUR)
        await story.schedules.create(f"all-{number}", queue="reports", every=HOUR, catch_up="all")
    await story.server.stop()
    await story.server.advance(hours=HOURS, minutes=30)
    await story.server.start()
    begun = story.server.now
    await story.client.schedule("reports", b"on time", at=begun + timedelta(seconds=1))
    await story.work()
    await story.server.advance(seconds=10)
    assert [at for at, each in story.came if each.payload == b"on time"] == [begun + timedelta(seconds=1)]
    found: Counter[tuple[str, datetime]] = Counter()
    for _, each in story.came:
        if each.occurrence is not None:
            found[each.occurrence.schedule_id, each.occurrence.instant] += 1
    every = [START + number * HOUR for number in range(1, HOURS + 1)]
    latest = {(f"latest-{number}", every[-1]) for number in range(3)}
    assert found == Counter([*latest, *((f"all-{number}", at) for number in range(3) for at in every)])
    seen = [await story.schedules.get(f"{kind}-0") for kind in ("latest", "all")]
    # The task of the next instant is there as well.
    assert [(each.created, each.missed) for each in seen] == [(1 + 1, HOURS - 1), (HOURS + 1, 0)]
