"""Occurrences that must not run beside each other, told as stories by the clock that the test turns (S5)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from timerd.client import FailedPrecondition, InvalidTask, RetryPolicy, ScheduleState, TaskOptions, TaskState
from timerd.model.overlap import EndedOccurrence, OpenedOccurrence, OverlapState, WaitingInstant
from timerd.model.schedules import Schedule
from timerd.model.schedules import ScheduleState as ModelState
from timerd.services.schedules import schedule_calls
from timerd.testing import Server
from timerd.worker import Delivery, OccurrenceReason, Reject, Retry

START = datetime(2030, 1, 1, 8, tzinfo=UTC)


class Story:
    """A server, a client, and a worker whose handler goes on until it is told to end."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client = server.client()
        self.schedules = self.client.schedules
        # (seconds since the start, instant in seconds since the start)
        self.begun: list[tuple[float, float]] = []
        self.deliveries: list[Delivery] = []
        self.running: list[asyncio.Event] = []
        self.most_at_once = 0
        self.rejects = False

    async def work(self, *, shield: bool = True) -> None:
        worker = self.server.worker()

        @worker.on("reports", shield=shield)
        async def handle(delivery: Delivery) -> None:
            assert delivery.occurrence is not None
            if self.rejects:
                raise Reject("no")
            at, instant = self.server.now - START, delivery.occurrence.instant - START
            self.begun.append((at.total_seconds(), instant.total_seconds()))
            self.deliveries.append(delivery)
            end = asyncio.Event()
            self.running.append(end)
            self.most_at_once = max(self.most_at_once, len(self.running))
            try:
                while not end.is_set():
                    await self.server.sleep(seconds=1)
            finally:
                self.running.remove(end)

        await worker.start()

    async def come(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)

    async def fail(self, delivery: Delivery) -> None:
        raise Retry(6 * 3_600)

    def end(self) -> None:
        """Of what runs."""
        for each in self.running:
            each.set()

    @property
    def instants(self) -> list[float]:
        return [instant for _, instant in self.begun]


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def story(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Story]:
    async with Server(start=START, data=tmp_path if request.param == "sqlite" else None) as server:
        told = Story(server)
        yield told
        told.end()


async def test_skip_passes_over_what_comes_while_one_is_open(story: Story) -> None:
    await story.work()
    made = await story.schedules.create("often", queue="reports", every=60, overlap="skip")
    assert (made.overlap, made.open_task_id) == ("skip", None)
    await story.server.advance(seconds=200)
    assert story.instants == [60]
    seen = await story.schedules.get("often")
    assert (seen.created, seen.skipped, seen.missed, seen.waiting) == (1, 2, 0, 0)
    assert seen.open_task_id == story.deliveries[0].task_id
    story.end()
    await story.server.advance(seconds=40)
    assert story.begun[1:] == [(240, 240)]
    occurrence = story.deliveries[1].occurrence
    assert occurrence is not None
    assert (occurrence.reason, occurrence.missed_before) == (OccurrenceReason.SCHEDULE, 2)
    assert occurrence.previous_instant == START + timedelta(seconds=60)
    assert story.most_at_once == 1


async def test_a_task_that_has_ended_at_the_lead_is_followed_on_time(story: Story) -> None:
    """Created ahead, as under allow."""
    await story.work()
    await story.schedules.create("hourly", queue="reports", every=3_600, overlap="skip")
    for hour in range(1, 4):
        await story.server.advance(seconds=3_600)
        story.end()
        await story.server.advance(seconds=0.5)
        assert story.begun[-1] == (3_600 * hour, 3_600 * hour) or story.begun[-1][0] == 3_600 * hour
    assert story.instants == [3_600, 7_200, 10_800]
    await story.server.advance(seconds=3_540)
    assert (await story.schedules.get("hourly")).created == 4


async def test_an_end_is_known_however_long_the_next_instant_is_away(story: Story) -> None:
    """How a task has ended is kept for a day: it is looked at in time."""
    worker = story.server.worker()
    worker.on("reports")(story.come)
    await worker.start()
    await story.schedules.create("seldom", queue="reports", every=36 * 3_600, overlap="skip")
    await story.server.advance(days=7)
    seen = await story.schedules.get("seldom")
    assert (seen.created, seen.skipped, len(story.deliveries)) == (4, 0, 4)
    assert {each.state for each in seen.last} == {TaskState.ACKED}
    assert [each.last async for each in story.schedules.list()] == [seen.last]


async def test_a_task_that_is_open_for_days_is_not_lost_sight_of(story: Story) -> None:
    """It fails, and is tried again each six hours for longer than its first place is kept."""
    worker = story.server.worker()
    worker.on("reports")(story.fail)
    await worker.start()
    often = RetryPolicy(max_attempts=100, initial_backoff=timedelta(hours=6), max_backoff=timedelta(hours=6))
    await story.schedules.create(
        "daily", queue="reports", cron="0 9 * * *", overlap="skip", options=TaskOptions(retry=often)
    )
    await story.server.advance(days=2.2)
    seen = await story.schedules.get("daily")
    assert (seen.created, seen.skipped) == (1, 2)


async def test_buffer_one_keeps_the_first_that_comes(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=60, overlap="buffer_one")
    await story.server.advance(seconds=250)
    seen = await story.schedules.get("often")
    assert (seen.created, seen.skipped, seen.waiting) == (1, 2, 1)
    story.end()
    await story.server.advance(seconds=2)
    assert story.instants == [60, 120]
    assert story.deliveries[1].occurrence is not None
    assert story.deliveries[1].occurrence.reason is OccurrenceReason.CATCH_UP
    assert story.most_at_once == 1


async def test_buffer_all_keeps_all_in_order(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=60, overlap="buffer_all", max_count=4)
    await story.server.advance(seconds=190)
    assert (await story.schedules.get("often")).waiting == 2
    for _ in range(8):
        story.end()
        await story.server.advance(seconds=15)
    assert story.instants == [60, 120, 180, 240]
    seen = await story.schedules.get("often")
    assert (seen.state, seen.created, seen.skipped) == (ScheduleState.DONE, 4, 0)
    assert story.most_at_once == 1


async def test_buffer_all_has_a_limit(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timerd.core.schedules.overlap.MOST_WAITING", 5)
    await story.work()
    await story.schedules.create("often", queue="reports", every=10, overlap="buffer_all", catch_up="all")
    await story.server.advance(seconds=105)
    seen = await story.schedules.get("often")
    assert (seen.created, seen.waiting, seen.skipped) == (1, 5, 4)


async def test_cancel_other_waits_for_the_end_of_what_it_cancels(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=60, overlap="cancel_other")
    await story.server.advance(seconds=185)
    assert story.instants == [60]
    seen = await story.schedules.get("often")
    assert (seen.waiting, seen.skipped) == (1, 1)
    story.end()
    await story.server.advance(seconds=15)
    assert story.instants == [60, 180]
    assert story.most_at_once == 1


async def test_cancel_other_cancels_what_nobody_works(story: Story) -> None:
    await story.schedules.create("often", queue="reports", every=60, overlap="cancel_other")
    await story.server.advance(seconds=185)
    await story.work()
    await story.server.advance(seconds=1)
    assert story.instants == [180]
    assert [each.state for each in (await story.schedules.get("often")).last] == [TaskState.CANCELLED] * 2


async def test_under_cancel_other_a_handler_that_is_interrupted_makes_room_at_once(story: Story) -> None:
    await story.work(shield=False)
    await story.schedules.create("often", queue="reports", every=60, overlap="cancel_other")
    await story.server.advance(seconds=185)
    assert story.instants == [60, 120, 180]
    assert story.most_at_once == 1
    assert (await story.schedules.get("often")).skipped == 0


async def test_replace_takes_the_place_at_once(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=60, overlap="replace")
    await story.server.advance(seconds=130)
    assert story.begun == [(60, 60), (120, 120)]
    seen = await story.schedules.get("often")
    assert (seen.created, seen.skipped) == (2, 0)
    assert (await story.client.get(story.deliveries[0].task_id)).state in (TaskState.IN_FLIGHT, TaskState.CANCELLED)


async def test_a_trigger_is_one_of_them(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=300, overlap="skip")
    task_id = await story.schedules.trigger("often", request_id="now")
    assert await story.schedules.trigger("often", request_id="now") == task_id
    await story.server.advance(seconds=1)
    assert [each.task_id for each in story.deliveries] == [task_id]
    with pytest.raises(FailedPrecondition, match="The task of a trigger is open"):
        await story.schedules.trigger("often")
    await story.server.advance(minutes=5)
    assert (await story.schedules.get("often")).skipped == 1
    story.end()
    await story.server.advance(minutes=5)
    assert story.instants[1:] == [600]
    [last] = (await story.schedules.get("often")).last
    assert (last.state, last.is_trigger) == (TaskState.ACKED, True)


@pytest.fixture
def unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a call was answered is not remembered, as where its caller was not answered."""

    async def carried_out(*said: object) -> object:
        carry_out = said[-1]
        assert callable(carry_out)
        return await carry_out()

    monkeypatch.setattr(schedule_calls, "answered_once", carried_out)


@pytest.mark.usefixtures("unanswered")
async def test_a_trigger_that_is_asked_for_again_is_the_same_task_when_another_one_is_open(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=300, overlap="buffer_all")
    task_id = await story.schedules.trigger("often", request_id="now")
    await story.server.advance(seconds=1)
    story.end()
    await story.server.advance(minutes=6)
    assert (await story.schedules.get("often")).open_task_id != task_id
    for policy in ("skip", "allow"):
        assert await story.schedules.trigger("often", request_id="now") == task_id
        await story.server.advance(seconds=1)
        assert [each.task_id for each in story.deliveries if _is_trigger(each)] == [task_id]
        await story.schedules.update("often", overlap=policy)


def _is_trigger(delivery: Delivery) -> bool:
    return delivery.occurrence is not None and delivery.occurrence.reason is OccurrenceReason.TRIGGER


async def test_a_trigger_replaces_where_the_policy_says_so(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=60, overlap="replace")
    await story.server.advance(seconds=61)
    task_id = await story.schedules.trigger("often")
    await story.server.advance(seconds=1)
    assert [each.task_id for each in story.deliveries][1:] == [task_id]


async def test_an_outage_is_decided_by_both_policies(story: Story) -> None:
    """All that were missed: one of them runs, the others are passed over."""
    await story.schedules.create("often", queue="reports", every=60, overlap="skip", catch_up="all")
    await story.server.stop()
    await story.server.advance(seconds=330)
    await story.server.start()
    await story.work()
    await story.server.advance(seconds=2)
    seen = await story.schedules.get("often")
    assert (len(story.begun), seen.created + seen.skipped) == (1, 5)


async def test_a_restart_keeps_what_is_open_and_what_waits(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=60, overlap="buffer_one")
    await story.server.advance(seconds=130)
    await story.server.stop()
    await story.server.start()
    await story.server.advance(seconds=20)
    story.end()
    await story.server.advance(seconds=20)
    assert story.instants[-1] == 120
    assert (await story.schedules.get("often")).skipped == 0


async def test_an_update_changes_the_policy_of_what_is_open(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=60, overlap="skip")
    await story.server.advance(seconds=70)
    changed = await story.schedules.update("often", overlap="buffer_all")
    assert (changed.overlap, changed.catch_up, changed.revision) == ("buffer_all", "latest", 2)
    await story.server.advance(seconds=120)
    assert (await story.schedules.get("often")).waiting == 2
    allowed = await story.schedules.update("often", overlap="allow")
    # What waits has its tasks from here on, perhaps before the reply is made.
    assert (allowed.open_task_id, allowed.last) == (None, ())
    await story.server.advance(seconds=1)
    assert story.instants == [60, 120, 180]


async def test_a_resume_drops_what_waited_unless_it_catches_up(story: Story) -> None:
    await story.work()
    await story.schedules.create("often", queue="reports", every=60, overlap="buffer_all")
    await story.server.advance(seconds=130)
    await story.schedules.pause("often")
    kept = await story.schedules.resume("often", catch_up=True)
    assert (kept.waiting, kept.skipped) == (1, 0)
    await story.schedules.pause("often")
    dropped = await story.schedules.resume("often")
    assert (dropped.waiting, dropped.skipped) == (0, 1)


async def test_a_dead_letter_may_pause_it(story: Story) -> None:
    await story.work()
    story.rejects = True
    await story.schedules.create("often", queue="reports", every=60, overlap="skip", pause_on_dead=True)
    await story.server.advance(seconds=130)
    seen = await story.schedules.get("often")
    assert (seen.state, seen.created) == (ScheduleState.PAUSED, 1)
    assert seen.note == "The task of 2030-01-01T08:01:00.000Z is a dead letter."
    assert [(each.instant, each.state) for each in seen.last] == [(START + timedelta(seconds=60), TaskState.DEAD)]
    story.rejects = False
    resumed = await story.schedules.resume("often")
    assert (resumed.state, resumed.note) == (ScheduleState.ACTIVE, "")
    await story.server.advance(seconds=60)
    assert story.instants == [180]


async def test_a_delete_may_cancel_what_is_open(story: Story) -> None:
    await story.schedules.create("often", queue="reports", every=60, overlap="skip")
    await story.server.advance(seconds=65)
    task_id = (await story.schedules.get("often")).open_task_id
    assert task_id is not None
    await story.schedules.delete("often", cancel_open=True)
    assert (await story.client.get(task_id)).state is TaskState.CANCELLED
    await story.schedules.create("plain", queue="reports", every=60)
    with pytest.raises(FailedPrecondition, match="cancel_open needs an overlap policy"):
        await story.schedules.delete("plain", cancel_open=True)


async def test_what_does_not_fit_is_refused(story: Story) -> None:
    with pytest.raises(InvalidTask, match="pause_on_dead needs an overlap policy"):
        await story.schedules.create("wrong", queue="reports", every=60, pause_on_dead=True)
    with pytest.raises(InvalidTask, match="allowed are allow, skip"):
        await story.schedules.create("wrong", queue="reports", every=60, overlap="both")
    await story.schedules.create("right", queue="reports", every=60, overlap="skip", pause_on_dead=True)
    with pytest.raises(InvalidTask, match="pause_on_dead needs an overlap policy"):
        await story.schedules.update("right", overlap="allow")


def test_what_a_later_release_has_added_to_the_register_is_kept() -> None:
    opened = OpenedOccurrence("00" * 12, 1_000, 2, 3, 4, 900, 5, is_trigger=True)
    state = OverlapState(opened, None, (WaitingInstant(950, 1),), 2, 3, (EndedOccurrence(800, 1),), 700)
    schedule = Schedule("ab", 1, ModelState.ACTIVE, overlap=state)
    assert Schedule.from_bytes(schedule.to_bytes()) == schedule
    later = json.loads(schedule.to_bytes())
    later["overlap"] |= {"priorities": [1]}
    later["overlap"]["open"].append("more")
    read = Schedule.from_bytes(json.dumps(later).encode())
    assert read.overlap.open == opened
    assert json.loads(read.to_bytes())["overlap"]["priorities"] == [1]
