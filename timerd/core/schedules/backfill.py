"""The chain of a backfill: instants of a span of the past get their tasks after all, at a rate.

The steps are those of the chain of a schedule (chain.py): a tick records the next window (W1), THEN writes its rows,
THEN the next tick, THEN it is acked; a repeat takes the window from the record (W2), and inserts its rows as repeats
(W3). It is brought into force as a schedule is (F1, F2), and ends in the midst by a cas, after which what
it had recorded ahead is withdrawn (U2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from timerd.core.protocol import (
    FindEntries,
    Procedure,
    ReadRegister,
    RemoveEntries,
    TryCas,
    Withdrawn,
    WriteEntries,
    withdraw_many,
)
from timerd.core.schedules.backfill_rows import backfill_prefix, backfill_tick_row, rows_of, task_of_slot
from timerd.core.schedules.changes import TRIES, Name, busy, check_alive
from timerd.core.schedules.occurrences import OVER_MS
from timerd.core.schedules.opened import has_ended
from timerd.core.schedules.spec_times import SpecTimes
from timerd.core.schedules.world import World, current_definition, place_rows, read_schedule
from timerd.core.schedules.zones import computed_by
from timerd.model.backfills import Backfill, BackfillName, BackfillState, BackfillTick
from timerd.model.errors import AlreadyExists, Invalid, NotFound, StoreUnknown
from timerd.model.overlap import OpenedOccurrence, Overlap
from timerd.model.partition import bucket_of
from timerd.model.schedules import Definition, Recorded, ScheduleState, Slot, schedule_key
from timerd.model.storage import Cas, CasResult, CasStatus, Entry

# A window holds what may fire within so long.
AHEAD_MS = 10_000
MOST_IN_WINDOW = 1_000
# Instants that a record counts beyond those that it creates.
COUNTED_AT_ONCE = 1_000
# Where one waits for the end of another: a quarter of how long that goes on already, within these.
SOON_MS, LATEST_MS = 250, 10_000
# So long one that has ended can be looked at.
KEPT_MS = 7 * 86_400_000


class BackfillTicked(Enum):
    """What a tick came to. It may be acked."""

    RECORDED = "backfill recorded"
    REPEATED = "backfill repeated"
    OVER = "backfill over"
    VOID = "backfill void"


@dataclass(frozen=True, slots=True)
class PastSpan:
    """What is asked for. `rate`: tasks a second."""

    begin_ms: int
    end_ms: int
    rate: int
    overlap: Overlap


def read_backfill(name: BackfillName) -> Procedure[tuple[Backfill | None, bytes | None]]:
    stored: bytes | None = yield ReadRegister(name.key)
    return (Backfill.from_bytes(stored) if stored is not None else None), stored


def begin_backfill(name: BackfillName, request: str, span: PastSpan, world: World) -> Procedure[Backfill]:
    """F1: the copy of the definition and the name, THEN the first tick, THEN the cas. Raises NotFound (of the
    schedule), AlreadyExists, ZonesDiffer, and Invalid where the span has no instant."""
    for _ in range(TRIES):
        entry, stored = yield from read_backfill(name)
        if entry is not None and request in entry.requests:
            return entry
        if entry is not None and entry.state is not BackfillState.VOID:
            raise AlreadyExists(
                f"The schedule has a backfill {name.backfill_id!r} already: choose another id.",
                "BACKFILL_EXISTS",
                field="backfill_id",
            )
        fresh, definition = yield from _fresh(name, span, world)
        listed = Entry(name.listed(fresh.uid, fresh.made_ms), b"1")
        yield WriteEntries([Entry(name.definition_key(fresh.uid), definition.to_bytes()), listed])
        yield from place_rows([backfill_tick_row(tick_of(name, fresh), *fresh.tick)], world)
        result: CasResult = yield TryCas(Cas(name.key, stored, fresh.asked(request).to_bytes()))
        if result.status is CasStatus.APPLIED:
            return fresh
    raise busy()


def _fresh(name: BackfillName, span: PastSpan, world: World) -> Procedure[tuple[Backfill, Definition]]:
    schedule, _ = yield from read_schedule(schedule_key(name.namespace, name.schedule_id))
    schedule = check_alive(Name(name.namespace, name.schedule_id), schedule)
    definition = yield from current_definition(name.namespace, name.schedule_id, schedule)
    if definition.spec.fixed_delay_ms:
        raise Invalid(
            "The schedule has a fixed delay, which counts from the ends of its tasks: nothing of the past is known.",
            "schedule_id",
        )
    times, generation = yield from _times(name, schedule.zones, definition, world)
    first = [each for each in times.after(span.begin_ms - 1, 1) if each < span.end_ms]
    if not first:
        raise Invalid(
            "The schedule names no instant in that span: look at it with PreviewSchedule from its start on.",
            "start_time",
        )
    now_ms = world.now_ms()
    fresh = Backfill(
        world.token(),
        BackfillState.RUNNING,
        schedule.uid,
        schedule.revision,
        span.begin_ms,
        span.end_ms,
        span.rate,
        span.overlap,
        now_ms,
        ahead=Recorded(next_ms=first[0], before_ms=_before(times, span.begin_ms)),
        cur_ms=span.begin_ms - 1,
        counted_ms=span.begin_ms - 1,
        zones=generation,
    )
    return replace(_counted(fresh, times), tick=_tick_place(name, fresh, now_ms, world)), definition


def _times(
    name: BackfillName, generation: int, definition: Definition, world: World
) -> Procedure[tuple[SpecTimes, int]]:
    """Z3: with the generation that they are computed by. Raises ZonesDiffer: others are to compute them."""
    generation = yield from computed_by(world.zones, definition.spec.zone, generation, world.now_ms())
    return world.times(name.schedule_id, definition), generation


def _before(times: SpecTimes, begin_ms: int) -> int:
    """The instant before, as far as a year back; 0: there is none."""
    for back_ms in (60_000, 3_600_000, 86_400_000, 32 * 86_400_000, 366 * 86_400_000):
        found, at_ms = 0, max(0, begin_ms - back_ms)
        while nexts := [each for each in times.after(at_ms, 1_000) if each < begin_ms]:
            found = at_ms = nexts[-1]
        if found:
            return found
    return 0


def run_backfill_tick(tick: BackfillTick, world: World) -> Procedure[BackfillTicked]:
    """Raises NotTakenIn, StoreUnknown, ZonesDiffer and what the store raises: then the tick comes again, or another
    instance works it. A window that is recorded is completed by whatever instance (W2)."""
    while True:
        entry, stored = yield from read_backfill(tick.name)
        if not tick.number and (entry is None or entry.state is BackfillState.VOID):
            if (yield from _void(tick, entry, stored, world)):
                return BackfillTicked.VOID
            continue
        if entry is None or stored is None or entry.uid != tick.uid or entry.seq > tick.number + 1:
            return BackfillTicked.OVER
        if entry.state is BackfillState.CANCELLED and entry.ahead.slots:
            yield from wind_up(tick.name, entry, stored, world)
            continue
        if entry.state is BackfillState.CANCELLED:
            yield from _forget_copy(tick.name, entry)
            return BackfillTicked.OVER
        found: list[bytes | None] = yield FindEntries([tick.name.definition_key(entry.uid)])
        if found[0] is None:
            # All is written, and its copy was removed.
            return BackfillTicked.OVER
        definition = Definition.from_bytes(found[0])
        if entry.seq == tick.number + 1:
            yield from complete(tick.name, entry, definition, world)
            return BackfillTicked.REPEATED
        if not (yield from _is_wanted(tick.name, entry)):
            yield from _cancel(tick.name, entry, stored, "The schedule was deleted.", world)
            continue
        recorded = yield from _record(tick.name, entry, stored, definition, world)
        if recorded is not None:
            yield from complete(tick.name, recorded, definition, world)
            return BackfillTicked.RECORDED


def _void(tick: BackfillTick, entry: Backfill | None, stored: bytes | None, world: World) -> Procedure[bool]:
    """F2: any change makes the cas fail that would bring it into force; its caller writes another first tick."""
    void = Backfill("", BackfillState.VOID, voids=(entry.voids if entry is not None else 0) + 1)
    result: CasResult = yield TryCas(Cas(tick.name.key, stored, void.to_bytes(), world.now_ms() + KEPT_MS))
    return result.status is CasStatus.APPLIED


def _is_wanted(name: BackfillName, entry: Backfill) -> Procedure[bool]:
    schedule, _ = yield from read_schedule(schedule_key(name.namespace, name.schedule_id))
    return schedule is not None and schedule.uid == entry.schedule_uid and schedule.state is not ScheduleState.DELETED


def _record(
    name: BackfillName, entry: Backfill, stored: bytes, definition: Definition, world: World
) -> Procedure[Backfill | None]:
    """W1: fenced by the whole value that was read, and O1: looked at after it. None: refused, look again. Raises
    ZonesDiffer."""
    is_open = entry.open is not None and not (yield from has_ended(entry.open, world))
    times, generation = yield from _times(name, entry.zones, definition, world)
    planned = _waiting(entry, world) if is_open else _planned(entry, definition, times, world)
    planned = _counted(planned, times)
    recorded = replace(planned, tick=_next_tick(name, planned, world), zones=generation)
    expires_at_ms = world.now_ms() + KEPT_MS if recorded.state is BackfillState.DONE else 0
    result: CasResult = yield TryCas(Cas(name.key, stored, recorded.to_bytes(), expires_at_ms))
    return recorded if result.status is CasStatus.APPLIED else None


def _waiting(entry: Backfill, world: World) -> Backfill:
    """Another look, without a row."""
    assert entry.open is not None
    poll_ms = min(max((world.now_ms() - entry.open.place_ms) // 4, SOON_MS), LATEST_MS)
    return replace(entry, seq=entry.seq + 1, win=0, free_ms=world.now_ms() + poll_ms, error="")


def _ahead(entry: Backfill, slots: Sequence[Slot], next_ms: int, now_ms: int) -> Recorded:
    """What of the records before is not over for a second, and these."""
    before = entry.ahead
    over = [slot for slot in before.slots if slot.place_ms <= now_ms - OVER_MS]
    before_ms = over[-1].instant_ms if over else before.before_ms
    return Recorded(entry.revision, "", before_ms, next_ms, (*before.slots[len(over) :], *slots))


def _planned(entry: Backfill, definition: Definition, times: SpecTimes, world: World) -> Backfill:
    """The next window: what may fire within the next ten seconds, or the one next instant."""
    free_ms = max(entry.free_ms, world.now_ms())
    most = 1
    if entry.overlap is Overlap.ALLOW:
        room_ms = world.now_ms() + AHEAD_MS - free_ms
        most = min(max(1, room_ms * entry.rate // 1_000), MOST_IN_WINDOW)
    found = [each for each in times.after(entry.cur_ms, most + 1) if each < entry.end_ms]
    chosen, next_ms = found[:most], found[most] if len(found) > most else 0
    slots = tuple(
        _slot(entry, instant_ms, free_ms + number * 1_000 // entry.rate, world)
        for number, instant_ms in enumerate(chosen)
    )
    opened = _opened(entry, slots[-1], definition) if slots and entry.overlap is not Overlap.ALLOW else None
    return replace(
        entry,
        state=entry.state if chosen else BackfillState.DONE,
        seq=entry.seq + 1,
        win=len(slots),
        ahead=_ahead(entry, slots, next_ms, world.now_ms()),
        cur_ms=chosen[-1] if chosen else entry.end_ms - 1,
        free_ms=free_ms - (-len(slots) * 1_000 // entry.rate),
        created=entry.created + len(slots),
        open=opened,
        error="",
    )


def _slot(entry: Backfill, instant_ms: int, place_ms: int, world: World) -> Slot:
    prefix = backfill_prefix(entry, instant_ms)
    return Slot(instant_ms, place_ms, place_ms, world.shard_of(prefix, bucket_of(place_ms)))


def _opened(entry: Backfill, slot: Slot, definition: Definition) -> OpenedOccurrence:
    prefix, template = backfill_prefix(entry, slot.instant_ms).hex(), definition.template
    place = (slot.place_ms, slot.shard, template.scope, template.priority)
    return OpenedOccurrence(prefix, *place, slot.instant_ms, entry.revision)


def _counted(entry: Backfill, times: SpecTimes) -> Backfill:
    """A part of the span is counted with each record, and all of it where it is short."""
    if entry.is_counted:
        return entry
    found = times.after(entry.counted_ms, COUNTED_AT_ONCE)
    within = [each for each in found if each < entry.end_ms]
    is_all = len(within) < COUNTED_AT_ONCE
    return replace(entry, counted=entry.counted + len(within), counted_ms=entry.end_ms - 1 if is_all else within[-1])


def _next_tick(name: BackfillName, entry: Backfill, world: World) -> tuple[int, ...]:
    """In the middle of what is recorded ahead; when the last one is due; while one is open, at the next look."""
    if entry.state is not BackfillState.RUNNING:
        return ()
    if entry.win and not entry.ahead.next_ms and entry.overlap is Overlap.ALLOW:
        return _tick_place(name, entry, max(world.now_ms(), entry.ahead.slots[-1].place_ms), world)
    ahead_ms = AHEAD_MS // 2 if entry.overlap is Overlap.ALLOW else 0
    soon_ms = SOON_MS if entry.win and entry.overlap is not Overlap.ALLOW else 0
    return _tick_place(name, entry, max(world.now_ms() + soon_ms, entry.free_ms - ahead_ms), world)


def _tick_place(name: BackfillName, entry: Backfill, place_ms: int, world: World) -> tuple[int, int]:
    return place_ms, world.shard_of(tick_of(name, entry).prefix, bucket_of(place_ms))


def tick_of(name: BackfillName, entry: Backfill) -> BackfillTick:
    """The next one: of the number of windows that are recorded."""
    return BackfillTick(*name, entry.uid, entry.seq)


def complete(name: BackfillName, entry: Backfill, definition: Definition, world: World) -> Procedure[None]:
    """The rows of the last record, THEN the next tick; after the last window nobody needs the copy any more."""
    yield from place_rows(rows_of(name, entry, entry.window, definition), world)
    if entry.tick:
        yield from place_rows([backfill_tick_row(tick_of(name, entry), *entry.tick)], world)
    else:
        yield RemoveEntries([name.definition_key(entry.uid)])


# --- the end in the midst --------------------------------------------------------------------------------------------


def cancel_backfill(name: BackfillName, request: str, world: World) -> Procedure[Backfill]:
    """To its end: after it nothing starts that was to fire later. What has ended stays as it is. Raises NotFound."""
    for _ in range(TRIES * 10):
        entry, stored = yield from read_backfill(name)
        if entry is None or stored is None or entry.state is BackfillState.VOID:
            raise no_backfill(name)
        if entry.state is BackfillState.RUNNING:
            yield from _cancel(name, entry.asked(request), stored, "", world)
        elif entry.state is BackfillState.CANCELLED and entry.ahead.slots:
            yield from wind_up(name, entry, stored, world)
        else:
            yield from _forget_copy(name, entry)
            return entry
    raise busy()


def _forget_copy(name: BackfillName, entry: Backfill) -> Procedure[None]:
    if entry.state is BackfillState.CANCELLED:
        yield RemoveEntries([name.definition_key(entry.uid)])


def no_backfill(name: BackfillName) -> NotFound:
    return NotFound(
        f"The schedule {name.schedule_id!r} has no backfill {name.backfill_id!r}, or it ended a week ago: list "
        "those that there are.",
        "BACKFILL_NOT_FOUND",
        field="backfill_id",
    )


def _cancel(name: BackfillName, entry: Backfill, stored: bytes, why: str, world: World) -> Procedure[None]:
    now_ms = world.now_ms()
    over = replace(entry, state=BackfillState.CANCELLED, tick=(), ended_ms=now_ms, error=why)
    yield TryCas(Cas(name.key, stored, over.to_bytes(), now_ms + KEPT_MS))


def wind_up(name: BackfillName, entry: Backfill, stored: bytes, world: World) -> Procedure[None]:
    """U2: what was to fire up to the end is inserted, for who recorded it may have died; the rest is withdrawn, and
    what of it had started is inserted as well (core/schedules/chain.py). THEN a cas forgets it."""
    found: list[bytes | None] = yield FindEntries([name.definition_key(entry.uid)])
    if found[0] is None:
        raise StoreUnknown("The backfill was changed while it was read.")
    definition = Definition.from_bytes(found[0])
    slots = list(enumerate(entry.ahead.slots))
    due = [each for each in slots if each[1].fire_at_ms <= entry.ended_ms]
    yield from place_rows(rows_of(name, entry, due, definition), world)
    later = slots[len(due) :]
    tasks = [task_of_slot(entry, slot, definition) for _, slot in later]
    said = yield from withdraw_many(tasks, f"backfill {entry.uid}", world.now_ms, world.retention_ms)
    started = [each for each, what in zip(later, said, strict=True) if what is Withdrawn.STARTED]
    yield from place_rows(rows_of(name, entry, started, definition), world)
    withdrawn = len(later) - len(started)
    none_ahead = Recorded(before_ms=slots[-1][1].instant_ms)
    wound_up = replace(entry, win=0, ahead=none_ahead, created=entry.created - withdrawn, open=None)
    yield TryCas(Cas(name.key, stored, wound_up.to_bytes(), world.now_ms() + KEPT_MS))


def mark_backfill_broken(tick: BackfillTick, error: str) -> Procedure[None]:
    """What its users are shown, until a tick comes through."""
    entry, stored = yield from read_backfill(tick.name)
    is_its_own = entry is not None and entry.uid == tick.uid and entry.state is BackfillState.RUNNING
    if entry is not None and is_its_own and entry.error != error:
        yield TryCas(Cas(tick.name.key, stored, replace(entry, error=error).to_bytes()))
