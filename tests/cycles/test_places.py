"""Y5: the kinds of turns of one member are a period by the number of places apart, exactly and always."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio

from tests.cycles.story import EVERY, START, Story
from timerd.client import InvalidTask, slot_hash
from timerd.core.slots import cycle as cut
from timerd.testing import Server
from timerd.worker import Delivery

PLACES = ("payments", "reports", "kyc")
# Three places share nine slots of a second.
PERIOD = timedelta(seconds=9)
MOMENTS = cut(9_000, 9, 3)
ON_BOTH = pytest.mark.parametrize("story", ["memory", "sqlite"], indirect=True)


class Kinds(Story):
    """`had`: when a member had which kind of turn."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.had: list[tuple[datetime, str, str]] = []

    async def work_kinds(self) -> None:
        worker = self.server.worker()

        @worker.on("members")
        async def note(delivery: Delivery) -> None:
            self.had.append((self.server.now, delivery.payload.decode(), delivery.labels["place"]))

        await worker.start()

    def turns_at(self, key: int, place: str) -> list[datetime]:
        return [at for at, who, kind in self.had if (who, kind) == (str(key), place)]


@pytest_asyncio.fixture
async def story(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kinds]:
    is_on_disk = getattr(request, "param", "memory") == "sqlite"
    async with Server(start=START, data=tmp_path if is_on_disk else None) as server:
        story = Kinds(server)
        await story.work_kinds()
        yield story


async def create(story: Kinds, **given: object) -> None:
    values: dict[str, object] = {
        "every": PERIOD,
        "slots": 9,
        "queue": "members",
        "places": PLACES,
        "origin": START,
        **given,
    }
    await story.cycles.create("sync", **values)  # type: ignore[arg-type]


def moment(key: int, place: str, cycle: int) -> datetime:
    at_ms = MOMENTS.moment_ms(key, PLACES.index(place))
    return START + cycle * PERIOD + timedelta(milliseconds=at_ms)


@ON_BOTH
async def test_the_kinds_of_one_member_are_a_third_of_the_period_apart(story: Kinds) -> None:
    await create(story)
    for place in PLACES:
        assert await story.cycles.put("sync", range(10), place=place) == 10
    await story.server.advance_to(START + 3 * PERIOD)
    for key in range(10):
        for place in PLACES:
            assert story.turns_at(key, place) == [moment(key, place, cycle) for cycle in range(3)]
        between = sorted(at for place in PLACES for at in story.turns_at(key, place))
        assert {b - a for a, b in pairwise(between)} == {PERIOD / 3}


async def test_a_member_has_the_kinds_that_it_was_put_for_and_loses_one_or_all(story: Kinds) -> None:
    await create(story)
    await story.cycles.put("sync", [1, 2], place="payments")
    await story.cycles.put("sync", [1], place="kyc")
    found = [(each.place, each.key) async for each in story.cycles.members("sync")]
    assert sorted(found) == [("kyc", "1"), ("payments", "1"), ("payments", "2")]
    assert [each.key async for each in story.cycles.members("sync", place="reports")] == []
    await story.server.advance_to(START + PERIOD)
    await story.cycles.remove("sync", [1], place="payments")
    await story.server.advance_to(START + 2 * PERIOD)
    assert Counter((who, place) for _, who, place in story.had) == {
        ("1", "payments"): 1,
        ("1", "kyc"): 2,
        ("2", "payments"): 2,
    }
    await story.cycles.remove("sync", [1, 2])
    gone = len(story.had)
    await story.server.advance_to(START + 4 * PERIOD)
    assert len(story.had) == gone


@ON_BOTH
async def test_who_is_put_while_the_slot_of_its_kind_is_under_way_has_that_turn(story: Kinds) -> None:
    await create(story)
    key = next(key for key in range(1_000) if 500 < MOMENTS.moment_ms(key, 1) % 1_000 < 990)
    await story.server.advance_to(moment(key, "reports", 1) - timedelta(milliseconds=300))
    await story.cycles.put("sync", [key], place="reports")
    await story.cycles.put("sync", [key], place="reports")
    await story.server.advance_to(START + 3 * PERIOD)
    assert story.turns_at(key, "reports") == [moment(key, "reports", 1), moment(key, "reports", 2)]


@ON_BOTH
async def test_a_slot_says_the_range_of_each_place_to_the_callers_database(story: Kinds) -> None:
    await create(story, slot_queue="slots")
    worker, keys = story.server.worker(), range(12)

    @worker.on("slots")
    async def fill(delivery: Delivery) -> None:
        assert delivery.slot is not None
        assert (delivery.slot.places[0].lo, delivery.slot.places[0].hi) == (delivery.slot.lo, delivery.slot.hi)
        for place in delivery.slot.places:
            found = [key for key in keys if place.lo <= slot_hash(key) <= place.hi]
            await story.cycles.fill(delivery, found, place=place.name)
            await story.cycles.fill(delivery, found, place=place.name)

    await worker.start()
    await story.server.advance_to(START + 2 * PERIOD)
    for key in keys:
        for place in PLACES:
            assert story.turns_at(key, place)[-1] == moment(key, place, 1)
    assert max(Counter(story.had).values()) == 1
    assert (await story.cycles.get("sync")).places == PLACES


async def test_all_kinds_of_a_member_are_moved_together(story: Kinds) -> None:
    every = timedelta(minutes=9)
    await create(story, every=every)
    heavy = [key for key in range(1_000) if MOMENTS.moment_ms(key) // 1_000 == 4][:4]
    for place in PLACES[:2]:
        await story.cycles.put("sync", heavy, weights=[20] * 4, place=place)
        await story.cycles.put("sync", range(2_000, 2_020), place=place)
    done = await story.cycles.rebalance("sync", max_moved=1, force=True)
    assert done.moved > 1
    assert done.largest < done.largest_before
    assert done.effective_time is not None
    await story.server.advance_to(done.effective_time + every)
    after = await story.cycles.get("sync")
    assert max(each.weight for each in after.costs) == pytest.approx(done.largest)
    for key in heavy:
        payments, reports = (story.turns_at(key, place) for place in PLACES[:2])
        assert (reports[-1] - payments[-1]) % every == every / 3


async def test_what_is_wrong_is_said_before_anything_is_written(story: Kinds) -> None:
    for wrong, sentence in (
        ({"places": ["a", "a"]}, "two places 'a'"),
        ({"places": ["a b"]}, "is not allowed"),
        ({"places": [f"p{n}" for n in range(33)]}, "at most 32"),
        ({"places": ["a", "b"], "slots": 9}, "multiple of 2"),
        ({"places": [f"p{n}" for n in range(7)], "slots": 0}, "7 places do not divide"),
        ({"places": "payments"}, "is a list of names"),
    ):
        with pytest.raises(InvalidTask, match=sentence):
            await create(story, **wrong)
    await create(story)
    with pytest.raises(InvalidTask, match=r"There is no place 'tax': this cycle has the places payments, reports, kyc"):
        await story.cycles.put("sync", [1], place="tax")
    with pytest.raises(InvalidTask, match="The place is missing"):
        await story.cycles.put("sync", [1])
    await story.cycles.create("plain", every=EVERY, queue="members")
    with pytest.raises(InvalidTask, match="this cycle has none, leave it out"):
        await story.cycles.put("plain", [1], place="tax")
