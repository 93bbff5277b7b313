"""Members of a slot get their tasks: those that are in time in one append, the others each by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from timerd.core.protocol import Forgotten
from timerd.core.schedules.member_tasks import CycleRun, SlotMember, member_rows, place_one, place_together
from timerd.core.schedules.world import MissedPlace, World
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.services.holding.driving import Performs, drive
from timerd.services.schedules.ticking import CALL_PAUSE_S, until_decided

# Each of what is late is a few steps at the store, of which nothing waits for another one's.
AT_ONCE = 100


class Filling:
    """Of one instance."""

    def __init__(self, world: World, runner: Performs) -> None:
        self._world = world
        self._runner = runner

    async def fill(self, cycle: CycleRun, members: Sequence[SlotMember]) -> None:
        """Each has its task in this cycle then, also where it had it before. Raises what the store raises: then some
        have it, and it is to be repeated."""
        now_ms = self._world.now_ms()
        moments_ms = cycle.moments_ms([member.key for member in members]).tolist()
        ahead = [member for member, at_ms in zip(members, moments_ms, strict=True) if at_ms >= now_ms]
        behind = [member for member, at_ms in zip(members, moments_ms, strict=True) if at_ms < now_ms]
        for some in (ahead, behind):
            if some:
                await self._place(member_rows(cycle, some, now_ms))

    async def _place(self, groups: dict[Partition, RowGroup]) -> None:
        try:
            await until_decided(lambda: drive(place_together(groups, self._world), self._runner), CALL_PAUSE_S)
        except (MissedPlace, Forgotten):
            await self._place_each(groups)

    async def _place_each(self, groups: dict[Partition, RowGroup]) -> None:
        rows = [(place, group.one(n)) for place, group in groups.items() for n in range(len(group))]
        for start in range(0, len(rows), AT_ONCE):
            await asyncio.gather(*(self._place_one(*row) for row in rows[start : start + AT_ONCE]))

    async def _place_one(self, place: Partition, row: RowGroup) -> None:
        await until_decided(lambda: drive(place_one(place, row, self._world), self._runner), CALL_PAUSE_S)
