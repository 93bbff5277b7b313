"""The task of a slot, which says whose turn it is: the cycle, the slot, and its range of hashes."""

from __future__ import annotations

from typing import Any

from timerd.core.slots import slot_range
from timerd.model.codec import dump_json
from timerd.model.cycles import CYCLE, CycleShape, RosterTurn, turn_at


def slot_payload(schedule_id: str, uid: str, shape: CycleShape, instant_ms: int) -> bytes:
    """A SlotTask in the JSON form of protobuf, in which numbers of 64 bits are texts."""
    turn = turn_at(shape, instant_ms)
    if shape.has_roster:
        return RosterTurn(shape.members.namespace, schedule_id, uid, turn.cycle, turn.slot).to_bytes()
    lo, hi = slot_range(turn.slot, shape.slots).signed
    said: dict[str, Any] = {
        "cycle_id": schedule_id.removeprefix(CYCLE),
        "cycle": str(turn.cycle),
        "slot": turn.slot,
        "of": shape.slots,
        "lo": str(lo),
        "hi": str(hi),
    }
    if shape.places:
        said["places"] = [_said_of(shape, turn.slot, place) for place in range(shape.place_count)]
    return dump_json(said)


def _said_of(shape: CycleShape, slot: int, place: int) -> dict[str, str]:
    lo, hi = slot_range(shape.slots_back(slot, place), shape.slots).signed
    return {"name": shape.places[place], "lo": str(lo), "hi": str(hi)}
