"""One more occurrence, because a caller asks for it. Where occurrences must not run beside each other it becomes the
open one, as those of instants do (O1)."""

from __future__ import annotations

from dataclasses import replace

from timerd.core.protocol import Procedure, TryCas
from timerd.core.schedules.chain import complete, wind_up
from timerd.core.schedules.changes import TRIES, Name, busy, check_alive
from timerd.core.schedules.hinted import watch_open
from timerd.core.schedules.opened import finish, look
from timerd.core.schedules.world import World, current_definition, read_schedule
from timerd.model.errors import Precondition
from timerd.model.instants import shown
from timerd.model.overlap import MOST_TRIGGERED, OpenedOccurrence, Overlap
from timerd.model.partition import bucket_of
from timerd.model.schedules import Definition, Schedule, prefix_of
from timerd.model.storage import Cas, CasResult, CasStatus


def trigger(name: Name, request: str, world: World) -> Procedure[OpenedOccurrence | None]:
    """None: the policy is ALLOW, and nothing but its row is asked for. A repeat is answered with what an earlier try
    has created, also where that has ended and another one is open by now. Raises NotFound, Aborted and Precondition
    (another one is open)."""
    for _ in range(TRIES * 10):
        entry, stored = yield from read_schedule(name.key)
        entry = check_alive(name, entry)
        assert stored is not None
        if entry.left.slots:
            yield from wind_up(name.namespace, name.schedule_id, entry, stored, world)
            continue
        definition = yield from current_definition(name.namespace, name.schedule_id, entry)
        prefix = prefix_of("trigger", entry.uid, request)
        before = entry.overlap.triggered_as(prefix.hex())
        if before is not None or request in entry.requests:
            yield from finish(name.schedule_id, entry, definition, world)
            return before
        if definition.policies.overlap is Overlap.ALLOW:
            return None
        now_ms = world.now_ms()
        looked = yield from look(name.schedule_id, entry, definition, world)
        if looked.overlap.open is not None and definition.policies.overlap is not Overlap.REPLACE:
            raise _one_is_open(looked.overlap.open, now_ms)
        if looked.overlap.open is not None:
            # Its row is there before it is ousted: who recorded it may write it only now, beside this one.
            yield from complete(name.namespace, name.schedule_id, entry, definition, world)
        opened = _opened(entry, prefix, definition, now_ms, world)
        wanted = _with(looked, opened).asked(request)
        result: CasResult = yield TryCas(Cas(name.key, stored, wanted.to_bytes()))
        if result.status is CasStatus.APPLIED:
            yield from finish(name.schedule_id, wanted, definition, world)
            if definition.spec.fixed_delay_ms:
                yield from watch_open(name.namespace, name.schedule_id, world)
            return opened
    raise busy()


def _opened(entry: Schedule, prefix: bytes, definition: Definition, now_ms: int, world: World) -> OpenedOccurrence:
    template = definition.template
    shard = world.shard_of(prefix, bucket_of(now_ms))
    place = (now_ms, shard, template.scope, template.priority)
    return OpenedOccurrence(prefix.hex(), *place, now_ms, entry.revision, is_trigger=True)


def _with(looked: Schedule, opened: OpenedOccurrence) -> Schedule:
    """What is open, and has not ended, is ousted."""
    state = looked.overlap
    triggered = (*state.triggered, opened)[-MOST_TRIGGERED:]
    return replace(looked, overlap=replace(state, open=opened, ousted=state.open, triggered=triggered))


def _one_is_open(opened: OpenedOccurrence, now_ms: int) -> Precondition:
    which = "a trigger" if opened.is_trigger else f"the instant {shown(opened.instant_ms)}"
    how = "is open" if opened.instant_ms <= now_ms else "is created already"
    return Precondition(
        f"The task of {which} {how}, and the schedule's overlap policy allows no other one beside it: wait for its "
        "end, cancel it, or change the policy.",
        "OCCURRENCE_OPEN",
    )
