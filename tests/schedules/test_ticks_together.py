"""Ticks of one moment, as the worker of an instance works them: most of them together, and none for another one's
account. On memory and on SQLite, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.schedules.overlap_histories import OverlapHistory
from tests.schedules.story import START, Story
from timerd.client import NewSchedule, ScheduleState
from timerd.core.protocol import (
    AppendRows,
    AskToEnd,
    AskToEndEach,
    Find,
    FindEntries,
    FindSettledEach,
    Procedure,
    ReadRegister,
    ReadRegisters,
    SetMarks,
    Together,
    TryCas,
    TryCasMany,
)
from timerd.core.schedules import deciding_many, planning, recording_many, ticking_many
from timerd.core.schedules.deciding_many import decide_many
from timerd.core.schedules.opened import finish, look
from timerd.core.schedules.recording_many import ReadTick
from timerd.core.schedules.spec_times import SpecTimes
from timerd.core.schedules.world import OccurrenceRow, World, place_rows
from timerd.core.taken import TICKS, QueueKey
from timerd.model.errors import StoreUnknown
from timerd.model.overlap import Overlap
from timerd.model.schedules import Definition, Schedule, Tick
from timerd.model.schedules import ScheduleState as ActiveOrNot
from timerd.services.schedules import tick_parts, ticking
from timerd.services.schedules.known_definitions import KnownDefinitions

AT = START + timedelta(seconds=30)
GUARDED = ("skip", "buffer_one", "cancel_other", "replace")
SHARED = (ReadRegisters, FindEntries, Find, Together, FindSettledEach, TryCasMany, AppendRows, SetMarks, AskToEndEach)


def at_one_instant(number: int, **more: Any) -> NewSchedule:  # noqa: ANN401 - the keywords of NewSchedule
    return NewSchedule(f"d{number}", queue="reports", payload=str(number), at=[AT.isoformat()], **more)


def every_ten(number: int, overlap: str) -> NewSchedule:
    return NewSchedule(f"g{number}", queue="reports", payload=str(number), every=10, overlap=overlap)


def came(story: Story) -> list[int]:
    return sorted(int(each.payload) for _, each in story.came)


def counting(monkeypatch: pytest.MonkeyPatch) -> Counter[type]:
    """Of the requests of ticks, from now on."""
    asked: Counter[type] = Counter()
    perform = KnownDefinitions.perform

    async def counted(known: KnownDefinitions, request: Any) -> object:  # noqa: ANN401 - a Request
        asked[type(request)] += 1
        return await perform(known, request)

    monkeypatch.setattr(KnownDefinitions, "perform", counted)
    return asked


async def test_they_share_their_trips_to_the_store(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    await story.work()
    made = await story.schedules.create_many(map(at_one_instant, range(100)))
    asked = counting(monkeypatch)
    assert {each.revision for each in made} == {1}
    await story.server.advance(seconds=31)
    assert came(story) == list(range(100))
    assert {at for at, _ in story.came} == {AT}
    assert asked[ReadRegisters] + asked[TryCasMany] <= 20
    assert asked[ReadRegister] <= 10


@pytest.mark.parametrize("overlap", GUARDED)
async def test_so_do_those_that_are_decided_at_one_instant(
    story: Story, monkeypatch: pytest.MonkeyPatch, overlap: str
) -> None:
    """The task before is open: nobody has worked it."""
    await story.schedules.create_many(every_ten(number, overlap) for number in range(20))
    await story.server.advance(seconds=15)
    asked = counting(monkeypatch)
    await story.server.advance(seconds=6)
    assert asked[ReadRegister] + asked[TryCas] + asked[AskToEnd] + asked[Find] <= 10
    assert sum(asked[kind] for kind in SHARED) <= 60
    shown = [await story.schedules.get(f"g{number}") for number in range(20)]
    expected = {"skip": (1, 1), "buffer_one": (1, 0)}.get(overlap, (2, 0))
    assert {(each.created, each.skipped) for each in shown} == {expected}


def test_the_clock_that_decides_is_read_before_any_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it goes on, an instant that was to come may come: what is open may end before that."""
    history = OverlapHistory(1, overlap=Overlap.SKIP)
    begun_ms, decided_ms = history.now_ms, list[int]()

    def slow(schedule_id: str, entry: Schedule, definition: Definition, world: World) -> Procedure[Schedule]:
        history.now_ms += 5_000
        yield from ()
        return entry

    def noting(entry: Schedule, definition: Definition, times: SpecTimes, at: World, tick: Tick) -> Schedule:
        decided_ms.append(at.now_ms())
        return entry

    monkeypatch.setattr(deciding_many, "look", slow)
    monkeypatch.setattr(deciding_many, "decide", noting)
    entry, tick = Schedule("00" * 8, 1, ActiveOrNot.ACTIVE, "try"), Tick("default", "it", "00" * 8, 1, 0, "try")
    read = ReadTick(tick, history.name.key, entry, entry.to_bytes(), history.definition(1))
    next(decide_many([read, read], history.world))
    assert decided_ms == [begun_ms] * 2


async def test_one_that_cannot_be_looked_at_holds_up_no_other_decision(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blind(schedule_id: str, entry: Schedule, definition: Definition, world: World) -> Procedure[Schedule]:
        if schedule_id == "g3":
            raise StoreUnknown("the disk does not say")
        return (yield from look(schedule_id, entry, definition, world))

    await story.schedules.create_many(every_ten(number, "skip") for number in range(5))
    await story.server.advance(seconds=15)
    monkeypatch.setattr(deciding_many, "look", blind)
    await story.server.advance(seconds=6)
    assert [(await story.schedules.get(f"g{number}")).skipped for number in range(5)] == [1] * 5


async def test_one_whose_task_cannot_be_cancelled_is_completed_by_itself(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the one that replaces it is not written."""
    failed: list[str] = []

    def fails(schedule_id: str, entry: Schedule, definition: Definition, world: World) -> Procedure[None]:
        if schedule_id == "g3" and entry.overlap.ousted is not None:
            failed.append(schedule_id)
            raise StoreUnknown("the disk does not say")
        yield from finish(schedule_id, entry, definition, world)

    await story.schedules.create_many(every_ten(number, "replace") for number in range(5))
    await story.server.advance(seconds=15)
    monkeypatch.setattr(deciding_many, "finish", fails)
    await story.server.advance(seconds=6)
    await story.work()
    await story.server.advance(seconds=1)
    assert failed
    assert story.server.node.ticks is not None
    assert story.server.node.ticks.stats.ticks["repeated"] == len(failed)
    assert sorted(story.instants()) == [START + timedelta(seconds=20)] * 5


async def test_those_that_differ_are_worked_beside_them(story: Story) -> None:
    """Guarded, of a fixed delay, with an end, with a limit."""
    often: dict[str, Any] = {"queue": "often", "every": 10, "catch_up": "all"}
    others = [
        NewSchedule("guarded", overlap="skip", **often),
        NewSchedule("limited", max_count=2, **often),
        NewSchedule("ending", end=START + timedelta(seconds=25), **often),
    ]
    await story.work()
    await story.work("often")
    await story.schedules.create_many([*map(at_one_instant, range(10)), *others])
    await story.server.advance(seconds=41)
    counted = Counter(each.occurrence.schedule_id for _, each in story.came if each.occurrence is not None)
    assert counted == Counter({**{f"d{n}": 1 for n in range(10)}, "guarded": 4, "limited": 2, "ending": 2})


async def test_one_that_is_wrong_holds_up_no_other_one(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = planning.plan
    await story.work()

    def fails(entry: Any, definition: Definition, *more: Any) -> object:  # noqa: ANN401 - as `plan`
        if definition.payload == b"3":
            raise ZeroDivisionError
        return sound(entry, definition, *more)

    monkeypatch.setattr(ticking_many, "plan", fails)
    await story.schedules.create_many(map(at_one_instant, range(10)))
    await story.server.advance(seconds=31)
    assert came(story) == list(range(10))


async def test_what_fails_together_is_worked_one_by_one(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever step it had come to."""
    failed: list[Sequence[OccurrenceRow]] = []

    def fails(rows: Sequence[OccurrenceRow], world: World) -> Procedure[None]:
        if failed:
            yield from place_rows(rows, world)
        else:
            failed.append(rows)
            raise StoreUnknown("the disk does not say")

    monkeypatch.setattr(recording_many, "place_rows", fails)
    await story.work()
    await story.schedules.create_many(map(at_one_instant, range(10)))
    await story.server.advance(seconds=31)
    assert len(failed) == 1
    assert came(story) == list(range(10))
    assert story.server.node.ticks is not None
    assert story.server.node.ticks.stats.ticks["repeated"] == len(failed[0])


async def test_more_than_fit_into_a_part_and_windows_of_many_instants(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tick_parts, "MOST_TOGETHER", 8)
    monkeypatch.setattr(ticking_many, "MOST_INSTANTS", 20)
    monkeypatch.setattr(recording_many, "MOST_BYTES", 1_000)
    await story.work()
    often = [NewSchedule(f"o{number}", queue="reports", every=1, catch_up="all") for number in range(20)]
    await story.schedules.create_many(often)
    await story.server.advance(seconds=20)
    assert Counter(story.instants()) == {START + timedelta(seconds=n): 20 for n in range(1, 21)}


async def test_what_keeps_failing_is_tried_by_itself(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(tick: Tick, world: World) -> Procedure[None]:
        yield from ()
        raise StoreUnknown("the disk does not say")

    with monkeypatch.context() as broken:
        broken.setattr(ticking, "tick_or_resume", fails)
        broken.setattr(ticking_many, "plan", fails)
        await story.schedules.create_many(map(at_one_instant, range(3)))
        await story.server.advance(minutes=9)
    assert (await story.schedules.get("d1")).state is ScheduleState.BROKEN
    await story.work()
    await story.server.advance(minutes=2)
    assert came(story) == [0, 1, 2]


async def test_the_rows_of_a_window_are_placed_before_the_ticks_that_record_on(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W1. An instance that dies between the two is not missed: its tick comes again. Behind the next one that would be
    too late, for what is recorded by then is another window."""
    placed: list[set[QueueKey]] = []

    def noting(rows: Sequence[OccurrenceRow], world: World) -> Procedure[None]:
        templates = [row.template_of(0) for _, _, row in rows]
        placed.append({QueueKey(template.namespace, template.queue) for template in templates})
        yield from place_rows(rows, world)

    monkeypatch.setattr(recording_many, "place_rows", noting)
    await story.schedules.create_many(NewSchedule(f"e{n}", queue="reports", every=1) for n in range(5))
    await story.server.advance(minutes=4)
    assert len(placed) > 2
    assert placed == [{QueueKey("default", "reports")}, {TICKS}] * (len(placed) // 2)
