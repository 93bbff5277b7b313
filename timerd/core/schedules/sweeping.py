"""The sweep after a new release of tzdata (tests/models/zones.pml): each schedule of a zone that changed is updated
with its own definition, so that what was recorded ahead by the old data is withdrawn and recorded anew.

A schedule names the generation of data that its revision was armed by. So a sweep that is repeated, by two instances or
after a crash, arms each one once (Z2). What is only announced, a creation or an update into the zone, is changed so
that its compare-and-set fails (Z4): its caller looks again, and finds the new data.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from enum import Enum

from timerd.core.protocol import Procedure, ReadRegister, TryCas
from timerd.core.schedules.chain import DELETED_MS, wind_up
from timerd.core.schedules.changes import TRIES, Change, Decide, Name, busy, change
from timerd.core.schedules.world import World, definition_of, read_schedule
from timerd.core.schedules.zones import OwnZones
from timerd.model.errors import Aborted, NotFound
from timerd.model.schedules import Definition, Schedule, ScheduleState
from timerd.model.storage import Cas, CasResult, CasStatus
from timerd.model.zones import ZONES, SweptTo, Zones


class Swept(Enum):
    """What a sweep did with a name."""

    ARMED = "armed"
    # It is of another zone, or was armed by these data already.
    LEFT = "left"
    # It has no instants ahead: it only names the generation.
    NOTED = "noted"
    # It is a name without a schedule.
    VOID = "void"
    # It has no instants by the new data, or cannot be read.
    FAILED = "failed"


def sweep_one(name: Name, uid: str, zones: Zones, world: World) -> Procedure[Swept]:
    """Z2. Raises what a change raises."""
    changed = frozenset(zones.changed)
    for _ in range(TRIES * 10):
        entry, stored = yield from read_schedule(name.key)
        if entry is None or entry.state is ScheduleState.DELETED:
            if (yield from _void(name, uid, entry, stored, world)):
                return Swept.VOID
            continue
        if entry.uid != uid:
            return Swept.LEFT
        definition = yield from definition_of(name.namespace, name.schedule_id, uid, entry.revision, entry.attempt)
        if definition is None:
            # It was changed since it was read.
            continue
        if not _concerns(changed, entry, definition):
            return Swept.LEFT
        said = yield from _arm(name, entry, stored, zones.generation, world)
        if said is not None:
            return said
    raise busy()


def _concerns(changed: Set[str], entry: Schedule, definition: Definition) -> bool:
    return definition.spec.zone in changed or entry.coming_zone in changed


def _void(name: Name, uid: str, entry: Schedule | None, stored: bytes | None, world: World) -> Procedure[bool]:
    """As rule F2 does: any change makes the cas of a creation fail."""
    void = Schedule(uid, 0, ScheduleState.DELETED) if entry is None else entry
    void = replace(void, voids=void.voids + 1)
    result: CasResult = yield TryCas(Cas(name.key, stored, void.to_bytes(), world.now_ms() + DELETED_MS))
    return result.status is CasStatus.APPLIED


def _arm(name: Name, entry: Schedule, stored: bytes | None, generation: int, world: World) -> Procedure[Swept | None]:
    """None: it is to be read again."""
    assert stored is not None
    if entry.left.slots:
        # Who armed it may have died before it had wound this up.
        yield from wind_up(name.namespace, name.schedule_id, entry, stored, world)
        return None
    if entry.zones >= generation:
        return Swept.LEFT
    if entry.state is not ScheduleState.ACTIVE:
        result: CasResult = yield TryCas(Cas(name.key, stored, replace(entry, zones=generation).to_bytes()))
        return Swept.NOTED if result.status is CasStatus.APPLIED else None
    try:
        yield from change(name, f"tzdata {generation}", entry.revision, _armed_by(generation), world)
    except (Aborted, NotFound):
        # A caller was faster.
        return None
    return Swept.ARMED


def _armed_by(generation: int) -> Decide:
    def decide(entry: Schedule, definition: Definition, now_ms: int) -> Change | None:
        is_armed = entry.zones >= generation or entry.state is not ScheduleState.ACTIVE
        return None if is_armed else Change(definition, ScheduleState.ACTIVE)

    return decide


def swept_to(own: OwnZones, zones: Zones, place: SweptTo | None, armed: int) -> Procedure[Zones | None]:
    """Z2: the progress, THEN what stands there; None place: the sweep is at its end. Where another instance is further,
    or other data are in force, that stays."""
    while True:
        stored: bytes | None = yield ReadRegister(ZONES)
        known = own.read(stored)
        if known is None or (known.generation, known.swept_to) != (zones.generation, zones.swept_to):
            return known
        done = replace(known, armed=known.armed + armed)
        wanted = (done.ended() if place is None else replace(done, swept_to=place)).to_bytes()
        result: CasResult = yield TryCas(Cas(ZONES, stored, wanted))
        if result.status is CasStatus.APPLIED:
            return own.read(wanted)
