"""O3: the instance that has delivered the open occurrence says that it has ended, so what waits need not wait for its
tick."""

from __future__ import annotations

from dataclasses import replace

from timerd.core.protocol import Procedure, TryCas
from timerd.core.schedules.chain import complete, tick_of
from timerd.core.schedules.opened import next_record
from timerd.core.schedules.overlap import is_guarded
from timerd.core.schedules.world import World, current_definition, read_schedule
from timerd.model.schedules import ScheduleState, schedule_key
from timerd.model.storage import Cas, CasResult, CasStatus


def hinted(namespace: str, schedule_id: str, world: World) -> Procedure[bool]:
    """Whether an occurrence was created; nothing else is recorded. Who records without the tick in hand completes the
    window before. A hint may be lost, or come twice."""
    key = schedule_key(namespace, schedule_id)
    entry, stored = yield from read_schedule(key)
    if entry is None or entry.state is not ScheduleState.ACTIVE or entry.left.slots or not entry.seq:
        return False
    definition = yield from current_definition(namespace, schedule_id, entry)
    if not is_guarded(entry, definition):
        return False
    yield from complete(namespace, schedule_id, entry, definition, world)
    recorded = yield from next_record(entry, definition, world, tick_of(namespace, schedule_id, entry))
    if not recorded.win:
        return False
    recorded = replace(recorded, tzdata=world.tzdata)
    result: CasResult = yield TryCas(Cas(key, stored, recorded.to_bytes()))
    if result.status is not CasStatus.APPLIED:
        return False
    world.recorded(entry, recorded)
    yield from complete(namespace, schedule_id, recorded, definition, world)
    return True
