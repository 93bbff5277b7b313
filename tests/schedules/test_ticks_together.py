"""Ticks of one moment, as the worker of an instance works them: most of them together, and none for another one's
account. On memory and on SQLite, in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.schedules.story import START, Story
from timerd.client import NewSchedule, ScheduleState
from timerd.core.protocol import Procedure, ReadRegister, ReadRegisters, TryCasMany
from timerd.core.schedules import planning, ticking_many
from timerd.core.schedules.world import OccurrenceRow, World, place_rows
from timerd.model.errors import StoreUnknown
from timerd.model.schedules import Definition, Tick
from timerd.services.schedules import tick_parts, ticking
from timerd.services.schedules.known_definitions import KnownDefinitions

AT = START + timedelta(seconds=30)


def at_one_instant(number: int, **more: Any) -> NewSchedule:  # noqa: ANN401 - the keywords of NewSchedule
    return NewSchedule(f"d{number}", queue="reports", payload=str(number), at=[AT.isoformat()], **more)


def came(story: Story) -> list[int]:
    return sorted(int(each.payload) for _, each in story.came)


async def test_they_share_their_trips_to_the_store(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[type] = Counter()
    perform = KnownDefinitions.perform

    async def counted(known: KnownDefinitions, request: Any) -> object:  # noqa: ANN401 - a Request
        asked[type(request)] += 1
        return await perform(known, request)

    await story.work()
    made = await story.schedules.create_many(map(at_one_instant, range(100)))
    monkeypatch.setattr(KnownDefinitions, "perform", counted)
    assert {each.revision for each in made} == {1}
    await story.server.advance(seconds=31)
    assert came(story) == list(range(100))
    assert {at for at, _ in story.came} == {AT}
    assert asked[ReadRegisters] + asked[TryCasMany] <= 20
    assert asked[ReadRegister] <= 10


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

    monkeypatch.setattr(ticking_many, "place_rows", fails)
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
    monkeypatch.setattr(ticking_many, "MOST_BYTES", 1_000)
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
