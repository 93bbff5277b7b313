"""O3: the instance that has delivered the open occurrence says that it has ended, so what waits need not wait for its
tick. And what else is recorded between the ticks."""

from __future__ import annotations

from collections.abc import Callable

from timerd.core.protocol import Procedure, TryCas
from timerd.core.schedules.chain import complete, tick_of
from timerd.core.schedules.opened import next_record
from timerd.core.schedules.overlap import is_guarded
from timerd.core.schedules.world import World, current_definition, read_schedule
from timerd.model.schedules import Definition, Schedule, ScheduleState, schedule_key
from timerd.model.storage import Cas, CasResult, CasStatus

# Whether a record is to be: of what was read, and what would follow.
Wants = Callable[[Schedule, Schedule, Definition], bool]


def hinted(namespace: str, schedule_id: str, world: World) -> Procedure[bool]:
    """Whether an occurrence was created, or the end was noted that a fixed delay counts from; nothing else is recorded.
    A hint may be lost, or come twice."""
    return (yield from _record_now(namespace, schedule_id, world, _is_a_step))


def watch_open(namespace: str, schedule_id: str, world: World) -> Procedure[None]:
    """Of a fixed delay, when a trigger has opened an occurrence: its end is looked for as that of every other one."""
    yield from _record_now(namespace, schedule_id, world, lambda before, after, definition: True)


def _is_a_step(before: Schedule, after: Schedule, definition: Definition) -> bool:
    if not before.seq:
        return False
    has_ended = before.overlap.open is not None and after.overlap.open is None
    return bool(after.win) or (bool(definition.spec.fixed_delay_ms) and has_ended)


def _record_now(namespace: str, schedule_id: str, world: World, wants: Wants) -> Procedure[bool]:
    """Who records without the tick in hand completes the window before."""
    key = schedule_key(namespace, schedule_id)
    entry, stored = yield from read_schedule(key)
    if entry is None or entry.state is not ScheduleState.ACTIVE or entry.left.slots:
        return False
    definition = yield from current_definition(namespace, schedule_id, entry)
    if not is_guarded(entry, definition):
        return False
    if entry.seq:
        yield from complete(namespace, schedule_id, entry, definition, world)
    recorded = yield from next_record(entry, definition, world, tick_of(namespace, schedule_id, entry))
    if not wants(entry, recorded, definition):
        return False
    recorded = recorded.by_tzdata(world.tzdata)
    result: CasResult = yield TryCas(Cas(key, stored, recorded.to_bytes()))
    if result.status is not CasStatus.APPLIED:
        return False
    world.recorded(entry, recorded)
    yield from complete(namespace, schedule_id, recorded, definition, world)
    return True
