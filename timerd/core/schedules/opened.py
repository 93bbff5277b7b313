"""Whether the occurrence that was created last has ended, and what cancels it.

O1: an occurrence is created by the cas that makes it the open one, fenced by what was read before the look, and only
if the one before has ended in a way that no crash takes back.
"""

from __future__ import annotations

from dataclasses import replace

from timerd.core.partition import Asked
from timerd.core.protocol import (
    AskMayReturn,
    Cancelled,
    Located,
    NotTakenIn,
    Procedure,
    ReadRegister,
    end_expired,
    end_task,
    locate,
    tell_end,
)
from timerd.core.schedules.occurrences import trigger_row
from timerd.core.schedules.overlap import decide, noted
from timerd.core.schedules.world import World, place_rows, times_of
from timerd.model.outcomes import BY_EXPIRY, MARK_OF_OUTCOME
from timerd.model.overlap import OpenedOccurrence, Overlap
from timerd.model.registers import Control, Place, control_key
from timerd.model.schedules import Definition, Schedule, Tick, prefix_of
from timerd.model.settle import Outcome
from timerd.model.storage import MarkKind

ENDS = frozenset((Outcome.ACKED, Outcome.DEAD, Outcome.EXPIRED, Outcome.CANCELLED, Outcome.PURGED))
BY_CALL = (Outcome.CANCELLED, Outcome.PURGED)
# What a cancel says of a task that nobody works any more.
NOBODY_HAS_IT = (Cancelled.CANCELLED, Cancelled.ALREADY_CANCELLED)


def next_record(entry: Schedule, definition: Definition, world: World, tick: Tick) -> Procedure[Schedule]:
    """The clock, THEN the look, THEN what is decided by both."""
    now_ms = world.now_ms()
    looked = yield from look(tick.schedule_id, entry, definition, world)
    at = replace(world, now_ms=lambda: now_ms)
    times = yield from times_of(tick.schedule_id, looked, definition, world)
    return decide(looked, definition, times, at, tick)


def look(schedule_id: str, entry: Schedule, definition: Definition, world: World) -> Procedure[Schedule]:
    """The schedule without what has ended; what is open there is open."""
    yield from finish(schedule_id, entry, definition, world)
    opened = entry.overlap.open
    if opened is None:
        return entry
    is_over, outcome = yield from _looked_at(opened, world)
    return noted(entry, definition, outcome, world.now_ms()) if is_over else entry


def has_ended(opened: OpenedOccurrence, world: World) -> Procedure[bool]:
    is_over, _ = yield from _looked_at(opened, world)
    return is_over


def _looked_at(opened: OpenedOccurrence, world: World) -> Procedure[tuple[bool, Outcome | None]]:
    """Whether it has ended in a way that no crash takes back, and how; None: longer ago than that is kept. What a call
    has ended is over when no worker can come back with it from before a crash."""
    here = yield from locate(opened.task, durable=True)
    if here.rows is None:
        # What lives on is found, wherever it was carried.
        return world.now_ms() > opened.place_ms + world.retention_ms, None
    if here.has_expired(world.now_ms()):
        return (yield from _expired(opened, here))
    outcome = yield from _end_of(opened, here)
    if outcome in BY_CALL and (yield from _may_return(here.place, world)):
        return False, outcome
    return outcome is not None, outcome


def _may_return(place: Place, world: World) -> Procedure[bool]:
    """Whether a worker has it, or may come back with it from before a crash. Where nobody holds it since, who will is
    to be heard first. What is not due was with nobody."""
    if place.key.position_ms > world.now_ms():
        return False
    said: bool | None = yield AskMayReturn(place.partition, place.key)
    if said is not None:
        return said
    stored: bytes | None = yield ReadRegister(control_key(place.partition))
    return stored is not None and Control.from_bytes(stored).verified_ms <= place.key.position_ms


def _expired(opened: OpenedOccurrence, here: Located) -> Procedure[tuple[bool, Outcome | None]]:
    """Its turn may not come for long: it is ended now, so that nobody sends it beside the next one."""
    said = yield from end_expired(opened.task, here)
    if said is Asked.SILENT:
        raise NotTakenIn
    return said is Asked.ENDED, Outcome.EXPIRED


def _end_of(opened: OpenedOccurrence, here: Located) -> Procedure[Outcome | None]:
    """None: it is open. The record of an end may be that of a holder which had a successor by then, who is told."""
    outcome = here.ending.outcome
    if outcome in ENDS:
        said = yield from tell_end(here)
        if said.asked is Asked.SILENT:
            raise NotTakenIn
        return said.outcome if said.asked is Asked.ENDED else None
    if here.first(MarkKind.CANCELLED) == BY_EXPIRY:
        return Outcome.EXPIRED if (yield from end_expired(opened.task, here)) is Asked.ENDED else None
    if any(here.first(MARK_OF_OUTCOME[each]) is not None for each in BY_CALL):
        # A call has cancelled it while it waited somewhere that nobody holds.
        return Outcome.CANCELLED if (yield from cancel(opened)) else None
    return None


def cancel(opened: OpenedOccurrence) -> Procedure[bool]:
    """Whether nobody works it any more. Who does goes on, and no further attempt follows. An end that a crash takes
    back is none: then it is cancelled after all."""
    request = prefix_of("cancel", opened.prefix)
    while True:
        said = yield from end_task(opened.task, Outcome.CANCELLED, request)
        if said is not Cancelled.ALREADY_FIRED:
            return said in NOBODY_HAS_IT
        here = yield from locate(opened.task, durable=True)
        if here.ending.outcome in ENDS or here.first(MarkKind.CANCELLED) == BY_EXPIRY:
            return True


def finish(schedule_id: str, entry: Schedule, definition: Definition, world: World) -> Procedure[None]:
    """What the record says of occurrences, done by the procedure that meets it: what was ousted is cancelled, THEN the
    row of a trigger is there, whose caller may have died."""
    state = entry.overlap
    if state.ousted is not None:
        yield from cancel(state.ousted)
    if state.open is not None and state.open.is_trigger:
        yield from place_rows([trigger_row(schedule_id, state.open, definition)], world)
    if state.waiting and state.open is not None and definition.policies.overlap is Overlap.CANCEL_OTHER:
        yield from cancel(state.open)
