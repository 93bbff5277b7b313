"""What is stored of a cycle beside what any schedule has: a cycle is a schedule whose instants are its slots.

Its name in the registers is that of no schedule, for callers may use no brackets.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from timerd.model.codec import check_understood, dump_json, field_names, split_known, with_kept
from timerd.model.errors import Invalid
from timerd.model.registers import RegisterKey, Table
from timerd.model.task import Template

# Before the id of a cycle, where those of schedules stand.
CYCLE = "(cycle)"
# By which the task of a member says its kind, where there are some.
PLACE_LABEL = "place"
# Of the task of a slot: a SlotTask of the wire, as JSON.
SLOT_CONTENT = "application/vnd.timerd.slot+json"


class LayoutFrom(NamedTuple):
    """From this cycle on members have their places by that layout (core/schedules/layouts.py)."""

    cycle: int
    layout: str


@dataclass(frozen=True, slots=True)
class CycleShape:
    """`members`: what their tasks have. `lead_ms`: the task of a slot comes so long before the slot. `shards`: over so
    many the tasks of members are spread in each bucket: it never changes, for a repeat finds a task by it."""

    period_ms: int
    slots: int
    origin_ms: int
    lead_ms: int
    shards: int
    members: Template
    # Whether timerd keeps the members, and not the caller's database.
    has_roster: bool = False
    # In the order of their cycles; before the first one, and without any, each member is where its hash is.
    layouts: tuple[LayoutFrom, ...] = ()
    # The kinds of turns that one member may have, equally far from each other; none: there is one, without a name.
    places: tuple[str, ...] = ()
    kept: str = ""

    @property
    def slot_ms(self) -> int:
        return self.period_ms // self.slots

    @property
    def place_count(self) -> int:
        return max(1, len(self.places))

    def place_number(self, name: str) -> int:
        """Raises Invalid."""
        if name in self.places:
            return self.places.index(name)
        if not self.places and not name:
            return 0
        wrong = f"There is no place {name!r}" if name else "The place is missing"
        right = f"has the places {', '.join(self.places)}" if self.places else "has none, leave it out"
        raise Invalid(f"{wrong}: this cycle {right}.", "place")

    def place_numbers(self, name: str) -> range:
        """All of them where there is no name. Raises Invalid."""
        if not name:
            return range(self.place_count)
        number = self.place_number(name)
        return range(number, number + 1)

    def place_ms(self, place: int) -> int:
        """How much later than its first kind of turn a member has this one, around the circle."""
        return place * (self.period_ms // self.place_count)

    def slots_back(self, slot: int, place: int) -> int:
        """The slot in which the hashes are of those who have this kind of turn in `slot`."""
        return (slot - place * (self.slots // self.place_count)) % self.slots

    def slots_on(self, slot: int, place: int) -> int:
        """The inverse of `slots_back`."""
        return (slot + place * (self.slots // self.place_count)) % self.slots

    def layout_at(self, cycle: int) -> str:
        """Empty: there is none."""
        return next((each.layout for each in reversed(self.layouts) if each.cycle <= cycle), "")

    def to_json(self) -> dict[str, Any]:
        """Without what is plain."""
        values: dict[str, Any] = {name: getattr(self, name) for name in _SHAPE if name not in _PLAIN}
        values |= {name: getattr(self, name) for name in _PLAIN if getattr(self, name)}
        return with_kept(values | {"members": self.members.to_json()}, self.kept)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> CycleShape:
        """Raises NotUnderstood."""
        values, kept = split_known(stored, _SHAPE)
        check_understood("A cycle", kept)
        values["members"] = Template.from_json(values["members"])
        values["layouts"] = tuple(LayoutFrom(*each) for each in values.get("layouts", ()))
        values["places"] = tuple(values.get("places", ()))
        return cls(**values, kept=kept)


class Turn(NamedTuple):
    """Of a slot: in cycle number `cycle`."""

    cycle: int
    slot: int


class RosterTurn(NamedTuple):
    """The payload of a slot's task where timerd keeps the members."""

    namespace: str
    schedule_id: str
    uid: str
    cycle: int
    slot: int

    def to_bytes(self) -> bytes:
        return dump_json(list(self))

    @classmethod
    def from_bytes(cls, stored: bytes) -> RosterTurn:
        return cls(*json.loads(stored)[: len(cls._fields)])


def turn_at(shape: CycleShape, instant_ms: int) -> Turn:
    """Of an instant of the chain, which is a lead before its slot."""
    begin_ms = instant_ms + shape.lead_ms - shape.origin_ms
    return Turn(begin_ms // shape.period_ms, begin_ms % shape.period_ms // shape.slot_ms)


def begin_ms(shape: CycleShape, turn: Turn) -> int:
    return shape.origin_ms + turn.cycle * shape.period_ms + turn.slot * shape.slot_ms


def instant_ms(shape: CycleShape, turn: Turn) -> int:
    """The inverse of `turn_at`."""
    return begin_ms(shape, turn) - shape.lead_ms


def cost_key(uid: str, slot: int) -> RegisterKey:
    """Of what a slot has cost. No namespace is empty, so no schedule is named so."""
    return RegisterKey(Table.SCHEDULES, f"\0cost\0{uid}\0{slot}".encode())


_SHAPE = field_names(CycleShape)
_PLAIN = ("has_roster", "layouts", "places")
