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
from timerd.model.overlap import OpenedOccurrence, Overlap
from timerd.model.partition import bucket_of
from timerd.model.schedules import Definition, Schedule, prefix_of
from timerd.model.storage import Cas, CasResult, CasStatus


def trigger(name: Name, request: str, world: World) -> Procedure[OpenedOccurrence | None]:
    """None: the policy is ALLOW, or the occurrence that an earlier try of the call has created is the open one no
    more: then nothing but its row is asked for. Raises NotFound, Aborted and Precondition (another one is open)."""
    for _ in range(TRIES * 10):
        entry, stored = yield from read_schedule(name.key)
        entry = check_alive(name, entry)
        assert stored is not None
        if entry.left.slots:
            yield from wind_up(name.namespace, name.schedule_id, entry, stored, world)
            continue
        definition = yield from current_definition(name.namespace, name.schedule_id, entry)
        if definition.policies.overlap is Overlap.ALLOW:
            return None
        prefix = prefix_of("trigger", entry.uid, request)
        if request in entry.requests:
            yield from finish(name.schedule_id, entry, definition, world)
            opened = entry.overlap.open
            return opened if opened is not None and opened.prefix == prefix.hex() else None
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
    return replace(looked, overlap=replace(looked.overlap, open=opened, ousted=looked.overlap.open))


def _one_is_open(opened: OpenedOccurrence, now_ms: int) -> Precondition:
    which = "a trigger" if opened.is_trigger else f"the instant {shown(opened.instant_ms)}"
    how = "is open" if opened.instant_ms <= now_ms else "is created already"
    return Precondition(
        f"The task of {which} {how}, and the schedule's overlap policy allows no other one beside it: wait for its "
        "end, cancel it, or change the policy.",
        "OCCURRENCE_OPEN",
    )
