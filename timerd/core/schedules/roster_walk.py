"""The members of a roster in the order of their hashes, which is that of their moments: many segments of it together,
for most are empty where the members are few."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from timerd.core.protocol import ListEntries, Procedure
from timerd.core.schedules.roster import (
    HASH_BYTES,
    LEAST_PAGE,
    SEGMENT_BITS,
    RosterEntry,
    RosterPlace,
    latest,
    member_name,
    read_entry,
    segment_place,
)
from timerd.core.slots import slot_of, slot_range
from timerd.model.storage import Entry

SEGMENTS = 1 << SEGMENT_BITS
# Of the roster, listed together.
MOST_TOGETHER = 512


class RosterStretch(NamedTuple):
    """`entries`: of each member the one that counts, removed ones as well. `following` None: there are no more."""

    entries: list[RosterEntry]
    following: RosterPlace | None


def place_of_slot(slot: int, slots: int) -> RosterPlace:
    """Before its first member."""
    first = slot_range(slot, slots).first
    return RosterPlace(first >> 64 - SEGMENT_BITS, first.to_bytes(HASH_BYTES, "big"))


def slot_at(place: RosterPlace, slots: int) -> int:
    """That of the next member."""
    begin = (
        place.after[:HASH_BYTES] if place.after else (place.segment << 64 - SEGMENT_BITS).to_bytes(HASH_BYTES, "big")
    )
    return slot_of(int.from_bytes(begin, "big"), slots)


def walk_roster(uid: str, place: RosterPlace, together: int, limit: int) -> Procedure[RosterStretch]:
    """About `limit` members from there on, of `together` segments at most."""
    numbers = range(place.segment, min(place.segment + together, SEGMENTS))
    most = max(limit, LEAST_PAGE)
    asked = [(segment_place(uid, each), place.after if each == place.segment else b"", most) for each in numbers]
    found: list[Sequence[Entry]] = yield ListEntries(asked)
    entries: list[RosterEntry] = []
    for number, listed in zip(numbers, found, strict=True):
        own = [read_entry(each) for each in listed]
        if len(own) == most:
            # The last one may have further entries.
            last_key = own[-1].key
            entries += [each for each in own if each.key != last_key]
            return RosterStretch(_counting(entries), RosterPlace(number, member_name(last_key)))
        entries += own
        if len(entries) >= limit:
            return RosterStretch(_counting(entries), _behind(number))
    return RosterStretch(_counting(entries), _behind(numbers[-1]))


def walk_slot(
    uid: str, slot: int, slots: int, place: RosterPlace | None, together: int, limit: int
) -> Procedure[RosterStretch]:
    """Of the members whose hash is in the slot. `place`: None for the first ones."""
    part = slot_range(slot, slots)
    begin, last = place or place_of_slot(slot, slots), part.end - 1 >> 64 - SEGMENT_BITS
    entries, following = yield from walk_roster(uid, begin, min(together, last - begin.segment + 1), limit)
    inside = [each for each in entries if each.hash < part.end]
    is_over = following is None or following.segment > last or len(inside) < len(entries)
    return RosterStretch(inside, None if is_over else following)


def more_together(together: int, found: int, limit: int) -> int:
    """Where few are found, more segments are read together."""
    return 1 if found > limit // 8 else min(8 * together, MOST_TOGETHER)


def _behind(segment: int) -> RosterPlace | None:
    return RosterPlace(segment + 1, b"") if segment + 1 < SEGMENTS else None


def _counting(entries: Sequence[RosterEntry]) -> list[RosterEntry]:
    found = [latest([*same]) for _, same in groupby(entries, lambda each: each.key)]
    return [each for each in found if each is not None]
