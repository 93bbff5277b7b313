"""A schedule from its creation to its end, told as a story by the clock that the test turns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.schedules.story import START, Story, day
from timerd.client import Aborted, AlreadyExists, InvalidTask, NotFound, ScheduleState, TaskState
from timerd.core.protocol import Procedure
from timerd.core.recurrence import Recurrence
from timerd.model.errors import StoreUnknown
from timerd.model.schedules import Tick
from timerd.services.schedules import ticking
from timerd.worker import Delivery, OccurrenceReason, Reject


async def test_a_task_comes_at_each_instant_and_says_which(story: Story) -> None:
    await story.work()
    made = await story.schedules.create("daily", queue="reports", payload="go", cron="0 9 * * *")
    assert (made.state, made.revision, made.upcoming[0].instant) == (ScheduleState.ACTIVE, 1, day(1))
    await story.server.advance(days=3)
    assert [at for at, _ in story.came] == [day(1), day(2), day(3)]
    delivery = story.came[1][1]
    assert delivery.payload == b"go"
    assert delivery.occurrence is not None
    assert delivery.occurrence.previous_instant == day(1)
    assert delivery.occurrence.reason is OccurrenceReason.SCHEDULE
    assert len({each.occurrence.id for _, each in story.came if each.occurrence}) == 3
    assert (await story.schedules.get("daily")).created == 3


async def test_every_second_is_exact(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=1, catch_up="all")
    await story.server.advance(minutes=3)
    assert [at for at, _ in story.came] == [START + timedelta(seconds=n) for n in range(1, 181)]
    assert story.instants() == [at for at, _ in story.came]


async def test_an_update_takes_effect_at_one_moment(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", payload="old", every=10, catch_up="all")
    await story.server.advance(seconds=25)
    changed = await story.schedules.update("often", payload="new", every=15)
    assert changed.revision == 2
    await story.server.advance(seconds=35)
    assert [(at - START, each.payload) for at, each in story.came] == [
        (timedelta(seconds=10), b"old"),
        (timedelta(seconds=20), b"old"),
        (timedelta(seconds=30), b"new"),
        (timedelta(seconds=45), b"new"),
        (timedelta(seconds=60), b"new"),
    ]


async def test_an_update_to_a_shorter_period_loses_nothing_before_the_next_instant_of_the_longer_one(
    story: Story,
) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=60, catch_up="all")
    await story.server.advance(seconds=65)
    await story.schedules.update("often", every=10)
    await story.server.advance(seconds=60)
    assert [(at - START).seconds for at, _ in story.came] == [60, 70, 80, 90, 100, 110, 120]


async def test_an_update_looks_at_no_instant_that_is_long_over(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each second since the last daily one would be a long time for the loop."""
    await story.work()
    await story.schedules.create("daily", queue="reports", cron="0 0 * * *")
    await story.server.advance(hours=30)
    looks, after = 0, Recurrence.after

    def counting(self: Recurrence, instant_ms: int, count: int) -> list[int]:
        nonlocal looks
        looks += 1
        return after(self, instant_ms, count)

    monkeypatch.setattr(Recurrence, "after", counting)
    await story.schedules.update("daily", every=1)
    await story.server.advance(seconds=5)
    assert len(story.came) == 1 + 5
    assert looks < 500


async def test_a_pause_stops_it_and_a_resume_goes_on_with_the_next_instant(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=10)
    await story.server.advance(seconds=25)
    paused = await story.schedules.pause("often", note="a migration")
    assert (paused.state, paused.note, paused.upcoming) == (ScheduleState.PAUSED, "a migration", ())
    await story.server.advance(seconds=100)
    assert len(story.came) == 2
    resumed = await story.schedules.resume("often")
    assert (resumed.state, resumed.note) == (ScheduleState.ACTIVE, "")
    await story.server.advance(seconds=15)
    assert story.instants()[2:] == [START + timedelta(seconds=130), START + timedelta(seconds=140)]
    assert (await story.schedules.get("often")).missed == 0


async def test_a_resume_may_catch_up_what_was_missed(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=10, catch_up="all")
    await story.server.advance(seconds=25)
    await story.schedules.pause("often")
    await story.server.advance(seconds=30)
    await story.schedules.resume("often", catch_up=True)
    await story.server.advance(seconds=5)
    assert story.instants() == [START + timedelta(seconds=10 * n) for n in range(1, 7)]
    reasons = [each.occurrence.reason for _, each in story.came if each.occurrence]
    assert reasons[2:5] == [OccurrenceReason.CATCH_UP] * 3


async def test_a_pause_may_end_by_itself(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=10)
    await story.schedules.pause("often", until=START + timedelta(seconds=95))
    await story.server.advance(seconds=105)
    assert story.instants() == [START + timedelta(seconds=100)]
    assert (await story.schedules.get("often")).state is ScheduleState.ACTIVE


async def test_what_is_deleted_comes_no_more(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=10)
    await story.server.advance(seconds=25)
    await story.schedules.delete("often")
    await story.server.advance(minutes=5)
    assert len(story.came) == 2
    with pytest.raises(NotFound):
        await story.schedules.get("often")
    assert [each async for each in story.schedules.list()] == []
    await story.schedules.create("often", queue="reports", every=60)
    await story.server.advance(minutes=1)
    assert len(story.came) == 3


async def test_a_trigger_makes_one_more_task_now_however_often_it_is_asked_for(story: Story) -> None:
    await story.work()
    await story.schedules.create("daily", queue="reports", cron="0 9 * * *")
    first = await story.schedules.trigger("daily", request_id="once")
    assert await story.schedules.trigger("daily", request_id="once") == first
    await story.server.advance(seconds=1)
    [(at, delivery)] = story.came
    assert at == START
    assert delivery.occurrence is not None
    assert delivery.occurrence.reason is OccurrenceReason.TRIGGER


async def test_it_is_done_after_its_number_of_tasks(story: Story) -> None:
    await story.work()
    await story.schedules.create("thrice", queue="reports", every=10, max_count=3)
    await story.server.advance(minutes=3)
    assert len(story.came) == 3
    done = await story.schedules.get("thrice")
    assert (done.state, done.created) == (ScheduleState.DONE, 3)


@pytest.mark.parametrize("last", [{"max_count": 3}, {"end": START + timedelta(seconds=31)}])
async def test_it_is_not_done_before_its_last_task_was_to_fire(story: Story, last: dict[str, Any]) -> None:
    """Its tasks are written ahead."""
    await story.work()
    await story.schedules.create("thrice", queue="reports", every=10, **last)
    await story.server.advance(seconds=1)
    for come in (1, 2, 3):
        coming = await story.schedules.get("thrice")
        assert [each.state async for each in story.schedules.list()] == [coming.state] == [ScheduleState.ACTIVE]
        assert len(coming.upcoming) == 4 - come
        await story.server.advance(seconds=10)
        assert len(story.came) == come
    done = await story.schedules.get("thrice")
    assert (done.state, done.upcoming, len(story.came)) == (ScheduleState.DONE, (), 3)
    assert [each.state async for each in story.schedules.list(states=[ScheduleState.DONE])] == [ScheduleState.DONE]


@pytest.mark.parametrize("last", ["of as many as there may be", "of its times"])
async def test_one_that_is_done_is_changed_and_deleted_as_every_other_one(story: Story, last: str) -> None:
    await story.work()
    most = {"max_count": 3} if "many" in last else {"end": START + timedelta(seconds=31)}
    await story.schedules.create("thrice", queue="reports", every=10, **most)
    await story.server.advance(minutes=3)
    await story.schedules.update("thrice", payload="new")
    await story.server.advance(minutes=3)
    assert (await story.schedules.get("thrice")).state is ScheduleState.DONE
    await story.schedules.update("thrice", payload="newer")
    await story.schedules.pause("thrice")
    await story.server.advance(minutes=3)
    await story.schedules.resume("thrice", catch_up=True)
    await story.server.advance(minutes=1)
    seen = await story.schedules.get("thrice")
    await story.schedules.delete("thrice")
    assert (len(story.came), seen.created, seen.missed) == (3, 3, 0)


async def test_a_limit_counts_what_an_update_withdraws_back(story: Story) -> None:
    await story.work()
    await story.schedules.create("five", queue="reports", every=10, max_count=5, catch_up="all")
    await story.server.advance(seconds=25)
    await story.schedules.update("five", payload="new")
    await story.server.advance(minutes=3)
    assert [each.payload for _, each in story.came] == [b"", b"", b"new", b"new", b"new"]


@pytest.mark.parametrize("most", [1, 2, 3, 4])
async def test_a_limit_that_is_lowered_holds(story: Story, most: int) -> None:
    """Also below what was recorded ahead by then."""
    await story.work()
    await story.schedules.create("many", queue="reports", every=60, max_count=5)
    await story.server.advance(seconds=90)
    assert (await story.schedules.get("many")).created > 2
    lowered = await story.schedules.update("many", max_count=most)
    assert len(lowered.upcoming) == most - 1
    await story.server.advance(minutes=10)
    assert len(story.came) == most
    done = await story.schedules.get("many")
    assert (done.state, done.created) == (ScheduleState.DONE, most)


async def test_what_is_upcoming_ends_with_the_limit(story: Story) -> None:
    made = await story.schedules.create("thrice", queue="reports", every=3_600, max_count=3)
    assert [each.instant for each in made.upcoming] == [START + timedelta(hours=n) for n in (1, 2, 3)]
    await story.server.advance(hours=2)
    assert [each.instant for each in (await story.schedules.get("thrice")).upcoming] == [START + timedelta(hours=3)]


async def test_after_an_outage_the_last_instant_is_caught_up(story: Story) -> None:
    await story.schedules.create("hourly", queue="reports", every=3_600)
    await story.server.stop()
    await story.server.advance(hours=10.5)
    await story.server.start()
    await story.work()
    await story.server.advance(minutes=1)
    assert story.instants() == [START + timedelta(hours=10)]
    [delivery] = [each for _, each in story.came]
    assert delivery.occurrence is not None
    assert (delivery.occurrence.reason, delivery.occurrence.missed_before) == (OccurrenceReason.CATCH_UP, 9)
    await story.server.advance(hours=1)
    assert story.instants()[1:] == [START + timedelta(hours=11)]
    seen = await story.schedules.get("hourly")
    assert (seen.created, seen.missed) == (2, 9)


async def test_calls_that_do_not_fit_are_refused(story: Story) -> None:
    await story.schedules.create("daily", queue="reports", cron="0 9 * * *")
    with pytest.raises(AlreadyExists):
        await story.schedules.create("daily", queue="reports", cron="0 9 * * *")
    with pytest.raises(Aborted):
        await story.schedules.pause("daily", revision=7)
    with pytest.raises(NotFound):
        await story.schedules.pause("weekly")
    for wrong in ({"cron": "61 * * * *"}, {"every": 0.5}, {"cron": "0 9 * * *", "zone": "Mars/Olympus"}):
        with pytest.raises(InvalidTask):
            await story.schedules.create("wrong", queue="reports", **wrong)


async def test_a_call_that_comes_again_is_answered_as_the_first_time_whatever_was_done_since(story: Story) -> None:
    """G2: created, deleted, created anew; an idle resume; a pause behind more changes than the register knows."""
    first = await story.schedules.create("daily", queue="reports", cron="0 9 * * *", request_id="create")
    idle = await story.schedules.resume("daily", request_id="resume")
    await story.schedules.pause("daily", note="once", request_id="pause")
    assert await story.schedules.resume("daily", request_id="resume") == idle
    assert (await story.schedules.get("daily")).state is ScheduleState.PAUSED
    for _ in range(5):
        await story.schedules.resume("daily")
        await story.schedules.pause("daily", note="again")
    await story.schedules.resume("daily")
    assert (await story.schedules.pause("daily", note="once", request_id="pause")).revision == 2
    assert (await story.schedules.get("daily")).state is ScheduleState.ACTIVE
    await story.schedules.delete("daily", request_id="delete")
    assert await story.schedules.create("daily", queue="reports", cron="0 9 * * *", request_id="create") == first
    with pytest.raises(NotFound):
        await story.schedules.get("daily")
    await story.schedules.create("daily", queue="reports", cron="0 10 * * *")
    await story.schedules.delete("daily", request_id="delete")
    assert (await story.schedules.get("daily")).upcoming[0].instant == day(1, 10)


async def test_an_update_without_a_zone_keeps_that_of_the_schedule(story: Story) -> None:
    await story.schedules.create("daily", queue="reports", cron="0 10 * * *", zone="Europe/Berlin")
    moved = await story.schedules.update("daily", cron="0 11 * * *")
    assert (moved.upcoming[0].instant, moved.revision) == (day(1, 10), 2)


async def test_a_deploy_that_upserts_all_changes_nothing(story: Story) -> None:
    for _ in range(3):
        made = await story.schedules.create("daily", queue="reports", cron="0 9 * * *", on_conflict="update")
        assert made.revision == 1
    made = await story.schedules.create("daily", queue="reports", cron="0 10 * * *", on_conflict="update")
    assert (made.revision, made.upcoming[0].instant) == (2, day(1, 10))


async def test_schedules_are_listed_by_what_they_have(story: Story) -> None:
    for number in range(150):
        zone = "Europe/Berlin" if number % 2 else "UTC"
        labels = {"team": "a" if number % 3 else "b"}
        await story.schedules.create(f"s{number:03d}", queue="reports", cron="0 9 * * *", zone=zone, labels=labels)
    await story.schedules.pause("s010")
    assert len({each.id async for each in story.schedules.list()}) == 150
    assert len([each async for each in story.schedules.list(zone="Europe/Berlin")]) == 75
    assert len([each async for each in story.schedules.list(labels={"team": "b"})]) == 50
    assert [each.id async for each in story.schedules.list(states=[ScheduleState.PAUSED])] == ["s010"]
    assert len([each async for each in story.schedules.list(prefix="s14")]) == 10


async def test_a_preview_shows_what_a_change_of_the_clock_does(story: Story) -> None:
    shown = await story.schedules.preview(
        cron="30 2 * * *", zone="Europe/Berlin", after=datetime(2030, 3, 30, tzinfo=UTC), count=2
    )
    assert [each.instant for each in shown] == [
        datetime(2030, 3, 30, 1, 30, tzinfo=UTC),
        datetime(2030, 3, 31, 1, 0, tzinfo=UTC),
    ]


async def test_a_worker_may_declare_the_schedule_beside_its_handler(story: Story) -> None:
    worker = story.server.worker()
    came: list[datetime] = []

    @worker.scheduled("cleanup", every=600, payload="old files")
    async def clean_up(delivery: Delivery) -> None:
        assert delivery.payload == b"old files"
        came.append(story.server.now)

    await worker.start()
    assert (await story.schedules.get("cleanup")).queue == "scheduled/cleanup"
    await story.server.advance(minutes=31)
    assert came == [START + timedelta(minutes=10 * n) for n in (1, 2, 3)]


async def test_a_schedule_that_the_server_refuses_ends_the_worker(story: Story) -> None:
    worker = story.server.worker()
    worker.scheduled("never", cron="0 0 30 2 *")(print)
    with pytest.raises(InvalidTask):
        await worker.run()


async def test_a_task_that_nobody_takes_makes_way_for_the_next_one(story: Story) -> None:
    """LATEST, before an outage and after it."""
    await story.schedules.create("often", queue="reports", every=60)
    await story.server.advance(seconds=330)
    await story.work()
    await story.server.advance(seconds=1)
    assert story.instants() == [START + timedelta(seconds=300)]
    expired = [task async for task in story.client.list(start=START, end=story.server.now, states=[TaskState.EXPIRED])]
    assert [task.fire_time for task in expired] == [START + timedelta(seconds=60 * n) for n in range(1, 5)]


async def test_a_task_that_its_jitter_delays_has_its_time_until_the_next_one_fires(story: Story) -> None:
    """LATEST. By the next instant alone, what fires just before it would have no time to be delivered."""
    for jitter in (60, 600):
        await story.schedules.create(f"spread-{jitter}", queue=f"spread-{jitter}", every=60, jitter=jitter)
    await story.server.advance(seconds=1)
    for jitter in (60, 600):
        ahead = [each async for each in story.client.list(queue=f"spread-{jitter}")]
        ahead.sort(key=lambda each: each.fire_time)
        assert len(ahead) > 1
        for before, after in pairwise(ahead):
            assert before.expire_time == after.fire_time
        over = ahead[-1].expire_time
        assert over is not None
        assert over >= START + timedelta(minutes=len(ahead) + 1)


async def test_none_forgets_what_is_over_for_a_minute(story: Story) -> None:
    await story.schedules.create("often", queue="reports", every=20, catch_up="none")
    await story.server.stop()
    await story.server.advance(seconds=3_605)
    await story.server.start()
    await story.work()
    await story.server.advance(seconds=1)
    before = 177
    assert story.instants() == [START + timedelta(seconds=20 * n) for n in range(before + 1, 181)]
    seen = await story.schedules.get("often")
    # What was recorded before the outage has expired since.
    assert seen.missed + seen.created >= 180


async def test_what_fails_ten_times_is_broken_and_goes_on_by_itself(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    await story.schedules.create("often", queue="reports", every=20, catch_up="all")

    def fails(tick: Tick, world: object) -> Procedure[None]:
        yield from ()
        raise StoreUnknown("the disk does not say")

    with monkeypatch.context() as broken:
        broken.setattr(ticking, "tick_or_resume", fails)
        await story.server.advance(minutes=9)
    seen = await story.schedules.get("often")
    assert (seen.state, seen.error) == (ScheduleState.BROKEN, "the disk does not say")
    await story.work()
    await story.server.advance(minutes=2)
    assert (await story.schedules.get("often")).state is ScheduleState.ACTIVE
    assert story.instants() == [START + timedelta(seconds=20 * n) for n in range(1, 34)]


async def test_a_dead_letter_knows_its_instant_when_it_lives_again(story: Story) -> None:
    worker = story.server.worker()
    fails = True

    @worker.on("reports")
    async def handle(delivery: Delivery) -> None:
        if fails:
            raise Reject("not yet")
        story.came.append((story.server.now, delivery))

    await worker.start()
    await story.schedules.create("once", queue="reports", at=["2030-01-01T09:00:00"])
    await story.server.advance(days=3)
    [letter] = [each async for each in story.client.dead_letters("reports")]
    fails = False
    await story.client.redrive([letter.task.id])
    await story.server.advance(seconds=1)
    assert story.instants() == [day(1)]
