"""Ticks of one moment worked together, each as by itself (chain.py): all registers, THEN all definitions, THEN their
records (recording_many.py). What goes together is the trip to the store, which costs more than a tick does.

What is plain is done here. Where occurrences must not run beside each other, what was read is given back, to be decided
together as well (deciding_many.py). All else, and what was refused, is left to `run_tick`, which tells one from
another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from timerd.core.protocol import FindEntries, Procedure, ReadRegisters
from timerd.core.schedules.chain import Ticked
from timerd.core.schedules.overlap import is_guarded
from timerd.core.schedules.planning import plan
from timerd.core.schedules.recording_many import ReadTick, RecordedTick, complete_many, record_many
from timerd.core.schedules.world import World
from timerd.model.registers import RegisterKey
from timerd.model.schedules import Definition, Schedule, ScheduleState, Tick, definition_key, schedule_key
from timerd.model.storage import EntryKey

# Instants that are recorded without a step in between: as long nobody else is served.
MOST_INSTANTS = 256
Understood = TypeVar("Understood")
_Next = tuple[Tick, RegisterKey, Schedule, bytes]


def run_ticks(ticks: Sequence[Tick], world: World) -> Procedure[list[Ticked | ReadTick | None]]:
    """Each schedule once. ReadTick: it is to be decided by what was read. None: it is to be worked by itself. Raises
    NotTakenIn, StoreUnknown and what the store raises: then each is to be worked by itself, and finds what it has
    recorded."""
    read = yield from _read(ticks, world)
    said: dict[RegisterKey, Ticked | ReadTick] = {
        each.key: each for each in read if is_guarded(each.entry, each.definition)
    }
    left = deque(each for each in read if each.key not in said and _is_plain(each))
    while left:
        applied = yield from record_many(_planned(left, world), world)
        yield from complete_many(applied, world)
        said.update({each.read.key: Ticked.RECORDED for each in applied})
    return [said.get(_key_of(tick)) for tick in ticks]


def _key_of(tick: Tick) -> RegisterKey:
    return schedule_key(tick.namespace, tick.schedule_id)


def _read(ticks: Sequence[Tick], world: World) -> Procedure[list[ReadTick]]:
    """Those whose next record is that of their tick, and whose instants may be computed here."""
    upcoming = yield from _next_of(ticks)
    keys = [_definition_of(tick) for tick, *_ in upcoming]
    stored: Sequence[bytes | None] = (yield FindEntries(keys)) if keys else []
    read: list[ReadTick] = []
    for each, value in zip(upcoming, stored, strict=True):
        definition = _understood(Definition.from_bytes, value)
        if definition is not None and _may_compute(each[2], definition.spec.zone, world):
            read.append(ReadTick(*each, definition))
    return read


def _next_of(ticks: Sequence[Tick]) -> Procedure[list[_Next]]:
    keys = [_key_of(tick) for tick in ticks]
    found: Sequence[bytes | None] = (yield ReadRegisters(keys)) if keys else []
    upcoming: list[_Next] = []
    for tick, key, stored in zip(ticks, keys, found, strict=True):
        entry = _understood(Schedule.from_bytes, stored)
        if entry is not None and stored is not None and _is_next(entry, tick):
            upcoming.append((tick, key, entry, stored))
    return upcoming


def _understood(read: Callable[[bytes], Understood], stored: bytes | None) -> Understood | None:
    """None: there is nothing, or by itself it says what is wrong with it."""
    try:
        return read(stored) if stored is not None else None
    except Exception:  # noqa: BLE001 - one that is wrong fails by itself, and no other one
        return None


def _is_next(entry: Schedule, tick: Tick) -> bool:
    """Whether the next record is that of this tick, and nothing is left over by another revision."""
    is_its_own = (entry.uid, entry.revision, entry.attempt) == (tick.uid, tick.revision, tick.attempt)
    is_next = entry.state is ScheduleState.ACTIVE and entry.seq == tick.number
    return is_its_own and is_next and not entry.left.slots


def _is_plain(read: ReadTick) -> bool:
    """Whether nothing is open from before a change, and its instants follow from no end."""
    state = read.entry.overlap
    return state.open is None and state.ousted is None and not read.definition.spec.fixed_delay_ms


def _definition_of(tick: Tick) -> EntryKey:
    return definition_key(tick.namespace, tick.schedule_id, tick.uid, tick.revision, tick.attempt)


def _may_compute(entry: Schedule, zone: str, world: World) -> bool:
    """Z3, without a look at the register of time zones."""
    return world.zones is None or world.zones.may_compute(zone, entry.zones)


def _planned(left: deque[ReadTick], world: World) -> list[RecordedTick]:
    """W1: the next of them, by a clock that is looked at after they were read."""
    now = world.at_one_moment()
    planned: list[RecordedTick] = []
    instants = 0
    while left and instants < MOST_INSTANTS:
        recorded = _record_of(left.popleft(), now)
        if recorded is not None:
            planned.append(recorded)
            instants += recorded.entry.win
    return planned


def _record_of(read: ReadTick, now: World) -> RecordedTick | None:
    """None: by itself it says what is wrong with it."""
    tick, definition = read.tick, read.definition
    try:
        recorded = plan(read.entry, definition, now.times(tick.schedule_id, definition), now, tick)
    except Exception:  # noqa: BLE001 - as above
        return None
    return RecordedTick(read, recorded.by_tzdata(now.tzdata))
