"""A fixed delay, told as stories by the clock that the test turns: so long after the end of the task before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from tests.schedules.story import START, Story
from timerd.client import FailedPrecondition, InvalidTask, RetryPolicy, ScheduleState, TaskOptions
from timerd.worker import Delivery, OccurrenceReason, Reject


async def work(story: Story, *lasting_s: float) -> list[tuple[float, bytes]]:
    """A worker whose handler takes so long, each time the next of these times, then the last one for ever. Returns when
    each has begun, and its payload."""
    worker, left, begun = story.server.worker(), list(lasting_s), []

    @worker.on("reports", concurrency=10)
    async def handle(delivery: Delivery) -> None:
        begun.append((seconds(story), delivery.payload))
        await story.server.sleep(seconds=left.pop(0) if len(left) > 1 else left[0])

    await worker.start()
    return begun


def seconds(story: Story) -> float:
    return (story.server.now - START).total_seconds()


def times(begun: Sequence[tuple[float, bytes]]) -> list[float]:
    return [at for at, _ in begun]


async def test_each_task_comes_so_long_after_the_end_of_the_one_before(story: Story) -> None:
    begun = await work(story, 10, 200, 1)
    made = await story.schedules.create("poll", queue="reports", fixed_delay=60)
    assert (made.overlap, made.when, made.upcoming[0].instant) == (
        "skip",
        "0:01:00 after each end",
        START + timedelta(seconds=60),
    )
    await story.server.advance(minutes=7)
    assert times(begun) == [60, 130, 390]
    seen = await story.schedules.get("poll")
    assert (seen.state, seen.created, seen.missed, seen.skipped) == (ScheduleState.ACTIVE, 3, 0, 0)
    assert [each.instant for each in seen.upcoming] == [START + timedelta(seconds=451)]


async def test_retries_belong_to_the_task_and_a_dead_letter_is_an_end(story: Story) -> None:
    worker, attempts = story.server.worker(), []

    @worker.on("reports")
    async def handle(delivery: Delivery) -> None:
        attempts.append((seconds(story), delivery.attempt))
        if delivery.attempt == 2:
            raise Reject("no")
        raise ValueError("not yet")

    await worker.start()
    retry = RetryPolicy(max_attempts=5, initial_backoff=30, multiplier=1, jitter=0)
    await story.schedules.create("poll", queue="reports", fixed_delay=60, options=TaskOptions(retry=retry))
    await story.server.advance(minutes=3.5)
    assert [attempt for _, attempt in attempts] == [1, 2, 1, 2]
    assert attempts[2][0] - attempts[1][0] == 60


async def test_it_begins_at_its_start_and_ends_before_its_end(story: Story) -> None:
    begun = await work(story, 5)
    start, end = START + timedelta(minutes=5), START + timedelta(minutes=7)
    await story.schedules.create("poll", queue="reports", fixed_delay=30, start=start, end=end)
    await story.server.advance(minutes=10)
    assert times(begun) == [300, 335, 370, 405]
    assert (await story.schedules.get("poll")).state is ScheduleState.DONE


async def test_so_many_at_most(story: Story) -> None:
    begun = await work(story, 1)
    await story.schedules.create("poll", queue="reports", fixed_delay=10, max_count=3)
    await story.server.advance(minutes=2)
    assert times(begun) == [10, 21, 32]
    assert (await story.schedules.get("poll")).state is ScheduleState.DONE


async def test_a_task_that_nobody_takes_is_open_however_long(story: Story) -> None:
    await story.schedules.create("poll", queue="reports", fixed_delay=60)
    await story.server.advance(hours=2)
    seen = await story.schedules.get("poll")
    assert (seen.created, seen.missed, seen.upcoming) == (1, 0, ())
    begun = await work(story, 1)
    await story.server.advance(seconds=62)
    assert times(begun) == [7_200, 7_261]


async def test_after_an_outage_it_comes_once_and_goes_on(story: Story) -> None:
    await story.schedules.create("poll", queue="reports", fixed_delay=60)
    await story.server.stop()
    await story.server.advance(hours=3)
    await story.server.start()
    begun = await work(story, 1)
    await story.server.advance(minutes=2)
    assert len(begun) == 2
    assert begun[1][0] - begun[0][0] == 61
    assert (await story.schedules.get("poll")).missed == 0


async def test_a_run_over_a_restart_is_waited_for(story: Story) -> None:
    """Its end is known at once, or with a look within ten seconds."""
    worker, begun, ended = story.server.worker(), [], []

    @worker.on("reports")
    async def handle(delivery: Delivery) -> None:
        begun.append((delivery.occurrence.instant if delivery.occurrence else START, seconds(story)))
        await story.server.sleep(seconds=20)
        ended.append(seconds(story))

    await worker.start()
    await story.schedules.create("poll", queue="reports", fixed_delay=60)
    await story.server.advance(seconds=63)
    await story.server.stop()
    await story.server.start()
    await story.server.advance(seconds=400)
    first = begun[0][0]
    last_end = [end for (instant, _), end in zip(begun, ended, strict=False) if instant == first][-1]
    following = next(at for instant, at in begun if instant != first)
    assert 60 <= following - last_end <= 70


async def test_an_update_counts_the_new_delay_from_the_same_end(story: Story) -> None:
    begun = await work(story, 1)
    await story.schedules.create("poll", queue="reports", payload="old", fixed_delay=600)
    await story.server.advance(seconds=700)
    changed = await story.schedules.update("poll", payload="new", fixed_delay=300)
    assert changed.upcoming[0].instant == START + timedelta(seconds=901)
    await story.server.advance(seconds=300)
    assert begun == [(600, b"old"), (901, b"new")]


async def test_what_was_created_ahead_may_come_earlier_by_an_update(story: Story) -> None:
    """Ten seconds before its time its task is there."""
    begun = await work(story, 1)
    await story.schedules.create("poll", queue="reports", fixed_delay=100)
    await story.server.advance(seconds=92)
    assert (await story.schedules.get("poll")).open_task_id is not None
    await story.schedules.update("poll", fixed_delay=50)
    await story.server.advance(seconds=200)
    assert times(begun)[0] <= 93
    assert len(begun) == 4


async def test_a_cron_expression_becomes_a_fixed_delay_and_back(story: Story) -> None:
    begun = await work(story, 10)
    await story.schedules.create("poll", queue="reports", every=60)
    await story.server.advance(seconds=150)
    await story.schedules.update("poll", fixed_delay=20)
    await story.server.advance(seconds=65)
    await story.schedules.update("poll", every=60, overlap="allow")
    await story.server.advance(seconds=90)
    assert times(begun) == [60, 120, 170, 200, 240, 300]


async def test_a_trigger_is_a_run_from_whose_end_it_counts(story: Story) -> None:
    begun = await work(story, 30)
    await story.schedules.create("poll", queue="reports", fixed_delay=600)
    await story.server.advance(seconds=300)
    await story.schedules.trigger("poll")
    await story.server.advance(seconds=1)
    with pytest.raises(FailedPrecondition):
        await story.schedules.trigger("poll")
    await story.server.advance(seconds=700)
    assert times(begun) == [300, 930]


async def test_a_pause_ends_it_and_a_resume_begins_the_delay_anew(story: Story) -> None:
    begun = await work(story, 1)
    await story.schedules.create("poll", queue="reports", fixed_delay=60)
    await story.server.advance(seconds=90)
    await story.schedules.pause("poll")
    await story.server.advance(seconds=600)
    await story.schedules.resume("poll")
    await story.server.advance(seconds=61)
    assert times(begun) == [60, 750]
    await story.schedules.pause("poll")
    await story.server.advance(seconds=600)
    await story.schedules.resume("poll", catch_up=True)
    await story.server.advance(seconds=2)
    assert times(begun)[2:] == [1351]


async def test_a_dead_letter_may_pause_it(story: Story) -> None:
    worker = story.server.worker()

    @worker.on("reports")
    async def handle(delivery: Delivery) -> None:
        raise Reject("no")

    await worker.start()
    await story.schedules.create("poll", queue="reports", fixed_delay=10, pause_on_dead=True)
    await story.server.advance(seconds=60)
    seen = await story.schedules.get("poll")
    assert (seen.state, seen.created) == (ScheduleState.PAUSED, 1)


async def test_a_delivery_says_which_one_it_is(story: Story) -> None:
    await story.work()
    await story.schedules.create("poll", queue="reports", fixed_delay=60)
    await story.server.advance(seconds=121)
    first, second = [delivery.occurrence for _, delivery in story.came]
    assert first is not None
    assert second is not None
    assert (first.reason, first.previous_instant) == (OccurrenceReason.SCHEDULE, None)
    assert second.previous_instant == first.instant == START + timedelta(seconds=60)
    assert first.id != second.id


async def test_what_does_not_fit_is_refused(story: Story) -> None:
    for wrong, sentence in (
        ({"fixed_delay": 0.5}, "from 1 s to 100 years"),
        ({"fixed_delay": 60, "cron": "0 9 * * *"}, "it stands alone"),
        ({"fixed_delay": 60, "exclude_dates": ["2030-01-01"]}, "it stands alone"),
        ({"fixed_delay": 60, "overlap": "replace"}, "leave overlap out"),
        ({"fixed_delay": 60, "catch_up": "all"}, "leave catch_up out"),
        ({"fixed_delay": 60, "end": START + timedelta(seconds=30)}, "no instant from now on"),
    ):
        with pytest.raises(InvalidTask, match=sentence):
            await story.schedules.create("wrong", queue="reports", **wrong)
    with pytest.raises(InvalidTask, match="nothing can be foreseen"):
        await story.schedules.preview(fixed_delay=60)
    await story.schedules.create("poll", queue="reports", fixed_delay=60)
    with pytest.raises(InvalidTask, match="nothing of the past"):
        await story.schedules.backfill("poll", start=START - timedelta(hours=1), end=START)
