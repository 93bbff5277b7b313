"""Places of a cycle, the kinds of turns that one member may have, as calls name them."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from timerd.core.schedules.member_tasks import is_of_slot
from timerd.core.schedules.roster import RosterPlace
from timerd.model.cycles import PLACE_LABEL, CycleShape
from timerd.model.errors import Invalid
from timerd.model.task import Template
from timerd.services.calls.fields import quoted
from timerd.services.calls.page_tokens import after_of, page_token
from timerd.services.schedules.rosters import MembersPlace
from timerd.v1 import cycle_service_pb2 as wire

MAX_PLACES = 32
_NAME = re.compile(r"[A-Za-z0-9._\-/:]{1,64}")
# Place, slot, segment (plus one; 0: the first), and how much of the rest is the name behind which it goes on.
_LISTED = struct.Struct(">HHIH")
_NAME_BYTES = 1_100


def checked_places(names: Sequence[str], members: Template) -> tuple[str, ...]:
    """Raises Invalid. `members`: what their tasks have."""
    if len(names) > MAX_PLACES:
        raise Invalid(f"There are {len(names)} places: give at most {MAX_PLACES}.", "places")
    for n, name in enumerate(names):
        if not _NAME.fullmatch(name):
            raise Invalid(
                f"The place {quoted(name)} is not allowed: give 1 to 64 characters of A-Z a-z 0-9 . _ - / :",
                f"places[{n}]",
            )
        if name in names[:n]:
            raise Invalid(f"There are two places {quoted(name)}: give each one a name of its own.", f"places[{n}]")
    if names and PLACE_LABEL in dict(members.labels):
        raise Invalid(
            f"The label {PLACE_LABEL!r} of the members' tasks says their place: choose another name for yours.",
            "template.labels",
        )
    return tuple(names)


def check_slot(request: wire.FillSlotRequest, shape: CycleShape, place: int) -> None:
    """Raises Invalid."""
    if request.slot >= shape.slots:
        raise Invalid(f"There is no slot {request.slot}: this cycle has the slots 0 to {shape.slots - 1}.", "slot")
    for n, key in enumerate(request.keys):
        if not is_of_slot(shape, request.slot, key, place):
            where = f"slot {request.slot} of {shape.slots}"
            raise Invalid(
                f"The key {quoted(key)} is not in {where}{_of_place(shape, place)}: select by the range from lo to hi "
                "of the slot's task, over the hash of docs/use/slots.md.",
                f"keys[{n}]",
                "NOT_IN_SLOT",
            )


def _of_place(shape: CycleShape, place: int) -> str:
    return f" at the place {shape.places[place]}" if shape.places else ""


def listed_of(request: wire.ListMembersRequest) -> MembersPlace:
    raw = after_of(request, _LISTED.size + _NAME_BYTES)
    if raw is None:
        return MembersPlace()
    kind, slot, segment, size = _LISTED.unpack_from(raw)
    after = raw[_LISTED.size : _LISTED.size + size]
    return MembersPlace(kind, slot, RosterPlace(segment - 1, after) if segment else None)


def listed_token(request: wire.ListMembersRequest, listed: MembersPlace) -> str:
    segment, after = (listed.place.segment + 1, listed.place.after) if listed.place is not None else (0, b"")
    packed = _LISTED.pack(listed.kind, listed.slot, segment, len(after))
    return page_token(request, packed + after.ljust(_NAME_BYTES, b"\0"))
