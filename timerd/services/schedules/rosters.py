"""The rosters of cycles whose members timerd keeps: their calls, and how a slot is filled from one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from timerd.core.schedules.changes import Name
from timerd.core.schedules.member_tasks import CycleRun, SlotMember
from timerd.core.schedules.roster import (
    Roster,
    RosterPlace,
    forget_removed,
    members_of,
    moved_into,
    put_members,
    read_roster,
    remove_members,
    staying_in,
    withdraw_members,
)
from timerd.core.schedules.roster_walk import more_together, place_of_slot, slot_at, walk_roster, walk_slot
from timerd.core.schedules.slot_costs import note_cost
from timerd.core.schedules.world import World
from timerd.model.cycles import RosterTurn
from timerd.model.errors import NotFound
from timerd.services.holding.driving import Performs, drive
from timerd.services.schedules.filling import AT_ONCE, Filling
from timerd.services.schedules.ticking import CALL_PAUSE_S, until_decided

# Members whose tasks are made together.
BATCH = 5_000


class MembersPlace(NamedTuple):
    """Where a list of members goes on. `kind`: in which place of the cycle."""

    kind: int = 0
    slot: int = 0
    place: RosterPlace | None = None


class MembersPage(NamedTuple):
    """`place`: of all of them. `following` None: there are no more."""

    members: list[SlotMember]
    place: str
    following: MembersPlace | None


class Rosters:
    """Of one instance."""

    def __init__(self, world: World, runner: Performs) -> None:
        self._world = world
        self._runner = runner
        self._filling = Filling(world, runner)

    async def put(self, name: Name, members: Sequence[SlotMember], place: str) -> None:
        await until_decided(lambda: drive(put_members(name, members, self._world, place), self._runner), CALL_PAUSE_S)

    async def remove(self, name: Name, keys: Sequence[str], place: str) -> None:
        left = await drive(remove_members(name, keys, self._world, place), self._runner)
        for start in range(0, len(left), AT_ONCE):
            await self._withdraw(left[start : start + AT_ONCE])

    async def _withdraw(self, chosen: Sequence[tuple[CycleRun, str]]) -> None:
        await until_decided(lambda: drive(withdraw_members(chosen, self._world), self._runner), CALL_PAUSE_S)

    async def page(self, name: Name, place: str, begin: MembersPlace, limit: int) -> MembersPage:
        """Members from there on, of one kind; and where the next ones are, of all kinds where there is no place."""
        first = await drive(read_roster(name), self._runner)
        kinds = [each for each in first.of(place) if each.place >= begin.kind]
        if not kinds:
            return MembersPage([], "", None)
        roster, shape = kinds[0], first.shape
        start = begin.place or place_of_slot(begin.slot, shape.slots)
        found, following = await self._from(roster, start, limit)
        rest = MembersPlace(kinds[1].place) if len(kinds) > 1 else None
        if following is not None:
            rest = MembersPlace(roster.place, slot_at(following, shape.slots), following)
        return MembersPage(found, shape.places[roster.place] if shape.places else "", rest)

    async def _from(
        self, roster: Roster, following: RosterPlace | None, limit: int
    ) -> tuple[list[SlotMember], RosterPlace | None]:
        together, found = 1, list[SlotMember]()
        while following is not None and len(found) < limit:
            walk = walk_roster(roster.entries_uid, following, together, max(2, limit - len(found)))
            stretch = await drive(walk, self._runner)
            found, following = [*found, *members_of(stretch.entries)], stretch.following
            together = more_together(together, len(stretch.entries), limit)
        return found, following

    async def expand(self, turn: RosterTurn) -> None:
        """The members of a slot have their tasks. It was recorded before its task was made, and so before this read of
        the roster."""
        name = Name(turn.namespace, turn.schedule_id)
        try:
            roster = await drive(read_roster(name, turn.uid), self._runner)
        except NotFound:
            return
        for each in roster.of(""):
            await self._expand(each, turn)

    async def _expand(self, roster: Roster, turn: RosterTurn) -> None:
        run, place, together = roster.run(turn.cycle), None, 1
        part = roster.shape.slots_back(turn.slot, roster.place)
        await self._fill(run, turn.slot, await drive(moved_into(run, turn.slot), self._runner))
        while True:
            walk = walk_slot(roster.entries_uid, part, roster.shape.slots, place, together, BATCH)
            entries, place = await drive(walk, self._runner)
            together = more_together(together, len(entries), BATCH)
            await self._fill(run, turn.slot, staying_in(run, turn.slot, entries))
            await drive(forget_removed(entries, self._world.now_ms()), self._runner)
            if place is None:
                return

    async def _fill(self, run: CycleRun, slot: int, members: Sequence[SlotMember]) -> None:
        if members:
            await self._filling.fill(run, members)
            await drive(note_cost(run, slot, members), self._runner)
