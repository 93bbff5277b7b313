"""Many schedules created at once, each as by itself (F1): all definitions and names, THEN one look whose zones are in
force (Z4), THEN all first ticks, THEN a compare-and-set each. What goes together is the trip to the store, which costs
more than a schedule does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from timerd.core.protocol import Procedure, ReadRegisters, TryCasMany, WriteEntries
from timerd.core.schedules.changes import (
    Name,
    announce_namespaces,
    armed_by,
    first_tick_row,
    new_entries,
    new_schedule,
)
from timerd.core.schedules.world import OccurrenceRow, World, place_rows
from timerd.core.schedules.zones import ZonesDiffer, computed_together
from timerd.model.schedules import Definition, Schedule
from timerd.model.storage import Cas, CasResult, CasStatus


class WantedSchedule(NamedTuple):
    """A schedule that is to be there. `request`: the hash of the call."""

    name: Name
    request: str
    definition: Definition

    @property
    def zone(self) -> str:
        return self.definition.spec.zone


Pair = tuple[WantedSchedule, Schedule]


def create_many(wanted: Sequence[WantedSchedule], world: World) -> Procedure[list[Schedule | None]]:
    """Each name once. None: there is something of that name, another call was faster, or other instances are to compute
    its zone: it is to be created by itself, which tells what is there, or refuses it (`changes.create`)."""
    stored: Sequence[bytes | None] = yield ReadRegisters([each.name.key for each in wanted])
    new = [each for each, entry in zip(wanted, stored, strict=True) if entry is None]
    computed = yield from computed_together(world.zones, [each.zone for each in new], world.now_ms())
    now = world.at_one_moment()
    pairs = [
        (each, new_schedule(each.request, each.definition, computed[each.zone], now))
        for each in new
        if each.zone in computed
    ]
    if not pairs:
        return [None] * len(wanted)
    yield from announce_namespaces([each.name for each, _ in pairs], world)
    yield WriteEntries([row for each, entry in pairs for row in new_entries(each.name, entry, each.definition)])
    pairs, rows = yield from _armed(pairs, world)
    yield from place_rows(rows, world)
    made = yield from _brought_into_force(pairs)
    return [made.get(each.name) for each in wanted]


def _armed(pairs: Sequence[Pair], world: World) -> Procedure[tuple[list[Pair], list[OccurrenceRow]]]:
    """Z4, and the first tick of each. Those are missing whose zones other data came into force of meanwhile."""
    generations = yield from computed_together(world.zones, [each.zone for each, _ in pairs], world.now_ms(), anew=True)
    armed: list[Pair] = []
    rows: list[OccurrenceRow] = []
    now = world.at_one_moment()
    for each, entry in pairs:
        if each.zone not in generations:
            continue
        fresh = armed_by(generations[each.zone], entry, now)
        try:
            rows.append((yield from first_tick_row(each.name, fresh, each.definition, now)))
        except ZonesDiffer:
            continue
        armed.append((each, fresh))
    return armed, rows


def _brought_into_force(pairs: Sequence[Pair]) -> Procedure[dict[Name, Schedule]]:
    """A sweep that met one of them has changed its register, and it is missing (Z4)."""
    if not pairs:
        return {}
    results: list[CasResult] = yield TryCasMany([Cas(each.name.key, None, entry.to_bytes()) for each, entry in pairs])
    said = zip(pairs, results, strict=True)
    return {each.name: entry for (each, entry), result in said if result.status is CasStatus.APPLIED}
