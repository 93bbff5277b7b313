"""Layouts of a cycle: where members of a high cost have their turn, if that is not where their hash is.

The places of a layout are rows that are written once, before the change of the cycle that names it. A change comes
into force with the first cycle of which no slot was recorded at that very compare-and-set: so an instance that fills a
slot, and reads the cycle after the slot was recorded, sees the layout that holds for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from timerd.core.protocol import ListEntries, Procedure, RemoveEntries, WriteEntries
from timerd.core.schedules.changes import Change, Decide
from timerd.core.slots import hash_of
from timerd.model.cycles import CycleShape, LayoutFrom, turn_at
from timerd.model.schedules import Definition, Schedule, ScheduleState
from timerd.model.storage import Entry, EntryKey

# The places of one layout.
MOST_PLACES = 20_000
_PAGE = 5_000
_AT_ONCE = 1_000
HASH_BYTES = 8
MemberHashes = Mapping[str, int]


def layout_place(uid: str, layout: str) -> bytes:
    return f"layout\0{uid}\0{layout}".encode()


def write_places(uid: str, layout: str, places: MemberHashes) -> Procedure[None]:
    """Before anything names the layout."""
    at = layout_place(uid, layout)
    entries = [Entry(EntryKey(at, key.encode()), hashed.to_bytes(HASH_BYTES, "big")) for key, hashed in places.items()]
    for start in range(0, len(entries), _AT_ONCE):
        yield WriteEntries(entries[start : start + _AT_ONCE])


def read_places(uid: str, layout: str) -> Procedure[dict[str, int]]:
    places: dict[str, int] = {}
    after = b""
    while True:
        found: list[list[Entry]] = yield ListEntries([(layout_place(uid, layout), after, _PAGE)])
        places |= {each.key.name.decode(): int.from_bytes(each.value, "big") for each in found[0]}
        if len(found[0]) < _PAGE:
            return places
        after = found[0][-1].key.name


def forget_places(uid: str, layout: str) -> Procedure[None]:
    """No slot is filled by it any more."""
    places = yield from read_places(uid, layout)
    names = [EntryKey(layout_place(uid, layout), key.encode()) for key in places]
    for start in range(0, len(names), _AT_ONCE):
        yield RemoveEntries(names[start : start + _AT_ONCE])


def laid_out(layout: str) -> Decide:
    """The change that brings a layout into force, at the next cycle that has not begun."""

    def decide(entry: Schedule, definition: Definition, now_ms: int) -> Change:
        shape = definition.cycle
        assert shape is not None
        since = _first_unrecorded(entry, shape, now_ms)
        earlier = tuple(each for each in shape.layouts if each.cycle < since)
        layouts = (*_still_needed(earlier, shape, now_ms), LayoutFrom(since, layout))
        wanted = replace(definition, cycle=replace(shape, layouts=layouts))
        if entry.state is ScheduleState.PAUSED:
            return Change(wanted, ScheduleState.PAUSED, entry.cur_ms, entry.since_ms)
        return Change(wanted, ScheduleState.ACTIVE)

    return decide


def _first_unrecorded(entry: Schedule, shape: CycleShape, now_ms: int) -> int:
    """Members of the cycle before it may have their tasks."""
    recorded = [slot.instant_ms for slot in (*entry.ahead.slots, *entry.left.slots)]
    return turn_at(shape, max(entry.cur_ms, entry.reached_ms, now_ms, *entry.taken, *recorded)).cycle + 1


def _still_needed(layouts: tuple[LayoutFrom, ...], shape: CycleShape, now_ms: int) -> tuple[LayoutFrom, ...]:
    """A slot is filled until it begins anew, and a task is withdrawn until its member has the next turn."""
    oldest = turn_at(shape, now_ms).cycle - 2
    over = [each for each in layouts if each.cycle <= oldest]
    return (*over[-1:], *layouts[len(over) :])


def place_of(key: str, places: MemberHashes) -> int:
    """The hash that counts."""
    return places.get(key) or hash_of(key)
