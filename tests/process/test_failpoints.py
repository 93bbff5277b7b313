"""kill -9 at every point that matters: the server ends itself there, an ordinary one starts on the same data, and the
notes of those who called and those who received are judged. Nothing acknowledged is lost, nothing early, nothing comes
after CANCELLED, and repeats are answered as the first time."""

from __future__ import annotations

import asyncio
import sqlite3
from itertools import count
from pathlib import Path

import pytest

from tests.process.failpoints.points import POINTS
from tests.process.failpoints.rig import FAILING, QUEUE, Rig, moment
from tests.process.waiting import eventually
from timerd.client import CancelOutcome, TaskState
from timerd.worker import Delivery, Reject

pytestmark = pytest.mark.process
DAY_S = 86_400.0
COUNT = 20
LATER_MS = 600_000

# Met by a server that is called, delivers and settles; with which time it is the last.
UNDER_LOAD = [
    ("before the commit", 1), ("before the commit", 2), ("committed", 1), ("committed", 2), ("rows appended", 2),
    ("key changed", 1), ("key changed", 2),
    ("cancel marked", 1), ("cancel asked", 1),
    ("move changed", 1), ("move written", 1), ("move marked", 1), ("move asked", 1), ("move changed", 2),
    ("handed to the stream", 1), ("ack received", 1), ("settle before its commit", 1), ("settled", 1), ("settled", 3),
    ("carry recorded", 1), ("carried", 1), ("closing raised", 1), ("closing raised", 3),
]  # fmt: skip
ON_THE_WAY_UP = ["secret made", "schema made"]
WHILE_LOADING = [("taken over", 1), ("recovered", 1), ("page loaded", 1), ("page loaded", 2)]
WHILE_FINISHING = ["finishing flagged", "counted", "finished", "finish recorded"]
WHILE_DROPPING = [("dropping", 1), ("dropping", 2), ("dropped", 1)]


def named(point: str, nth: int) -> str:
    return f"{point}:{nth}"


async def fails_once(delivery: Delivery) -> None:
    if delivery.attempt == 1:
        raise RuntimeError("no luck")


async def load(rig: Rig) -> None:
    """Batches, single tasks, one with a key, one that fails at first. What is changed is due in minutes, so that each
    change comes in time however slow the machine is: some cancelled, one later, one earlier."""
    start_ms = int(rig.notes.now_ms())
    await asyncio.gather(
        rig.schedule(range(COUNT), start_ms + 150),
        rig.schedule(range(100, 100 + COUNT), start_ms + LATER_MS, 0),
        rig.schedule([200, 201], start_ms + 100, queue=FAILING),
    )
    # In a commit of their own, which what is asked at once need not have.
    await asyncio.gather(
        rig.schedule_one(300, start_ms + 250, "alone"),
        rig.schedule_one(301, start_ms + 300, "with a key", "the key"),
    )
    assert await rig.cancel(100, "cancel 100") is CancelOutcome.CANCELLED
    # One after the other: those that come in one turn share their steps.
    assert await rig.cancel(101, "cancel 101") is CancelOutcome.CANCELLED
    await rig.move(102, start_ms + LATER_MS + 60_000, "later")
    await rig.move(103, int(rig.notes.now_ms()) + 100, "earlier")


async def load_until_it_fails(rig: Rig) -> None:
    """After that one task after the other, so that marks are met however many tasks one of them is about."""
    await load(rig)
    more = count(400)
    while not rig.kills:
        number = next(more)
        await rig.schedule_one(number, int(rig.notes.now_ms()) + 20, f"one more {number}")
        await asyncio.sleep(0.05)


async def repeats_are_answered_as_the_first_time(rig: Rig) -> None:
    alone, keyed = rig.tasks[300], rig.tasks[301]
    again = await rig.client.schedule(QUEUE, "300", at=moment(alone.fire_at_ms), request_id="alone")
    assert again.id == alone.id
    again = await rig.client.schedule(QUEUE, "301", at=moment(keyed.fire_at_ms), request_id="with a key", key="the key")
    assert again.id == keyed.id
    assert await rig.client.cancel(rig.tasks[100].id, request_id="cancel 100") is CancelOutcome.CANCELLED


@pytest.mark.parametrize("point", [named(*each) for each in UNDER_LOAD])
async def test_under_load(tmp_path: Path, point: str) -> None:
    async with Rig(tmp_path) as rig:
        await rig.start(point)
        rig.work()
        rig.work_badly(fails_once)
        loading = asyncio.create_task(load_until_it_fails(rig))
        await rig.fails()
        await rig.comes_back()
        await loading
        early = await rig.judged(by_ms=rig.notes.now_ms() + LATER_MS / 2)
        await repeats_are_answered_as_the_first_time(rig)
        await rig.is_killed(ahead_s=2 * LATER_MS / 1000)
        assert len(await rig.judged()) > len(early) > 0, "some came before the second kill, others after it"
        await eventually(lambda: is_finished(rig), "the ledger is complete")


@pytest.mark.parametrize("point", ON_THE_WAY_UP)
async def test_on_the_way_up(tmp_path: Path, point: str) -> None:
    """Of a server without data."""
    async with Rig(tmp_path) as rig:
        await rig.start(point)
        await rig.fails()
        await rig.comes_back()
        rig.work()
        await rig.schedule(range(COUNT), int(rig.notes.now_ms()) + 50)
        came = await rig.judged()
        assert len(came) == len({each.number for each in came}) == COUNT


@pytest.mark.parametrize("point", [named(*each) for each in WHILE_LOADING])
async def test_while_loading(tmp_path: Path, point: str) -> None:
    """What was stored before the first kill comes after the second."""
    async with Rig(tmp_path) as rig:
        await rig.start()
        start_ms = int(rig.notes.now_ms())
        for message in range(4):
            await rig.schedule(range(COUNT * message, COUNT * (message + 1)), start_ms + 500)
        assert await rig.cancel(1, "first") is CancelOutcome.CANCELLED
        await rig.move(2, start_ms + 800, "second")
        await rig.is_killed(point)
        rig.work()
        await rig.comes_back()
        came = await rig.judged()
        assert len(came) == len({each.number for each in came}) == 4 * COUNT - 1


@pytest.mark.parametrize("point", WHILE_FINISHING)
async def test_while_finishing(tmp_path: Path, point: str) -> None:
    """Ten minutes later: some of the bucket's tasks have ended, some were missed."""
    async with Rig(tmp_path) as rig:
        await rig.start()
        rig.work()
        start_ms = int(rig.notes.now_ms())
        await rig.schedule(range(COUNT), start_ms + 50)
        await rig.schedule(range(COUNT, 2 * COUNT), start_ms + 60_000)
        await rig.cancel(COUNT, "one of them")
        await eventually(lambda: has_confirmed(rig, COUNT), "the first are acknowledged")
        await rig.is_killed(point, 600)
        await rig.comes_back(600)
        came = await rig.judged()
        assert len(came) == len({each.number for each in came}) == 2 * COUNT - 1
        await eventually(lambda: is_finished(rig), "the ledger is complete")
        ledger = (await rig.client.server_info()).ledger
        assert (ledger.inserted - ledger.carried, ledger.acked, ledger.cancelled) == (2 * COUNT, 2 * COUNT - 1, 1)


async def has_confirmed(rig: Rig, count: int) -> bool:
    return len(rig.notes.confirmed) >= count


async def is_finished(rig: Rig) -> bool:
    """All that was inserted has a known end. What a worker came back with may be carried to the end of its lease,
    and the bucket that it went to stays open until its time is over."""
    info = await rig.client.server_info()
    ledger = info.ledger
    assert ledger.unexplained == 0, ledger
    ended = ledger.acked + ledger.cancelled + ledger.dead
    return ended == len(rig.tasks) and (info.partitions_open == 0 or ledger.carried > 0)


@pytest.mark.parametrize("point", [named(*each) for each in WHILE_DROPPING])
async def test_while_dropping_a_partition(tmp_path: Path, point: str) -> None:
    """An hour later its history is over: it goes as a whole, and nothing of it comes again."""
    async with Rig(tmp_path, "--history-ms", "200") as rig:
        await rig.start()
        rig.work()
        for message in range(3):
            await rig.schedule(range(COUNT * message, COUNT * (message + 1)), int(rig.notes.now_ms()) + 50)
            await eventually(lambda: has_confirmed(rig, len(rig.tasks)), "all are acknowledged")
        await rig.is_killed(point, 3600)
        await rig.comes_back(3600)
        await rig.schedule([1000], int(rig.notes.now_ms()) + 300)
        await eventually(lambda: is_forgotten(rig), "the partition is dropped")
        came = await rig.judged()
        assert len(came) == 3 * COUNT + 1
        assert (await rig.client.get(rig.tasks[0].id)).state is TaskState.FINISHED
        assert await rig.client.cancel(rig.tasks[0].id) is CancelOutcome.FINISHED


async def is_forgotten(rig: Rig) -> bool:
    """By the file: nothing of the old bucket is left but the new task's."""
    connection = sqlite3.connect(f"file:{rig.data / 'timerd.db'}?mode=ro", uri=True)
    try:
        (places,) = connection.execute("SELECT count(DISTINCT bucket) FROM groups").fetchone()
        (records,) = connection.execute("SELECT count(DISTINCT bucket) FROM settled").fetchone()
    finally:
        connection.close()
    return bool(places == 1 and records <= 1)


@pytest.mark.parametrize("nth", [1, 2])
async def test_while_a_far_day_is_split(tmp_path: Path, nth: int) -> None:
    """Each message of the day is a far group; every task is found in its bucket or in its group, once."""
    ahead_s = 3 * DAY_S
    async with Rig(tmp_path) as rig:
        await rig.start()
        due_ms = int(rig.notes.now_ms() + ahead_s * 1000) + 1_200
        for message in range(3):
            await rig.schedule(range(COUNT * message, COUNT * (message + 1)), due_ms)
        await rig.is_killed(named("splitting", nth), ahead_s)
        rig.work()
        await rig.comes_back(ahead_s)
        came = await rig.judged()
        assert len(came) == len({each.number for each in came}) == 3 * COUNT


@pytest.mark.parametrize("point", ["carry recorded", "carried"])
async def test_while_what_nobody_took_goes_to_the_backlog(tmp_path: Path, point: str) -> None:
    async with Rig(tmp_path, "--lag-ms", "200") as rig:
        await rig.start(point)
        await rig.schedule(range(COUNT), int(rig.notes.now_ms()) + 50)
        await rig.fails()
        await rig.comes_back()
        rig.work()
        came = await rig.judged()
        assert len(came) == len({each.number for each in came}) == COUNT


@pytest.mark.parametrize("point", ["carry recorded", "carried"])
async def test_while_what_is_in_hand_is_carried(tmp_path: Path, point: str) -> None:
    """At the lag limit, to the end of its lease: the worker comes back with it, and every one is acknowledged."""
    async with Rig(tmp_path, "--lag-ms", "100", hold_ms=(1500, 1500)) as rig:
        await rig.start(point)
        rig.work()
        await rig.schedule(range(COUNT), int(rig.notes.now_ms()) + 50, 0)
        await rig.fails()
        await rig.comes_back()
        assert {each.number for each in await rig.judged()} == set(range(COUNT))


@pytest.mark.parametrize("point", ["carry recorded", "carried"])
async def test_in_the_midst_of_a_graceful_stop(tmp_path: Path, point: str) -> None:
    async with Rig(tmp_path, hold_ms=(1500, 1500)) as rig:
        await rig.start(point)
        rig.work()
        await rig.schedule(range(COUNT), int(rig.notes.now_ms()) + 50, 0)
        await eventually(lambda: has_received(rig, COUNT), "all are in hand")
        rig.terminate()
        await rig.fails()
        await rig.comes_back()
        assert {each.number for each in await rig.judged()} == set(range(COUNT))


async def has_received(rig: Rig, count: int) -> bool:
    return len(rig.notes.deliveries) >= count


@pytest.mark.parametrize("point", ["burying", "buried"])
async def test_around_the_commit_of_a_dead_letter(tmp_path: Path, point: str) -> None:
    """The letter and the end of its task are one: it is delivered once more or is dead, and has one letter."""

    async def rejects(_: Delivery) -> None:
        raise Reject("hopeless")

    async with Rig(tmp_path) as rig:
        await rig.start(point)
        rig.work_badly(rejects)
        await rig.schedule([1], int(rig.notes.now_ms()) + 50, queue=FAILING)
        await rig.fails()
        await rig.comes_back()
        await eventually(lambda: is_dead(rig), "the task is dead")
        dead_letters = [letter async for letter in rig.client.dead_letters(FAILING)]
        assert [letter.task.id for letter in dead_letters] == [rig.tasks[1].id]
        assert len({each.delivery_id for each in rig.notes.deliveries}) == 1


async def is_dead(rig: Rig) -> bool:
    return (await rig.client.get(rig.tasks[1].id)).state is TaskState.DEAD


def test_every_point_is_met() -> None:
    single = [*UNDER_LOAD, *WHILE_LOADING, *WHILE_DROPPING, ("splitting", 1), ("burying", 1), ("buried", 1)]
    assert {name for name, _ in single} | {*ON_THE_WAY_UP, *WHILE_FINISHING} == set(POINTS)
