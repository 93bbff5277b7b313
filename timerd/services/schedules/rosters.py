"""The rosters of cycles whose members timerd keeps: their calls, and how a slot is filled from one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from timerd.core.schedules.changes import Name
from timerd.core.schedules.member_tasks import CycleRun, SlotMember
from timerd.core.schedules.roster import (
    RosterPlace,
    forget_removed,
    members_of,
    moved_into,
    put_members,
    read_roster,
    remove_members,
    roster_page,
    staying_in,
    withdraw_member,
)
from timerd.core.schedules.roster_walk import MOST_TOGETHER, place_of_slot, slot_at, walk_roster
from timerd.core.schedules.slot_costs import note_cost
from timerd.core.schedules.world import World
from timerd.model.cycles import RosterTurn
from timerd.model.errors import NotFound
from timerd.services.holding.driving import Performs, drive
from timerd.services.schedules.filling import AT_ONCE, Filling
from timerd.services.schedules.ticking import CALL_PAUSE_S, until_decided

# Members whose tasks are made together.
BATCH = 5_000


class Rosters:
    """Of one instance."""

    def __init__(self, world: World, runner: Performs) -> None:
        self._world = world
        self._runner = runner
        self._filling = Filling(world, runner)

    async def put(self, name: Name, members: Sequence[SlotMember]) -> None:
        await until_decided(lambda: drive(put_members(name, members, self._world), self._runner), CALL_PAUSE_S)

    async def remove(self, name: Name, keys: Sequence[str]) -> None:
        left = await drive(remove_members(name, keys, self._world), self._runner)
        for start in range(0, len(left), AT_ONCE):
            await asyncio.gather(*(self._withdraw(*each) for each in left[start : start + AT_ONCE]))

    async def _withdraw(self, run: CycleRun, key: str) -> None:
        await until_decided(lambda: drive(withdraw_member(run, key, self._world), self._runner), CALL_PAUSE_S)

    async def page(
        self, name: Name, slot: int, place: RosterPlace | None, limit: int
    ) -> tuple[list[SlotMember], tuple[int, RosterPlace | None] | None]:
        """Members from this place on, or from a slot on; and where the next ones are. None: there are no more."""
        roster = await drive(read_roster(name), self._runner)
        slots, together = roster.shape.slots, 1
        found: list[SlotMember] = []
        following: RosterPlace | None = place or place_of_slot(slot, slots)
        while following is not None and len(found) < limit:
            walk = walk_roster(roster.uid, following, together, max(2, limit - len(found)))
            stretch = await drive(walk, self._runner)
            found, following = [*found, *members_of(stretch.entries)], stretch.following
            # Where few are found, more segments are read together.
            together = 1 if len(stretch.entries) > limit // 8 else min(8 * together, MOST_TOGETHER)
        return found, (slot_at(following, slots), following) if following is not None else None

    async def expand(self, turn: RosterTurn) -> None:
        """The members of a slot have their tasks. It was recorded before its task was made, and so before this read of
        the roster."""
        name = Name(turn.namespace, turn.schedule_id)
        try:
            roster = await drive(read_roster(name, turn.uid), self._runner)
        except NotFound:
            return
        run, place = roster.run(turn.cycle), None
        await self._fill(run, turn.slot, await drive(moved_into(run, turn.slot), self._runner))
        while True:
            entries, place = await drive(roster_page(roster.uid, roster.shape, turn.slot, place, BATCH), self._runner)
            await self._fill(run, turn.slot, staying_in(run, turn.slot, entries))
            await drive(forget_removed(entries, self._world.now_ms()), self._runner)
            if place is None:
                return

    async def _fill(self, run: CycleRun, slot: int, members: Sequence[SlotMember]) -> None:
        if members:
            await self._filling.fill(run, members)
            await drive(note_cost(run, slot, members), self._runner)
