"""The chain of ticks (tests/models/schedules.pml). Tick n of a revision records the next window in the register
(W1), THEN writes the rows of the record, THEN tick n + 1, THEN it is acked. A holder that repeats a step finds the
record and writes what it names (W2): a stale holder writes the same rows again, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from timerd.core.protocol import Procedure, RemoveEntries, TryCas, Withdrawn, withdraw_many
from timerd.core.schedules.occurrences import rows_of, task_of, tick_row, window_rows
from timerd.core.schedules.opened import finish, next_record
from timerd.core.schedules.overlap import is_guarded
from timerd.core.schedules.planning import LAST_MS, next_instants, plan
from timerd.core.schedules.spec_times import SpecTimes
from timerd.core.schedules.world import (
    World,
    current_definition,
    definition_of,
    place_rows,
    read_schedule,
    times_of,
)
from timerd.model.overlap import OverlapState
from timerd.model.registers import RegisterKey
from timerd.model.schedules import Definition, Recorded, Schedule, ScheduleState, Tick, definition_key, schedule_key
from timerd.model.storage import Cas, CasResult, CasStatus

# So long the register of a schedule that was deleted tells so.
DELETED_MS = 86_400_000


class Ticked(Enum):
    """What a tick came to. It may be acked."""

    RECORDED = "recorded"
    REPEATED = "repeated"
    OVER = "over"
    VOID = "void"
    # A pause is over.
    PAUSED_UNTIL = "paused until"


def run_tick(tick: Tick, world: World) -> Procedure[Ticked]:
    """Raises NotTakenIn, StoreUnknown and what the store raises: then the tick comes again."""
    key = schedule_key(tick.namespace, tick.schedule_id)
    while True:
        entry, stored = yield from read_schedule(key)
        if is_before_its_revision(entry, tick):
            if (yield from _void(key, entry, stored, tick, world)):
                return Ticked.VOID
            continue
        if entry is None or stored is None or entry.uid != tick.uid:
            return Ticked.OVER
        if entry.left.slots:
            yield from wind_up(tick.namespace, tick.schedule_id, entry, stored, world)
            continue
        if _is_of_the_past(entry, tick):
            return Ticked.OVER
        definition = yield from current_definition(tick.namespace, tick.schedule_id, entry)
        if entry.state is ScheduleState.PAUSED:
            return Ticked.PAUSED_UNTIL if definition.until_ms else Ticked.OVER
        if entry.seq == tick.number + 1:
            yield from complete(tick.namespace, tick.schedule_id, entry, definition, world)
            return Ticked.REPEATED
        recorded = yield from record(key, entry, stored, definition, world, tick)
        if recorded is not None:
            yield from complete(tick.namespace, tick.schedule_id, recorded, definition, world)
            return Ticked.RECORDED


def is_before_its_revision(entry: Schedule | None, tick: Tick) -> bool:
    """F2: a first tick that came before the cas that brings its revision into force."""
    if tick.number:
        return False
    if entry is None:
        return True
    if entry.uid == tick.uid:
        return entry.revision < tick.revision
    return entry.state is ScheduleState.DELETED and tick.revision == 1


def _is_of_the_past(entry: Schedule, tick: Tick) -> bool:
    """U3, once what was left is wound up; or it is of a try that failed, or its window was completed by another one."""
    if entry.revision != tick.revision or entry.attempt != tick.attempt:
        return True
    return (
        entry.state is ScheduleState.DELETED
        or entry.seq > tick.number + 1
        or (entry.seq == tick.number and entry.state is ScheduleState.DONE)
    )


def _void(key: RegisterKey, entry: Schedule | None, stored: bytes | None, tick: Tick, world: World) -> Procedure[bool]:
    """F2: any change makes that cas fail; its caller writes another first tick."""
    if entry is None:
        void = Schedule(tick.uid, 0, ScheduleState.DELETED, voids=1)
    else:
        void = replace(entry, voids=entry.voids + 1)
    expires_at_ms = world.now_ms() + DELETED_MS if void.state is ScheduleState.DELETED else 0
    result: CasResult = yield TryCas(Cas(key, stored, void.to_bytes(), expires_at_ms))
    return result.status is CasStatus.APPLIED


def record(
    key: RegisterKey, entry: Schedule, stored: bytes, definition: Definition, world: World, tick: Tick
) -> Procedure[Schedule | None]:
    """W1: fenced by the whole value that was read. None: refused, look again."""
    if is_guarded(entry, definition):
        recorded = yield from next_record(entry, definition, world, tick)
    else:
        times = yield from times_of(tick.schedule_id, entry, definition, world)
        recorded = plan(entry, definition, times, world, tick)
    recorded = recorded.by_tzdata(world.tzdata)
    result: CasResult = yield TryCas(Cas(key, stored, recorded.to_bytes()))
    if result.status is not CasStatus.APPLIED:
        return None
    world.recorded(entry, recorded)
    return recorded


def complete(
    namespace: str, schedule_id: str, entry: Schedule, definition: Definition, world: World
) -> Procedure[None]:
    """What the last record cancels, THEN its rows, THEN the next tick."""
    yield from finish(schedule_id, entry, definition, world)
    yield from place_rows(window_rows(schedule_id, entry, definition), world)
    if entry.tick:
        tick = tick_of(namespace, schedule_id, entry)
        yield from place_rows([tick_row(tick, *entry.tick)], world)
    watch_if_waiting(namespace, schedule_id, entry, definition, world)


def watch_if_waiting(namespace: str, schedule_id: str, entry: Schedule, definition: Definition, world: World) -> None:
    """O3: something is to follow the end of what is open."""
    is_waiting = entry.overlap.waiting or not entry.win or definition.spec.fixed_delay_ms
    if entry.overlap.open is not None and is_waiting:
        world.watches(namespace, schedule_id, entry.overlap.open.task.digest)


def tick_of(namespace: str, schedule_id: str, entry: Schedule) -> Tick:
    """The next one: of the number of windows that are recorded."""
    return Tick(namespace, schedule_id, entry.uid, entry.revision, entry.seq, entry.attempt)


def bring(
    namespace: str, schedule_id: str, entry: Schedule, stored: bytes, until_ms: int, world: World
) -> Procedure[bool]:
    """U1: whether the chain has recorded all instants up to then. Else a step was made, and it is to be read again. Who
    records without the tick in hand completes the window before."""
    if entry.state is not ScheduleState.ACTIVE:
        return True
    definition = yield from current_definition(namespace, schedule_id, entry)
    times = yield from times_of(schedule_id, entry, definition, world)
    if not _has_come_due(entry, definition, times, until_ms):
        return True
    if entry.seq:
        yield from complete(namespace, schedule_id, entry, definition, world)
    key, tick = schedule_key(namespace, schedule_id), tick_of(namespace, schedule_id, entry)
    recorded = yield from record(key, entry, stored, definition, world, tick)
    if recorded is not None:
        yield from complete(namespace, schedule_id, recorded, definition, world)
    return False


def _has_come_due(entry: Schedule, definition: Definition, times: SpecTimes, until_ms: int) -> bool:
    """Whether an instant is to be recorded up to then. One that must not run beside another waits for its jitter."""
    upcoming = next_instants(entry, times, 2)
    if not upcoming or not is_guarded(entry, definition):
        return bool(upcoming) and upcoming[0] <= until_ms
    next_ms = upcoming[1] if len(upcoming) > 1 else LAST_MS
    return times.fire_at_ms(bytes.fromhex(entry.uid), upcoming[0], next_ms) <= until_ms


def wind_up(namespace: str, schedule_id: str, entry: Schedule, stored: bytes, world: World) -> Procedure[None]:
    """U2: what the revision before had recorded ahead. At or before the change its rows are inserted, for who recorded
    them may have died; after it they are withdrawn, and what had started is noted, and inserted as well: it may be on
    its way to a later place, and who writes it there may have died. THEN a cas forgets them."""
    left, since_ms = entry.left, entry.since_ms
    definition = yield from definition_of(namespace, schedule_id, entry.uid, left.revision, left.attempt)
    if definition is None:
        # Another one has wound it up meanwhile, or the cas below will be refused.
        definition = yield from current_definition(namespace, schedule_id, entry)
    slots = list(enumerate(left.slots))
    due = [each for each in slots if each[1].fire_at_ms <= since_ms]
    yield from place_rows(rows_of(schedule_id, entry.uid, left, due, definition), world)
    later = slots[len(due) :]
    tasks = [task_of(entry.uid, left.revision, slot, definition.template) for _, slot in later]
    request = f"schedule {entry.uid} {entry.revision}"
    said = yield from withdraw_many(tasks, request, world.now_ms, world.retention_ms)
    started = [each for each, what in zip(later, said, strict=True) if what is Withdrawn.STARTED]
    yield from place_rows(rows_of(schedule_id, entry.uid, left, started, definition), world)
    taken = [slot.instant_ms for _, slot in started]
    yield from _forget(namespace, schedule_id, entry, stored, len(later), taken, world)


def _forget(
    namespace: str, schedule_id: str, entry: Schedule, stored: bytes, later: int, taken: list[int], world: World
) -> Procedure[None]:
    created = entry.created - (later - len(taken))
    remaining = yield from _remaining(namespace, schedule_id, entry, created)
    wound_up = replace(
        entry,
        left=Recorded(),
        overlap=_without_withdrawn(entry, taken),
        taken=tuple(sorted({*entry.taken, *taken})),
        created=created,
        remaining=remaining,
    )
    expires_at_ms = world.now_ms() + DELETED_MS if entry.state is ScheduleState.DELETED else 0
    key = schedule_key(namespace, schedule_id)
    result: CasResult = yield TryCas(Cas(key, stored, wound_up.to_bytes(), expires_at_ms))
    if result.status is CasStatus.APPLIED:
        old = definition_key(namespace, schedule_id, entry.uid, entry.left.revision, entry.left.attempt)
        yield RemoveEntries([old])


def _remaining(namespace: str, schedule_id: str, entry: Schedule, created: int) -> Procedure[int]:
    """Of the limit in force, which may be lower than what was created before the withdrawal: then nothing is given
    back."""
    if entry.remaining < 0 or entry.state is ScheduleState.DELETED:
        return entry.remaining
    definition = yield from current_definition(namespace, schedule_id, entry)
    return max(0, definition.policies.max_count - created)


def _without_withdrawn(entry: Schedule, taken: Sequence[int]) -> OverlapState:
    """What was withdrawn is not open."""
    state, left = entry.overlap, entry.left
    if state.open is None or state.open.is_trigger or state.open.revision != left.revision:
        return state
    later = {slot.instant_ms for slot in left.slots if slot.fire_at_ms > entry.since_ms}
    is_withdrawn = state.open.instant_ms in later - {*taken}
    return replace(state, open=None) if is_withdrawn else state


def mark_broken(tick: Tick, error: str) -> Procedure[None]:
    """What its users are shown, until a tick comes through."""
    key = schedule_key(tick.namespace, tick.schedule_id)
    entry, stored = yield from read_schedule(key)
    is_its_own = entry is not None and (entry.uid, entry.revision) == (tick.uid, tick.revision)
    if entry is not None and is_its_own and entry.state is ScheduleState.ACTIVE and entry.error != error:
        yield TryCas(Cas(key, stored, replace(entry, error=error).to_bytes()))
