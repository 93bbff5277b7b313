"""Many schedules created at once, each as by itself (F1): all definitions and names, THEN all first ticks, THEN a
compare-and-set each. What goes together is the trip to the store, which costs more than a schedule does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from timerd.core.protocol import Procedure, ReadRegisters, TryCasMany, WriteEntries
from timerd.core.schedules.changes import Name, first_tick_row, new_entries, new_schedule
from timerd.core.schedules.world import World, place_rows
from timerd.model.schedules import Definition, Schedule
from timerd.model.storage import Cas, CasResult, CasStatus


class WantedSchedule(NamedTuple):
    """A schedule that is to be there. `request`: the hash of the call."""

    name: Name
    request: str
    definition: Definition


def create_many(wanted: Sequence[WantedSchedule], world: World) -> Procedure[list[Schedule | None]]:
    """Each name once. None: there is something of that name, or another call was faster: it is to be created by itself,
    which tells what is there (`changes.create`)."""
    stored: Sequence[bytes | None] = yield ReadRegisters([each.name.key for each in wanted])
    new = [each for each, entry in zip(wanted, stored, strict=True) if entry is None]
    fresh = [new_schedule(each.request, each.definition, world) for each in new]
    made = {each.name.schedule_id: entry for each, entry in zip(new, fresh, strict=True)}
    if not made:
        return [None] * len(wanted)
    pairs = list(zip(new, fresh, strict=True))
    yield WriteEntries([row for each, entry in pairs for row in new_entries(each.name, entry, each.definition)])
    yield from place_rows([first_tick_row(each.name, entry, each.definition, world) for each, entry in pairs], world)
    changes = [Cas(each.name.key, None, entry.to_bytes()) for each, entry in pairs]
    results: list[CasResult] = yield TryCasMany(changes)
    for each, result in zip(new, results, strict=True):
        if result.status is not CasStatus.APPLIED:
            del made[each.name.schedule_id]
    return [made.get(each.name.schedule_id) for each in wanted]
