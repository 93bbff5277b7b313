"""Ticks of one moment worked together, each as by itself (chain.py): all registers, THEN all definitions, THEN a
compare-and-set each (W1), THEN the rows of those that were applied, THEN their next ticks. What goes together is the
trip to the store, which costs more than a tick does.

Only what is plain goes together. All else, and what was refused, is left to `run_tick`, which tells one from another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from timerd.core.protocol import FindEntries, Procedure, ReadRegisters, TryCasMany
from timerd.core.schedules.chain import Ticked, tick_of
from timerd.core.schedules.occurrences import tick_row, window_rows
from timerd.core.schedules.overlap import is_guarded
from timerd.core.schedules.planning import plan
from timerd.core.schedules.world import OccurrenceRow, World, place_rows
from timerd.model.errors import TimerdError
from timerd.model.registers import RegisterKey
from timerd.model.schedules import Definition, Schedule, ScheduleState, Tick, definition_key, schedule_key
from timerd.model.storage import Cas, CasResult, CasStatus, EntryKey

# Instants that are recorded without a step in between: as long nobody else is served. And what their rows take in one
# append.
MOST_INSTANTS = 256
MOST_BYTES = 1 << 20
ROW_BYTES = 256


class _Read(NamedTuple):
    """A plain tick, and the register by whose whole value its record is fenced."""

    tick: Tick
    key: RegisterKey
    entry: Schedule
    stored: bytes


class _Recorded(NamedTuple):
    """The record of a tick, which its rows follow from."""

    read: _Read
    definition: Definition
    entry: Schedule

    @property
    def change(self) -> Cas:
        return Cas(self.read.key, self.read.stored, self.entry.to_bytes())


def run_ticks(ticks: Sequence[Tick], world: World) -> Procedure[list[Ticked | None]]:
    """Each schedule once. None: it is to be worked by itself. Raises NotTakenIn, StoreUnknown and what the store
    raises: then each is to be worked by itself, and finds what it has recorded."""
    read = yield from _plain(ticks)
    found: Sequence[bytes | None] = (yield FindEntries([_definition_of(each) for each in read])) if read else []
    left = deque((each, stored) for each, stored in zip(read, found, strict=True) if stored is not None)
    done: set[RegisterKey] = set()
    while left:
        applied = yield from _applied(_planned(left, world), world)
        for rows in _in_parts(applied):
            yield from place_rows(rows, world)
        yield from place_rows([_next_tick(each) for each in applied if each.entry.tick], world)
        done.update(each.read.key for each in applied)
    return [Ticked.RECORDED if _key_of(tick) in done else None for tick in ticks]


def _key_of(tick: Tick) -> RegisterKey:
    return schedule_key(tick.namespace, tick.schedule_id)


def _plain(ticks: Sequence[Tick]) -> Procedure[list[_Read]]:
    keys = [_key_of(tick) for tick in ticks]
    found: Sequence[bytes | None] = yield ReadRegisters(keys)
    read: list[_Read] = []
    for tick, key, stored in zip(ticks, keys, found, strict=True):
        entry = _understood(stored)
        if entry is not None and stored is not None and _is_plain(entry, tick):
            read.append(_Read(tick, key, entry, stored))
    return read


def _understood(stored: bytes | None) -> Schedule | None:
    """None: there is nothing, or by itself it says what is wrong with it."""
    try:
        return Schedule.from_bytes(stored) if stored is not None else None
    except TimerdError:
        return None


def _is_plain(entry: Schedule, tick: Tick) -> bool:
    """Whether the next record is that of this tick, and nothing is left over by another one."""
    is_its_own = (entry.uid, entry.revision, entry.attempt) == (tick.uid, tick.revision, tick.attempt)
    is_next = entry.state is ScheduleState.ACTIVE and entry.seq == tick.number
    state = entry.overlap
    is_apart = state.open is not None or state.ousted is not None or bool(state.waiting)
    return is_its_own and is_next and not entry.left.slots and not is_apart


def _planned(left: deque[tuple[_Read, bytes]], world: World) -> list[_Recorded]:
    """W1: the next of them, by a clock that is looked at after they were read."""
    now = world.at_one_moment()
    planned: list[_Recorded] = []
    instants = 0
    while left and instants < MOST_INSTANTS:
        recorded = _record_of(*left.popleft(), now)
        if recorded is not None:
            planned.append(recorded)
            instants += recorded.entry.win
    return planned


def _definition_of(read: _Read) -> EntryKey:
    tick = read.tick
    return definition_key(tick.namespace, tick.schedule_id, tick.uid, tick.revision, tick.attempt)


def _record_of(read: _Read, stored: bytes, now: World) -> _Recorded | None:
    """None: by itself it is worked in another way, or says what is wrong with it."""
    tick, entry = read.tick, read.entry
    try:
        definition = Definition.from_bytes(stored)
        spec = definition.spec
        if is_guarded(entry, definition) or spec.fixed_delay_ms or not _may_compute(entry, spec.zone, now):
            return None
        recorded = plan(entry, definition, now.times(tick.schedule_id, definition), now, tick)
    except Exception:  # noqa: BLE001 - one that is wrong fails by itself, and no other one
        return None
    return _Recorded(read, definition, recorded.by_tzdata(now.tzdata))


def _may_compute(entry: Schedule, zone: str, world: World) -> bool:
    """Z3, without a look at the register of time zones."""
    return world.zones is None or world.zones.may_compute(zone, entry.zones)


def _applied(planned: Sequence[_Recorded], world: World) -> Procedure[list[_Recorded]]:
    if not planned:
        return []
    results: Sequence[CasResult] = yield TryCasMany([each.change for each in planned])
    said = zip(planned, results, strict=True)
    applied = [each for each, result in said if result.status is CasStatus.APPLIED]
    for each in applied:
        world.recorded(each.read.entry, each.entry)
    return applied


def _in_parts(applied: Sequence[_Recorded]) -> Iterator[list[OccurrenceRow]]:
    """The rows of all windows, so much at a time."""
    part: list[OccurrenceRow] = []
    size_bytes = 0
    for each in applied:
        for row in window_rows(each.read.tick.schedule_id, each.entry, each.definition):
            part.append(row)
            size_bytes += ROW_BYTES + len(each.definition.payload)
            if size_bytes >= MOST_BYTES:
                yield part
                part, size_bytes = [], 0
    if part:
        yield part


def _next_tick(recorded: _Recorded) -> OccurrenceRow:
    tick = recorded.read.tick
    return tick_row(tick_of(tick.namespace, tick.schedule_id, recorded.entry), *recorded.entry.tick)
