"""The roster of a cycle, where timerd keeps it: who is a member, and what becomes of one who comes or goes while a slot
is under way (rule Y4; tests/models/cycle.pml).

An entry of a member is written and never changed; of several the one with the largest stamp counts. Expander: the slot
is recorded, THEN the roster is read. Put: the entry, THEN the record is read, THEN the roster again. Remove: the
entry, THEN the record is read, THEN the tasks of what is recorded are withdrawn, also those that are not there yet.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import NamedTuple

from timerd.core.protocol import (
    Forgotten,
    ListEntries,
    Procedure,
    RemoveEntries,
    Withdrawn,
    WriteEntries,
    withdraw,
    withdraw_together,
)
from timerd.core.schedules.changes import Name, check_alive
from timerd.core.schedules.layouts import MemberHashes, read_places
from timerd.core.schedules.member_tasks import (
    CycleRun,
    SlotMember,
    is_of_slot,
    member_rows,
    member_task,
    place_one,
    place_together,
)
from timerd.core.schedules.world import MissedPlace, World, current_definition, read_schedule
from timerd.core.slots import hash_of
from timerd.model.cycles import CycleShape, Turn, instant_ms, turn_at
from timerd.model.errors import Precondition
from timerd.model.storage import Entry, EntryKey

# MemberHashes of entries: by the first bits of the hash.
SEGMENT_BITS = 12
HASH_BYTES, STAMP_BYTES = 8, 8
# Entries of one member that are not cleared away yet.
MOST_ENTRIES = 1_000
# All entries of one member are in one page.
LEAST_PAGE = 64
# A removed member is remembered for so long: what was under way is over then.
REMOVED_KEPT_MS = 86_400_000
# Of an entry: with a weight of its own, it stands before the payload.
_ADDED, _WEIGHTED, _REMOVED = b"+", b"*", b"-"
_WEIGHT = struct.Struct(">d")


class RosterEntry(NamedTuple):
    """`payload` None: it was removed."""

    name: EntryKey
    key: str
    stamp: int
    payload: bytes | None
    weight: float = 1.0

    @property
    def hash(self) -> int:
        return int.from_bytes(self.name.name[:HASH_BYTES], "big")


class Roster(NamedTuple):
    """Of a cycle as it was read, of one kind of its members' turns: `place`. `cur_ms`: slots are recorded up to this
    instant; `reached_ms`: they were, by this revision or one before. `places`: by layout."""

    uid: str
    shape: CycleShape
    cur_ms: int
    reached_ms: int = 0
    places: Mapping[str, MemberHashes] = MappingProxyType({})
    place: int = 0

    @property
    def entries_uid(self) -> str:
        """By which its entries are named: each kind has its own ones."""
        return place_uid(self.uid, self.place)

    def run(self, number: int) -> CycleRun:
        return CycleRun(self.uid, self.shape, number, self.places_at(number), self.places_at(number + 1), self.place)

    def of(self, place: str) -> list[Roster]:
        """Those of all kinds where there is no name. Raises Invalid."""
        return [self._replace(place=number) for number in self.shape.place_numbers(place)]

    def places_at(self, number: int) -> MemberHashes:
        return self.places.get(self.shape.layout_at(number), _HASHES)

    def recorded(self, key: str) -> int:
        """The number of the last cycle in which the slot of the key is recorded."""
        return self._last(key, self.cur_ms)

    def reached(self, key: str) -> int:
        """The number of the last cycle in which the key may have a task."""
        return self._last(key, max(self.cur_ms, self.reached_ms))

    def _last(self, key: str, until_ms: int) -> int:
        number = turn_at(self.shape, until_ms).cycle
        while instant_ms(self.shape, Turn(number, self.run(number).slot_at(key))) > until_ms:
            number -= 1
        return number


# Each member is where its hash is.
_HASHES: MemberHashes = MappingProxyType({})


class RosterPlace(NamedTuple):
    """Behind this name of a segment."""

    segment: int
    after: bytes


def place_uid(uid: str, place: int) -> str:
    return f"{uid}\0{place}" if place else uid


def read_roster(name: Name, uid: str = "") -> Procedure[Roster]:
    """That of the first kind. `uid`: of the cycle that is meant, where it was read before. Raises NotFound, and
    Precondition where the members are in the caller's database."""
    entry, _ = yield from read_schedule(name.key)
    entry = check_alive(name, entry if entry is not None and uid in ("", entry.uid) else None)
    definition = yield from current_definition(name.namespace, name.schedule_id, entry)
    shape = definition.cycle
    if shape is None or not shape.has_roster:
        raise Precondition(
            f"The members of the cycle {name.shown!r} are in your database: workers of its slot_queue name them.",
            "NO_ROSTER",
            field="cycle_id",
        )
    places: dict[str, MemberHashes] = {}
    for each in shape.layouts:
        places[each.layout] = yield from read_places(entry.uid, each.layout)
    return Roster(entry.uid, shape, entry.cur_ms, entry.reached_ms, places)


def put_members(name: Name, members: Sequence[SlotMember], world: World, place: str = "") -> Procedure[None]:
    """Each has its turn from the next moment on whose slot is not filled already. Raises NotFound, Precondition, and
    Invalid where the cycle has no such place."""
    roster = yield from read_roster(name)
    roster = roster._replace(place=roster.shape.place_number(place))
    keys, uid = [member.key for member in members], roster.entries_uid
    before = yield from entries_of(uid, keys)
    now_ms = world.now_ms()
    yield WriteEntries([_entry(uid, each, _stamp(before[each.key], now_ms)) for each in members])
    yield from _clear(found for each in before.values() for found in each)
    roster = (yield from read_roster(name, roster.uid))._replace(place=roster.place)
    due = turns_to_come(roster, keys, world.now_ms())
    if not due:
        return
    current = yield from entries_of(uid, [key for _, key in due])
    for number, of_number in groupby(due, lambda each: each[0]):
        alive = [latest(current[key]) for _, key in of_number]
        yield from fill(roster.run(number), members_of(each for each in alive if each is not None), world)


def turns_to_come(roster: Roster, keys: Iterable[str], now_ms: int) -> list[tuple[int, str]]:
    """(cycle, key), in order: those whose slot is recorded, and whose moment is to come."""
    found: list[tuple[int, str]] = []
    for key in keys:
        number = roster.recorded(key)
        while roster.run(number).moment_ms(key) > now_ms:
            found.append((number, key))
            number -= 1
    return sorted(found)


def remove_members(
    name: Name, keys: Sequence[str], world: World, place: str = ""
) -> Procedure[list[tuple[CycleRun, str]]]:
    """Of whom tasks are to be withdrawn before the OK (`withdraw_members`), of all kinds where there is no place.
    Raises NotFound, Precondition, and Invalid where the cycle has no such place."""
    roster = yield from read_roster(name)
    left: list[tuple[CycleRun, str]] = []
    for each in roster.of(place):
        left += yield from _remove(name, each, keys, world)
    return left


def _remove(name: Name, roster: Roster, keys: Sequence[str], world: World) -> Procedure[list[tuple[CycleRun, str]]]:
    uid = roster.entries_uid
    before = yield from entries_of(uid, keys)
    known = [key for key in keys if before[key]]
    now_ms = world.now_ms()
    gone = [key for key in known if _is_member(before[key])]
    yield WriteEntries([_removal(uid, key, _stamp(before[key], now_ms)) for key in gone])
    yield from _clear(found for key in gone for found in before[key])
    roster = (yield from read_roster(name, roster.uid))._replace(place=roster.place)
    return [(roster.run(number), key) for key in known for number in _numbers_alive(roster, key, now_ms)]


def _numbers_alive(roster: Roster, key: str, now_ms: int) -> list[int]:
    """Whose task may start yet: it expires when its member has the next turn."""
    numbers: list[int] = []
    number = roster.reached(key)
    while roster.run(number + 1).moment_ms(key) > now_ms:
        numbers.append(number)
        number -= 1
    return numbers


def withdraw_members(chosen: Sequence[tuple[CycleRun, str]], world: World) -> Procedure[None]:
    """Of many members, or turns of one, together."""
    yield from withdraw_together([withdraw_member(run, key, world) for run, key in chosen])


def withdraw_member(run: CycleRun, key: str, world: World) -> Procedure[Withdrawn]:
    """What has started keeps its retries; what is not there yet never comes."""
    request = f"removed {run.uid} {run.number}"
    return (yield from withdraw(member_task(run, key), request, world.now_ms(), world.retention_ms))


def fill(run: CycleRun, members: Sequence[SlotMember], world: World) -> Procedure[None]:
    """Each has its task then, also where it had it before."""
    if not members:
        return
    groups = member_rows(run, members, world.now_ms())
    try:
        yield from place_together(groups, world)
    except (MissedPlace, Forgotten):
        for place, rows in groups.items():
            for n in range(len(rows)):
                yield from place_one(place, rows.one(n), world)


# --- entries -------------------------------------------------------------------------------------------------------


def entries_of(uid: str, keys: Sequence[str]) -> Procedure[dict[str, list[RosterEntry]]]:
    asked = [(segment_place(uid, _segment_of(key)), member_name(key), MOST_ENTRIES) for key in keys]
    found: list[Sequence[Entry]] = yield ListEntries(asked)
    return {
        key: [read_entry(each) for each in entries if each.key.name.startswith(member_name(key))]
        for key, entries in zip(keys, found, strict=True)
    }


def moved_into(run: CycleRun, slot: int) -> Procedure[list[SlotMember]]:
    """Members that are in this slot by a layout, and elsewhere by their hash."""
    uid = place_uid(run.uid, run.place)
    keys = [key for key in run.places if run.slot_at(key) == slot and not is_of_slot(run.shape, slot, key, run.place)]
    found: list[SlotMember] = []
    for start in range(0, len(keys), MOST_ENTRIES):
        entries = yield from entries_of(uid, keys[start : start + MOST_ENTRIES])
        found += members_of(each for each in map(latest, entries.values()) if each is not None)
    return found


def staying_in(run: CycleRun, slot: int, entries: Iterable[RosterEntry]) -> list[SlotMember]:
    """Of those whose hash is in the slot, the members that are there by the layout as well."""
    return [each for each in members_of(entries) if run.slot_at(each.key) == slot]


def members_of(entries: Iterable[RosterEntry]) -> list[SlotMember]:
    """Without those that were removed."""
    return [SlotMember(each.key, each.payload, each.weight) for each in entries if each.payload is not None]


def forget_removed(entries: Sequence[RosterEntry], now_ms: int) -> Procedure[None]:
    """Those that were removed long ago."""
    old = [each.name for each in entries if each.payload is None and each.stamp < now_ms - REMOVED_KEPT_MS]
    if old:
        yield RemoveEntries(old)


def latest(entries: Sequence[RosterEntry]) -> RosterEntry | None:
    return max(entries, key=lambda each: each.stamp, default=None)


def _is_member(entries: Sequence[RosterEntry]) -> bool:
    found = latest(entries)
    return found is not None and found.payload is not None


def _stamp(before: Sequence[RosterEntry], now_ms: int) -> int:
    """Beyond all that were acknowledged, whichever instance's clock they are by."""
    found = latest(before)
    return max(now_ms, found.stamp + 1) if found is not None else now_ms


def _clear(entries: Iterable[RosterEntry]) -> Procedure[None]:
    """What does not count any more, for a later one is durable."""
    names = [each.name for each in entries]
    if names:
        yield RemoveEntries(names)


def segment_place(uid: str, segment: int) -> bytes:
    return f"members\0{uid}\0{segment}".encode()


def _segment_of(key: str) -> int:
    return hash_of(key) >> 64 - SEGMENT_BITS


def member_name(key: str) -> bytes:
    """What the names of all entries of a key begin with."""
    return hash_of(key).to_bytes(HASH_BYTES, "big") + key.encode() + b"\0"


def _entry(uid: str, member: SlotMember, stamp: int) -> Entry:
    name = member_name(member.key) + stamp.to_bytes(STAMP_BYTES, "big")
    mark = _ADDED if member.weight == 1 else _WEIGHTED + _WEIGHT.pack(member.weight)
    return Entry(EntryKey(segment_place(uid, _segment_of(member.key)), name), mark + member.payload)


def _removal(uid: str, key: str, stamp: int) -> Entry:
    name = member_name(key) + stamp.to_bytes(STAMP_BYTES, "big")
    return Entry(EntryKey(segment_place(uid, _segment_of(key)), name), _REMOVED)


def read_entry(entry: Entry) -> RosterEntry:
    name, value = entry.key.name, entry.value
    key, stamp = name[HASH_BYTES : -STAMP_BYTES - 1].decode(), int.from_bytes(name[-STAMP_BYTES:], "big")
    if value[:1] == _WEIGHTED:
        [weight] = _WEIGHT.unpack_from(value, 1)
        return RosterEntry(entry.key, key, stamp, value[1 + _WEIGHT.size :], weight)
    return RosterEntry(entry.key, key, stamp, value[1:] if value[:1] == _ADDED else None)
