"""Members of a high weight get other moments (core/balance.py): what would be moved, and the change that does it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from timerd.core.balance import Balance, SlotCosts, WeightedMember, balanced, merged
from timerd.core.schedules.changes import Name
from timerd.core.schedules.layouts import MemberHashes, forget_places, laid_out, place_of, write_places
from timerd.core.schedules.roster import Roster, RosterEntry, RosterPlace, read_roster
from timerd.core.schedules.roster_walk import place_of_slot, walk_roster
from timerd.model.cycles import CycleShape, Turn, begin_ms
from timerd.services.holding.driving import Performs, drive
from timerd.services.schedules.schedules import Schedules

# Members that are read together, of so many segments of the roster.
BATCH, TOGETHER = 5_000, 64


class Rebalanced(NamedTuple):
    """`effective_ms`: from when on they are where they were moved; 0: nobody was."""

    balance: Balance
    effective_ms: int = 0


class Rebalancing:
    """Of one instance."""

    def __init__(self, schedules: Schedules, runner: Performs) -> None:
        self._schedules = schedules
        self._runner = runner
        self._token: Callable[[], str] = schedules.world.token

    async def look(self, name: Name, max_moved: float) -> Rebalanced:
        """What would be moved. Raises NotFound, Precondition."""
        roster = await drive(read_roster(name), self._runner)
        balance, _ = await self._balance(roster, max_moved)
        return Rebalanced(balance)

    async def rebalance(self, name: Name, request: str, revision: int, max_moved: float) -> Rebalanced:
        """Raises NotFound, Precondition, and Aborted where the cycle was changed meanwhile."""
        shown = await self._schedules.get(name)
        roster = await drive(read_roster(name, shown.entry.uid), self._runner)
        balance, kept = await self._balance(roster, max_moved)
        if not balance.places:
            return Rebalanced(balance)
        layout = self._token()
        places = merged(_places(roster), balance.places, {*kept, *balance.places})
        await drive(write_places(roster.uid, layout, places), self._runner)
        changed = await self._schedules.change(name, request, revision or shown.entry.revision, laid_out(layout))
        shape = changed.definition.cycle
        assert shape is not None
        await self._forget(roster, shape, layout)
        return Rebalanced(balance, begin_ms(shape, Turn(shape.layouts[-1].cycle, 0)))

    async def _balance(self, roster: Roster, max_moved: float) -> tuple[Balance, set[str]]:
        """And those members whose place is not that of their hash."""
        costs, places, kept = SlotCosts(roster.shape.slots), _places(roster), set[str]()
        for kind in roster.of(""):
            behind = roster.shape.slots_on(0, kind.place)
            async for each in self._members(kind):
                costs.add(WeightedMember(each.weight, each.key, place_of(each.key, places), behind))
                kept |= {each.key} & places.keys()
        return balanced(costs, max(1, int(max_moved * costs.members))), kept

    async def _members(self, roster: Roster) -> AsyncIterator[RosterEntry]:
        following: RosterPlace | None = place_of_slot(0, roster.shape.slots)
        while following is not None:
            walk = walk_roster(roster.entries_uid, following, TOGETHER, BATCH)
            entries, following = await drive(walk, self._runner)
            for each in entries:
                if each.payload is not None:
                    yield each

    async def _forget(self, roster: Roster, shape: CycleShape, layout: str) -> None:
        """Layouts that hold for no cycle any more, and one of a try that came too late."""
        needed = {each.layout for each in shape.layouts}
        for each in {*(before.layout for before in roster.shape.layouts), layout} - needed:
            await drive(forget_places(roster.uid, each), self._runner)


def _places(roster: Roster) -> MemberHashes:
    """Of the last layout, also where it is to come."""
    layouts = roster.shape.layouts
    return roster.places[layouts[-1].layout] if layouts else {}
