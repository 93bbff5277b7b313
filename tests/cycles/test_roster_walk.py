"""A roster is listed in few reads, also where its members are few."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from timerd.core.protocol import ListEntries
from timerd.core.schedules.roster import RosterPlace
from timerd.core.schedules.roster_walk import SEGMENTS, place_of_slot, slot_at
from timerd.core.slots import cycle
from timerd.services.holding.procedure_runner import ProcedureRunner
from timerd.testing import Server

SHAPE = cycle(28_800_000)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many places each request has listed."""
    counts: list[int] = []
    sound = ProcedureRunner._list_entries

    async def counted(self: ProcedureRunner, request: ListEntries) -> object:
        counts.append(len(request.asked))
        return await sound(self, request)

    monkeypatch.setattr(ProcedureRunner, "_list_entries", counted)
    return counts


@pytest_asyncio.fixture
async def server(asked: list[int], tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(data=tmp_path) as made:
        await made.client().cycles.create("sync", every=timedelta(hours=8), queue="members")
        yield made


async def test_three_members_of_480_slots_are_listed_in_some_reads(server: Server, asked: list[int]) -> None:
    cycles = server.client().cycles
    await cycles.put("sync", [1, 2, 3])
    asked.clear()
    listed = [each.key async for each in cycles.members("sync")]
    assert listed == sorted("123", key=SHAPE.moment_ms)
    assert len(asked) <= 12
    assert sum(asked) == SEGMENTS


async def test_many_are_listed_page_by_page_each_once(server: Server) -> None:
    cycles = server.client().cycles
    await cycles.put("sync", range(3_000))
    await cycles.remove("sync", range(0, 3_000, 3))
    listed = [int(each.key) async for each in cycles.members("sync")]
    left = [key for key in range(3_000) if key % 3]
    assert listed == sorted(left, key=SHAPE.moment_ms)


def test_a_place_knows_its_slot() -> None:
    for slot in (0, 1, 216, 479):
        assert slot_at(place_of_slot(slot, 480), 480) == slot
    assert slot_at(RosterPlace(SEGMENTS - 1, b""), 480) == 479
